// TLS and credentials of the client.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "connect/nats/client_testing.h"
#include "connect/nats/credentials_testing.h"
#include "net/tls_testing.h"

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;
using net::testing::TestCertificate;
using testing::NatsClientTest, testing::NatsServer, testing::publish;

// ---- identity -------------------------------------------------------------------------------------------------------

TEST_F(NatsClientTest, ConnectsWithEachKindOfCredentials) {
  using namespace credentials;
  const auto text = [](auto... parts) {
    std::ostringstream all;
    (all << ... << parts);
    return all.str();
  };
  const auto creds = [&](std::string_view jwt) {
    return text("-----BEGIN NATS USER JWT-----\n", jwt,
                "\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n", kUserSeed,
                "\n------END USER NKEY SEED------\n");
  };
  const std::string password = files.write("password", "geheim\n"), token = files.write("token", "t0ken\n"),
                    wrong = files.write("wrong", "wr0ng"), seed = files.write("seed", kUserSeed),
                    good_creds = files.write("good.creds", creds(kUserJwt)),
                    wrong_creds =
                        files.write("wrong.creds", creds(text(kUserJwt.substr(0, kUserJwt.size() - 4), "AAAA")));
  const std::string other_nkey = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
  struct Kind {
    const char* name;
    std::string server;
    NatsAccess good, wrong;
  };
  std::vector<Kind> kinds(4);
  kinds[0] = {"user", "authorization: { user: u, password: geheim }", {}, {}};
  kinds[0].good.user = kinds[0].wrong.user = "u";
  kinds[0].good.password_file = password;
  kinds[0].wrong.password_file = wrong;
  kinds[1] = {"token", "authorization: { token: t0ken }", {}, {}};
  kinds[1].good.token_file = token;
  kinds[1].wrong.token_file = wrong;
  kinds[2] = {"nkey", text("authorization: { users: [ { nkey: ", kUserPub, " } ] }"), {}, {}};
  kinds[2].good.nkey = kUserPub;
  kinds[2].wrong.nkey = other_nkey;
  kinds[2].good.seed_file = kinds[2].wrong.seed_file = seed;
  kinds[3] = {
      "creds",
      text("operator: ", kOperatorJwt, "\nresolver: MEMORY\nresolver_preload: { ", kAccount, ": ", kAccountJwt, " }"),
      {},
      {}};
  kinds[3].good.creds_file = good_creds;
  kinds[3].wrong.creds_file = wrong_creds;
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const NatsServer server{kind.server};
    options.access = kind.good;
    EXPECT_EQ(cause_of(server.endpoint()), "");
    for (const NatsAccess& access : {kind.wrong, NatsAccess{}}) {
      options.access = access;
      const std::string cause = cause_of(server.endpoint());
      EXPECT_TRUE(cause.starts_with("the server refused the credentials (")) << cause;
      EXPECT_NE(cause.find("planner.nats"), std::string::npos) << cause;
      EXPECT_EQ(cause.find("wr0ng"), std::string::npos) << cause;
    }
  }
}

TEST_F(NatsClientTest, ReadsThePasswordAgainForEachConnection) {
  NatsServer server{"authorization: { user: u, password: first }"};
  options.access.user = "u";
  options.access.password_file = files.write("password", "first");
  open(server.endpoint());
  run_until([&] { return client->is_connected(); });
  server.stop();
  static_cast<void>(files.write("password", "second"));
  server.start("authorization: { user: u, password: second }");
  run_until([&] { return reports.size() > 1 && client->is_connected(); });
  static_cast<void>(files.write("password", ""));
  server.stop();
  run_until([&] { return reports.back().find("has no secret") != std::string::npos; });
}

