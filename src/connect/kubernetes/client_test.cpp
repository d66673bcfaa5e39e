// The client on scripted connections, byte for byte.
#include "connect/kubernetes/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/client_testing.h"
#include "net/server_testing.h"
#include "net/tls_testing.h"

namespace penstock::connect {
namespace {

using net::testing::Peer;
using net::testing::ScriptedServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string answer(const std::string& status, const std::string& body, const std::string& fields = {}) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string kScale =
    R"({"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"prod",)"
    R"("resourceVersion":"341"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"app=d"}})";
const std::string kConflict =
    R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation )"
    R"(cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply )"
    R"(your changes to the latest version and try again","reason":"Conflict","details":{"name":"d",)"
    R"("group":"apps","kind":"deployments"},"code":409})";

// Answers the n-th request with the n-th text, and keeps the requests.
class Script {
 public:
  explicit Script(std::vector<std::string> answers, std::shared_ptr<net::TlsContext> tls = nullptr)
      : answers_{std::move(answers)},
        server_{[this](Peer& peer, int) {
                  while (auto request = peer.read_request()) {
                    const std::lock_guard lock{mutex_};
                    const std::string answer = answers_[std::min(requests_.size(), answers_.size() - 1)];
                    requests_.push_back(*std::move(request));
                    peer.send(answer);
                    if (answer.empty()) return;  // Closes without an answer.
                  }
                },
                std::move(tls)} {}

  [[nodiscard]] const net::Address& address() const { return server_.address(); }
  [[nodiscard]] std::vector<std::string> requests() {
    const std::lock_guard lock{mutex_};
    return requests_;
  }

 private:
  std::vector<std::string> answers_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  ScriptedServer server_;
};

KubernetesOptions options_for(const net::Address& address, const std::string& token = {}) {
  KubernetesOptions options;
  options.access.server = *net::parse_url("http://" + address.text());
  options.access.token = token;
  options.backoff = {milliseconds{2}, milliseconds{10}};
  options.timeout = seconds{20};
  options.files_interval = milliseconds{5};
  return options;
}

// A client with the loop that it lives on.
struct World {
  explicit World(const KubernetesOptions& options) {
    auto started = KubernetesClient::start(loop, http, options, [this](const std::string& cause) { report = cause; });
    EXPECT_TRUE(started) << started.error().message();
    client = *std::move(started);
  }
  ApiAnswer request(const ApiCall& call) {
    std::optional<ApiAnswer> got;
    client->request(call, [&](ApiAnswer result) {
      got = std::move(result);
      loop.stop();
    });
    EXPECT_FALSE(got);
    net::testing::run(loop);
    return *std::move(got);
  }

  net::Loop loop;
  net::Client http{loop};
  std::string report;
  std::unique_ptr<KubernetesClient> client;
};

