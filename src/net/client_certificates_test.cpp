// Certificates on both ends of a connection: expired, wrong, foreign, in memory.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "net/client_testing.h"
#include "net/fetch.h"
#include "net/server_testing.h"
#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

std::string content_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::shared_ptr<TlsContext> client_with(const TestCertificate& ca, const TestCertificate& own) {
  auto made = TlsContext::client(ca.certificate(), own.certificate(), own.key());
  EXPECT_TRUE(made) << made.error().message();
  return made.value_or(nullptr);
}

// A server that answers with the name of its client.
class NamingServer {
 public:
  NamingServer(const TestCertificate& own, const Pem& client_ca, ClientCertificates clients)
      : server_{[](Exchange& exchange) { exchange.respond(200, {}, exchange.client_name()); },
                {},
                *TlsContext::server(own.certificate(), own.key(), client_ca, clients)} {}
  NamingServer(const TestCertificate& own, const TestCertificate& client_ca, ClientCertificates clients)
      : NamingServer{own, Pem{client_ca.certificate()}, clients} {}

  // Returns the answer to one request over a new connection.
  core::Result<FetchAnswer> answer_to(const std::shared_ptr<TlsContext>& tls) {
    Loop loop;
    Client client{loop};
    std::optional<core::Result<FetchAnswer>> answer;
    Url url;
    url.tls = true;
    url.host = "localhost";
    fetch(client, request_to(url, server_.address(), "/", std::chrono::seconds{20}, tls), [&](auto result) {
      answer = std::move(result);
      loop.stop();
    });
    testing::run(loop);
    return answer.value_or(core::environment_error({}, "no answer"));
  }

 private:
  TestServer server_;
};

struct Authority {
  explicit Authority(const std::string& name = "authority") : ca{{.common_name = name}} {}
  TestCertificate ca;
  TestCertificate server{{.issuer = &ca}};
  TestCertificate own{{.common_name = "front-proxy-client", .issuer = &ca, .serial = 4}};
};

TEST(ClientCertificates, NameTheClient) {
  const Authority authority;
  NamingServer server{authority.server, authority.ca, ClientCertificates::kRequired};
  const auto tls = client_with(authority.ca, authority.own);
  for (int connection = 0; connection < 2; ++connection) {
    const auto answer = server.answer_to(tls);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(answer->body, "front-proxy-client");
  }
}

TEST(ClientCertificates, AreOptionalUnlessRequired) {
  const Authority authority;
  NamingServer optional{authority.server, authority.ca, ClientCertificates::kOptional};
  const auto answer = optional.answer_to(authority.ca.client());
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->body, "");

  NamingServer required{authority.server, authority.ca, ClientCertificates::kRequired};
  const auto refused = required.answer_to(authority.ca.client());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("certificate required"), std::string::npos) << refused.error().message();
}

TEST(ClientCertificates, ThatAreExpiredEarlyOrForeignAreRefused) {
  const Authority authority, foreign;
  const TestCertificate expired{{.issuer = &authority.ca, .valid_until_s = -60}};
  const TestCertificate early{{.issuer = &authority.ca, .valid_from_s = 3600}};
  for (const auto clients : {ClientCertificates::kOptional, ClientCertificates::kRequired}) {
    NamingServer server{authority.server, authority.ca, clients};
    for (const TestCertificate* own : {&expired, &early, &foreign.own}) {
      const auto answer = server.answer_to(client_with(authority.ca, *own));
      ASSERT_FALSE(answer) << answer->body;
      EXPECT_NE(answer.error().message().find("TLS"), std::string::npos) << answer.error().message();
    }
  }
}

TEST(ClientCertificates, ThatAreRevokedAreRefused) {
  const Authority authority, second{"second authority"};
  const TestCertificate revoked{{.common_name = "revoked", .issuer = &authority.ca, .serial = 3}};
  const std::string certificates = content_of(authority.ca.certificate()) + content_of(second.ca.certificate());
  const std::string list = authority.ca.revocation_list({&revoked});
  struct Case {
    const char* what;
    std::string client_ca;
    const TestCertificate* own;
    bool accepted;
  };
  const Case cases[] = {
      {"no list", certificates, &revoked, true},
      {"revoked", certificates + list, &revoked, false},
      {"another one of the issuer", certificates + list, &authority.own, true},
      {"another issuer without a list", certificates + list, &second.own, false},
      {"another issuer with a list", certificates + list + second.ca.revocation_list({}), &second.own, true},
      {"outdated list", certificates + authority.ca.revocation_list({}, -60), &authority.own, false},
  };
  for (const auto clients : {ClientCertificates::kOptional, ClientCertificates::kRequired})
    for (const Case& each : cases) {
      NamingServer server{authority.server, Pem{"client-ca", each.client_ca}, clients};
      const auto answer = server.answer_to(client_with(authority.ca, *each.own));
      EXPECT_EQ(answer.has_value(), each.accepted)
          << each.what << ": " << (answer ? answer->body : answer.error().message());
    }
}

TEST(ClientCertificates, AreOptionalBesideARevocationList) {
  const Authority authority;
  const std::string trusted = content_of(authority.ca.certificate()) + authority.ca.revocation_list({&authority.own});
  NamingServer server{authority.server, Pem{"client-ca", trusted}, ClientCertificates::kOptional};
  const auto answer = server.answer_to(authority.ca.client());
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->body, "");
}