TEST_F(NatsClientTest, NamesAFileThatItCannotRead) {
  const NatsServer server;
  const auto cause_with = [&](std::string NatsAccess::*file) {
    options.access = {};
    options.access.*file = "/nowhere/file";
    if (file == &NatsAccess::certificate) options.access.key_file = "/nowhere/key";
    return cause_of(server.endpoint());
  };
  for (const auto file : {&NatsAccess::ca_file, &NatsAccess::certificate, &NatsAccess::token_file}) {
    const std::string cause = cause_with(file);
    EXPECT_NE(cause.find("/nowhere/file"), std::string::npos) << cause;
  }
}

// ---- TLS ------------------------------------------------------------------------------------------------------------

class NatsTlsTest : public NatsClientTest {
 protected:
  [[nodiscard]] std::string configuration(const TestCertificate& of_server, const char* more = "") const {
    return "tls: { cert_file: \"" + of_server.certificate() + "\", key_file: \"" + of_server.key() + "\", ca_file: \"" +
           authority.certificate() + "\"" + more + " }";
  }

  TestCertificate authority, other_authority;
  TestCertificate certificate{{.common_name = "server", .issuer = &authority}};
  TestCertificate client_certificate{{.common_name = "client", .issuer = &authority}};
};

TEST_F(NatsTlsTest, ReceivesOverTls) {
  const NatsServer server{configuration(certificate)};
  options.access.ca_file = authority.certificate();
  open(server.endpoint(true));
  ASSERT_TRUE(client->subscribe("a.b"));
  run_until([&] { return client->is_connected(); });
  publish(server, "a.b", "hi", 1,
          [&](natsOptions* made) { natsOptions_LoadCATrustedCertificates(made, authority.certificate().c_str()); });
  run_until([&] { return messages.size() == 1; });
  EXPECT_EQ(reports, std::vector<std::string>{""});
}

TEST_F(NatsTlsTest, ConnectsToANameOfTheCertificateOnly) {
  const NatsServer server{configuration(certificate)};
  options.access.ca_file = authority.certificate();
  options.resolve = [](const std::string&, std::uint16_t port) -> net::Resolver::Addresses {
    return std::vector{*net::Address::parse("127.0.0.1", port)};
  };
  EXPECT_EQ(cause_of({"localhost", server.endpoint().port, {}, true}), "");
  const std::string cause = cause_of({"nats.example", server.endpoint().port, {}, true});
  EXPECT_NE(cause.find("nats.example"), std::string::npos) << cause;
  EXPECT_NE(cause.find("the name in the certificate"), std::string::npos) << cause;
}

TEST_F(NatsTlsTest, RefusesACertificateOfAnUnknownAuthority) {
  const NatsServer server{configuration(certificate)};
  for (const bool tls : {true, false}) {  // The server requires TLS in both cases.
    options.access.ca_file = tls ? other_authority.certificate() : "";
    const std::string cause = cause_of(server.endpoint(tls));
    EXPECT_TRUE(cause.starts_with("TLS failed (")) << cause;
    EXPECT_NE(cause.find("check planner.nats.ca_file"), std::string::npos) << cause;
  }
}

TEST_F(NatsTlsTest, PresentsAClientCertificate) {
  const NatsServer server{configuration(certificate, ", verify: true")};
  options.access.ca_file = authority.certificate();
  for (const TestCertificate* wrong : {static_cast<TestCertificate*>(nullptr), &other_authority}) {
    options.access.certificate = wrong == nullptr ? "" : wrong->certificate();
    options.access.key_file = wrong == nullptr ? "" : wrong->key();
    const std::string cause = cause_of(server.endpoint(true));
    EXPECT_NE(cause.find("check planner.nats.certificate"), std::string::npos) << cause;
  }
  options.access.certificate = client_certificate.certificate();
  options.access.key_file = client_certificate.key();
  EXPECT_EQ(cause_of(server.endpoint(true)), "");
}

TEST_F(NatsTlsTest, DoesNotConnectWithoutTlsIfItIsRequired) {
  const NatsServer server;
  EXPECT_EQ(cause_of(server.endpoint(true)), "the server has no TLS; use the scheme nats://");
}

}  // namespace
}  // namespace penstock::connect