TEST(KubernetesClient, SendsExactlyTheseBytes) {
  Script server{{answer("200 OK", kScale)}};
  World world{options_for(server.address())};
  const ApiAnswer read = world.request(get_scale_call(kDeployments, "prod", "d"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(parse_scale({}, *read)->replicas, 3U);
  ASSERT_TRUE(world.request(set_scale_call(kDeployments, "prod", "d", 3, "340")));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2U);
  const std::string common =
      "Host: " + server.address().text() + "\r\nAccept: application/json\r\nUser-Agent: penstock\r\n";
  EXPECT_EQ(requests[0], "GET /apis/apps/v1/namespaces/prod/deployments/d/scale HTTP/1.1\r\n" + common + "\r\n");
  EXPECT_EQ(requests[1], "PATCH /apis/apps/v1/namespaces/prod/deployments/d/scale?fieldManager=penstock HTTP/1.1\r\n" +
                             common +
                             "Content-Type: application/merge-patch+json\r\nContent-Length: 60\r\n\r\n"
                             R"({"metadata":{"resourceVersion":"340"},"spec":{"replicas":3}})");
}

TEST(KubernetesClient, ReportsAConflictAndDoesNotRepeatTheWrite) {
  Script server{{answer("409 Conflict", kConflict)}};
  World world{options_for(server.address())};
  const ApiAnswer refused = world.request(set_scale_call(kDeployments, "prod", "d", 3, "340"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, ApiReason::kConflict);
  EXPECT_EQ(refused.error().where, "patch deployments/scale \"d\" in namespace \"prod\"");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(KubernetesClient, RepeatsReadsAfterFailuresButWritesOnlyAfterRetryAfter) {
  const std::string busy = answer("429 Too Many Requests", R"({"kind":"Status","reason":"TooManyRequests","code":429})",
                                  "Retry-After: 0\r\n");
  const std::string broken = answer("500 Internal Server Error", "");
  {
    Script server{{broken, busy, "", answer("200 OK", kScale)}};
    World world{options_for(server.address())};
    EXPECT_TRUE(world.request(get_scale_call(kDeployments, "prod", "d")));
    EXPECT_EQ(server.requests().size(), 4U);
  }
  {
    Script server{{busy, answer("200 OK", kScale)}};
    World world{options_for(server.address())};
    EXPECT_TRUE(world.request(set_scale_call(kDeployments, "prod", "d", 3, "340")));
    EXPECT_EQ(server.requests().size(), 2U);
  }
  for (const std::string& failure : {broken, std::string{}}) {
    Script server{{failure}};
    World world{options_for(server.address())};
    const ApiAnswer failed = world.request(set_scale_call(kDeployments, "prod", "d", 3, "340"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().reason, failure.empty() ? ApiReason::kUnreachable : ApiReason::kServerError);
    EXPECT_EQ(server.requests().size(), 1U);
  }
  {
    Script server{{broken}};
    World world{options_for(server.address())};
    EXPECT_FALSE(world.request(get_scale_call(kDeployments, "prod", "d")));
    EXPECT_EQ(server.requests().size(), KubernetesOptions{}.attempts);
  }
}

TEST(KubernetesClient, WaitsAsLongAsTheServerAsks) {
  Script server{{answer("429 Too Many Requests", "", "Retry-After: 1\r\n"), answer("200 OK", kScale)}};
  World world{options_for(server.address())};
  const core::Instant began = net::Loop::read_clock();
  EXPECT_TRUE(world.request(get_scale_call(kDeployments, "prod", "d")));
  EXPECT_GE(net::Loop::read_clock() - began, seconds{1});
}

TEST(KubernetesClient, NamesWhatCannotBeReached) {
  net::Address nowhere;
  {
    Script gone{{answer("200 OK", kScale)}};
    nowhere = gone.address();
  }
  World world{options_for(nowhere)};
  const ApiAnswer failed = world.request(get_scale_call(kDeployments, "prod", "d"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(),
            "get deployments/scale \"d\" in namespace \"prod\": no connection: Connection refused");
}

TEST(KubernetesClient, RefusesAnAnswerThatIsNoObject) {
  for (const char* body : {"", "[]", "<html>", "null"}) {
    Script server{{answer("200 OK", body)}};
    World world{options_for(server.address())};
    const ApiAnswer refused = world.request(get_scale_call(kDeployments, "prod", "d"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, ApiReason::kMalformed);
  }
}

TEST(KubernetesClient, RefusesMoreThanItsRateCanSend) {
  Script server{{answer("200 OK", kScale)}};
  KubernetesOptions options = options_for(server.address());
  options.requests_per_s = 0.001;
  options.burst = 1;
  World world{options};
  EXPECT_TRUE(world.request(get_scale_call(kDeployments, "prod", "d")));
  ApiCall call = get_scale_call(kDeployments, "prod", "d");
  call.is_retried = false;
  const ApiAnswer refused = world.request(call);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, ApiReason::kTooManyRequests);
  EXPECT_EQ(server.requests().size(), 1U);
}

// A server that wants this token, over TLS, because credentials are not sent without it.
class Guarded {
 public:
  explicit Guarded(net::ClientCertificates clients = net::ClientCertificates::kOptional)
      : own_{{.issuer = &ca_}},
        client_{{.common_name = "penstock", .issuer = &ca_}},
        server_{[this](net::Exchange& exchange) {
                  const bool knows = exchange.client_name() == "penstock" ||
                                     exchange.head().field("authorization") == "Bearer " + std::to_string(wanted_);
                  exchange.respond(knows ? 200 : 401, {}, knows ? kScale : R"({"reason":"Unauthorized","code":401})");
                },
                {},
                *net::TlsContext::server(own_.certificate(), own_.key(), ca_.certificate(), clients)} {}

  [[nodiscard]] KubernetesOptions options() const {
    KubernetesOptions options = options_for(server_.address());
    options.access.server = *net::parse_url("https://localhost:" + std::to_string(server_.address().port()));
    options.access.server.host = "127.0.0.1";
    options.access.server_name = "localhost";
    options.access.ca = ca_.certificate();
    return options;
  }
  void want(int token) { wanted_ = token; }
  [[nodiscard]] const net::testing::TestCertificate& ca() const { return ca_; }
  [[nodiscard]] const net::testing::TestCertificate& client() const { return client_; }

 private:
  std::atomic<int> wanted_{1};
  net::testing::TestCertificate ca_{{.common_name = "authority"}}, own_, client_;
  net::testing::TestServer server_;
};

TEST(KubernetesClient, ReadsARotatedTokenBeforeItGivesUp) {
  std::string folder = (std::filesystem::temp_directory_path() / "penstock-token-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Guarded server;
  KubernetesOptions options = server.options();
  options.access.token_file = folder + "/token";
  options.files_interval = seconds{3600};  // The refusal alone makes it read the file.
  std::ofstream{options.access.token_file} << "1\n";
  World world{options};
  const ApiCall call = get_scale_call(kDeployments, "prod", "d");
  EXPECT_TRUE(world.request(call));
  server.want(2);
  const ApiAnswer refused = world.request(call);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, ApiReason::kUnauthorized);
  std::ofstream{options.access.token_file} << "2\n";
  EXPECT_TRUE(world.request(call));
  std::filesystem::remove_all(folder);
}

TEST(KubernetesClient, ReportsOnceThatItsTokenCannotBeRead) {
  std::string folder = (std::filesystem::temp_directory_path() / "penstock-token-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Guarded server;
  KubernetesOptions options = server.options();
  options.access.token_file = folder + "/token";
  std::ofstream{options.access.token_file} << "1\n";
  World world{options};
  std::filesystem::remove(options.access.token_file);
  for (int turn = 0; turn < 2000 && world.report.empty(); ++turn) net::testing::run_for(world.loop, milliseconds{5});
  EXPECT_EQ(world.report, options.access.token_file + ": there is no such file");
  EXPECT_TRUE(world.request(get_scale_call(kDeployments, "prod", "d")));
  std::filesystem::remove_all(folder);
}

TEST(KubernetesClient, SignsInByClientCertificate) {
  Guarded server{net::ClientCertificates::kRequired};
  KubernetesOptions options = server.options();
  options.access.certificate = server.client().certificate();
  options.access.key = server.client().key();
  World world{options};
  const ApiAnswer read = world.request(get_scale_call(kDeployments, "prod", "d"));
  EXPECT_TRUE(read) << read.error().message();
}

TEST(KubernetesClient, NamesTheFaultOfWrongAndExpiredCertificates) {
  Guarded server{net::ClientCertificates::kRequired};
  const net::testing::TestCertificate foreign,
      expired{{.common_name = "penstock", .issuer = &server.ca(), .valid_until_s = -60}};
  const auto failure = [&](const net::Pem& ca, const net::testing::TestCertificate* own) {
    KubernetesOptions options = server.options();
    options.access.ca = ca;
    if (own != nullptr) {
      options.access.certificate = own->certificate();
      options.access.key = own->key();
    }
    World world{options};
    const ApiAnswer failed = world.request(get_scale_call(kDeployments, "prod", "d"));
    EXPECT_FALSE(failed);
    return failed ? std::string{} : failed.error().message();
  };
  const std::string ca = server.ca().certificate();
  EXPECT_NE(failure(foreign.certificate(), &server.client()).find("the certificate is not trusted"), std::string::npos);
  EXPECT_NE(failure(ca, nullptr).find("certificate required"), std::string::npos);
  EXPECT_NE(failure(ca, &expired).find("certificate expired"), std::string::npos);
  EXPECT_NE(failure(ca, &foreign).find("TLS: "), std::string::npos);
}

TEST(KubernetesClient, HasNoCallbacksAfterItsEnd) {
  std::atomic<bool> has_request{false}, has_ended{false};
  ScriptedServer server{[&](Peer& peer, int) {
    peer.read_request();
    has_request = true;
    while (!has_ended) std::this_thread::sleep_for(milliseconds{1});
    peer.send(answer("200 OK", kScale));
    peer.wait_until_closed();
  }};
  World world{options_for(server.address())};
  bool called = false;
  for (int call = 0; call < 2; ++call)
    world.client->request(get_scale_call(kDeployments, "prod", "d"), [&](const ApiAnswer&) { called = true; });
  for (int turn = 0; turn < 10'000 && !has_request; ++turn) net::testing::run_for(world.loop, milliseconds{1});
  world.client->request(get_scale_call(kDeployments, "prod", "d"), [&](const ApiAnswer&) { called = true; });
  world.client.reset();
  has_ended = true;
  net::testing::run_for(world.loop, milliseconds{50});
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace penstock::connect