TEST(ClientCertificates, WithATruncatedNameIdentifyNoClient) {
  const Authority authority;
  const TestCertificate own{{.common_name = std::string{"admin\0.example", 14}, .issuer = &authority.ca}};
  NamingServer server{authority.server, authority.ca, ClientCertificates::kRequired};
  const auto answer = server.answer_to(client_with(authority.ca, own));
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->body, "");
}

TEST(ServerCertificates, ThatAreExpiredOrForeignAreRefusedWithTheCause) {
  const Authority authority, foreign;
  const TestCertificate expired{{.issuer = &authority.ca, .valid_until_s = -60}};
  NamingServer late{expired, authority.ca, ClientCertificates::kOptional};
  const auto of_late = late.answer_to(authority.ca.client());
  ASSERT_FALSE(of_late);
  EXPECT_NE(of_late.error().message().find("certificate has expired"), std::string::npos) << of_late.error().message();

  NamingServer other{foreign.server, authority.ca, ClientCertificates::kOptional};
  const auto of_other = other.answer_to(authority.ca.client());
  ASSERT_FALSE(of_other);
  EXPECT_NE(of_other.error().message().find("not trusted"), std::string::npos) << of_other.error().message();
}

TEST(ServerCertificates, ThatAreRevokedAreRefused) {
  const Authority authority;
  NamingServer server{authority.server, authority.ca, ClientCertificates::kOptional};
  const std::string trusted = content_of(authority.ca.certificate());
  for (const bool is_revoked : {false, true}) {
    const auto list = is_revoked ? authority.ca.revocation_list({&authority.server}) : authority.ca.revocation_list({});
    const auto tls = TlsContext::client({"ca", trusted + list});
    ASSERT_TRUE(tls) << tls.error().message();
    const auto answer = server.answer_to(*tls);
    const std::string failure = answer ? std::string{} : answer.error().message();
    EXPECT_EQ(failure.find("certificate revoked") != std::string::npos, is_revoked) << failure;
    EXPECT_EQ(answer.has_value(), !is_revoked);
  }
}

TEST(Pem, InMemoryIsAsGoodAsAFile) {
  const Authority authority;
  const Pem ca{"ca-data", content_of(authority.ca.certificate())};
  const Pem certificate{"certificate-data", content_of(authority.own.certificate()) + *ca.text};
  const Pem key{"key-data", content_of(authority.own.key())};
  const auto tls = TlsContext::client(ca, certificate, key);
  ASSERT_TRUE(tls) << tls.error().message();
  NamingServer server{authority.server, authority.ca, ClientCertificates::kRequired};
  const auto answer = server.answer_to(*tls);
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->body, "front-proxy-client");
}

TEST(Pem, ErrorsNameTheTextAndNeverShowIt) {
  const Authority authority;
  const std::string secret = "c2VjcmV0";
  const std::string broken = "-----BEGIN CERTIFICATE-----\n" + secret + "\n-----END CERTIFICATE-----\n";
  const Pem good{"certificate-data", content_of(authority.own.certificate())};
  const Pem key{"key-data", content_of(authority.own.key())};
  const auto message = [](const auto& made) { return made ? std::string{} : made.error().message(); };
  const std::string of_ca = message(TlsContext::client({"ca-data", broken}));
  EXPECT_TRUE(of_ca.starts_with("ca-data: contains no trusted certificates")) << of_ca;
  const std::string of_chain = message(TlsContext::client({}, {"chain", *good.text + broken}, key));
  EXPECT_TRUE(of_chain.starts_with("chain: cannot be used as a certificate")) << of_chain;
  const std::string of_key = message(TlsContext::client({}, good, {"key-data", "nothing"}));
  EXPECT_TRUE(of_key.starts_with("key-data: cannot be used as the key of certificate-data")) << of_key;
  const std::string of_empty = message(TlsContext::client({"ca-data", ""}));
  EXPECT_TRUE(of_empty.starts_with("ca-data: contains no trusted certificates")) << of_empty;
  for (const std::string& text : {of_ca, of_chain, of_key}) EXPECT_EQ(text.find(secret), std::string::npos) << text;
}

TEST(Fetch, ReportsTheFieldsOfTheHeader) {
  TestServer server{[](Exchange& exchange) {
    const Field fields[] = {{"Retry-After", "7"}, {"Warning", "299 - \"deprecated\""}};
    exchange.respond(429, fields, "busy");
  }};
  Loop loop;
  Client client{loop};
  FetchAnswer answer;
  fetch(client, request_to(server.address(), "/", std::chrono::seconds{20}), [&](auto result) {
    if (result) answer = *std::move(result);
    loop.stop();
  });
  testing::run(loop);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.field("retry-after"), "7");
  EXPECT_EQ(answer.field("warning"), "299 - \"deprecated\"");
  EXPECT_EQ(answer.field("absent"), "");
}

TEST(Fetch, AnAddressAtWhichNothingListensRefuses) {
  Loop loop;
  Client client{loop};
  std::optional<core::Error> error;
  fetch(client, request_to(*Address::parse("127.0.0.1", 1), "/", std::chrono::seconds{20}), [&](auto result) {
    if (!result) error = result.error();
    loop.stop();
  });
  testing::run(loop);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, core::ErrorCode::kRefused) << error->message();
}

}  // namespace
}  // namespace penstock::net
