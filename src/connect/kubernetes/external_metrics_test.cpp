#include "connect/kubernetes/external_metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "net/fetch.h"
#include "net/tls_testing.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;
using net::testing::TestCertificate;

std::string content_of(const std::string& file) {
  std::ifstream in{file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

// An API server that knows the front proxy and lets one user see the metric.
class ApiServer final : public net::ExchangeHandler {
 public:
  ApiServer(net::Loop& loop, std::string ca) : ca_{std::move(ca)} {
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    server_.emplace(loop, listening, *this);
  }

  net::Address address;
  std::vector<Json> reviews;
  std::string names = R"(["front-proxy"])";
  int status = 200;

 private:
  void on_request(net::Exchange& exchange) override {
    if (status != 200) return exchange.respond(status, {}, R"({"kind":"Status","message":"out of order"})");
    if (exchange.head().path() == "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
      return exchange.respond(200, {},
                              Json{{"data",
                                    {{"requestheader-client-ca-file", ca_},
                                     {"requestheader-allowed-names", names},
                                     {"requestheader-username-headers", R"(["X-Remote-User"])"},
                                     {"requestheader-group-headers", R"(["X-Remote-Group"])"}}}}
                                  .dump());
    EXPECT_EQ(exchange.head().method, "POST");
    EXPECT_EQ(exchange.head().path(), "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    reviews.push_back(Json::parse(exchange.body()));
    const bool allowed = reviews.back()["spec"]["user"] == "hpa";
    exchange.respond(201, {}, Json{{"status", {{"allowed", allowed}}}}.dump());
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

  std::string ca_;
  std::optional<net::Server> server_;
};

struct World {
  World() {
    KubernetesOptions options;
    options.access.server = *net::parse_url("http://" + api.address.text());
    options.backoff = {std::chrono::milliseconds{1}, std::chrono::milliseconds{2}};
    options.attempts = 2;
    client = *KubernetesClient::start(loop, http, options, [](const std::string&) {});
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    ExternalMetrics::Options own;
    own.certificate = serving.certificate();
    own.key = serving.key();
    own.timestamp = [] { return "2026-11-22T13:26:21Z"; };
    own.on_failure = [this](const std::string& cause) { failures.push_back(cause); };
    own.refresh = std::chrono::milliseconds{20};
    metrics.emplace(
        loop, listening, serving.server(), *client, [this] { return pools; }, own);
  }

  // Asks as the API server does. A null certificate shows none.
  net::FetchAnswer ask(const std::string& path, const std::string& fields, const TestCertificate* certificate) {
    auto tls = certificate == nullptr
                   ? net::TlsContext::client(serving.certificate())
                   : net::TlsContext::client(serving.certificate(), certificate->certificate(), certificate->key());
    EXPECT_TRUE(tls);
    net::Client caller{loop};
    net::FetchRequest request;
    request.call.address = address;
    request.call.tls = *tls;
    request.call.host = "localhost";
    request.host_field = "localhost";
    request.target = path;
    request.field_lines = fields;
    std::optional<net::FetchAnswer> got;
    net::fetch(caller, std::move(request), [&](core::Result<net::FetchAnswer> answer) {
      got = answer ? *std::move(answer) : net::FetchAnswer{.status = 0, .body = answer.error().message()};
      loop.stop();
    });
    loop.run();
    return *std::move(got);
  }
  net::FetchAnswer ask(const std::string& path, const std::string& user = "hpa") {
    return ask(path, "X-Remote-User: " + user + "\r\nX-Remote-Group: b\r\nx-remote-group: a\r\n", &proxy);
  }
  // Waits until the front proxy's certificates are known.
  void begin() {
    for (int i = 0; i < 1'000 && ask(kGroup).status != 200; ++i) wait();
    EXPECT_EQ(ask(kGroup).status, 200);
  }
  void wait() {
    loop.after(std::chrono::milliseconds{5}, [this] { loop.stop(); });
    loop.run();
  }

  static constexpr const char* kGroup = "/apis/external.metrics.k8s.io/v1beta1";
  static constexpr const char* kMetric =
      "/apis/external.metrics.k8s.io/v1beta1/namespaces/prod/penstock_target_replicas";

  TestCertificate serving;
  TestCertificate authority{{.common_name = "proxies"}};
  TestCertificate proxy{{.common_name = "front-proxy", .issuer = &authority}};
  TestCertificate other{{.common_name = "someone", .issuer = &authority}};
  TestCertificate foreign{{.common_name = "front-proxy"}};
  net::Loop loop;
  net::Client http{loop};
  ApiServer api{loop, content_of(authority.certificate())};
  std::vector<RecommendedReplicas> pools{{"prefill", "org/llama", 2, {}}, {"decode", "org/llama", 23, {}}};
  std::vector<std::string> failures;
  net::Address address;
  std::unique_ptr<KubernetesClient> client;
  std::optional<ExternalMetrics> metrics;
};

TEST(ExternalMetrics, AnswersAsTheApiPromises) {
  World world;
  world.begin();
  const Json resources = Json::parse(world.ask(World::kGroup).body);
  EXPECT_EQ(resources["kind"], "APIResourceList");
  EXPECT_EQ(resources["resources"][0]["kind"], "ExternalMetricValueList");
  EXPECT_EQ(Json::parse(world.ask("/apis/external.metrics.k8s.io").body)["preferredVersion"]["version"], "v1beta1");
  const net::FetchAnswer answer = world.ask(std::string{World::kMetric} + "?labelSelector=pool%3Ddecode");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body), Json::parse(R"({"kind":"ExternalMetricValueList",
      "apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[{"metricName":"penstock_target_replicas",
      "metricLabels":{"pool":"decode","model":"org.llama"},"timestamp":"2026-11-22T13:26:21Z","value":"23"}]})"));
}

TEST(ExternalMetrics, SelectorsChooseThePools) {
  World world;
  world.begin();
  const auto values = [&](const std::string& selector) {
    std::vector<std::string> found;
    const Json answer = Json::parse(world.ask(std::string{World::kMetric} + "?labelSelector=" + selector).body);
    for (const Json& item : answer.at("items")) found.push_back(item["value"]);
    return found;
  };
  using Values = std::vector<std::string>;
  EXPECT_EQ(values(""), (Values{"2", "23"}));
  EXPECT_EQ(values("pool+notin+%28decode%2Cx%29"), Values{"2"});
  EXPECT_EQ(values("model%3Dorg.llama%2Cpool%21%3Dprefill"), Values{"23"});
  EXPECT_EQ(values("pool%3Dother"), Values{});
  EXPECT_EQ(values("pool+in+%28decode%2Cx%29"), Values{"23"});
  EXPECT_EQ(values("model"), (Values{"2", "23"}));
  EXPECT_EQ(values("%21model"), Values{});
  EXPECT_EQ(world.ask(std::string{World::kMetric} + "?labelSelector=pool%3E1").status, 400);
}

TEST(ExternalMetrics, LabelsAreThoseThatAnHpaCanSelect) {
  World world;
  world.begin();
  world.pools = {{"prefill", "-org/llama3:8b instruct~", 0, {}}, {"decode", std::string(70, 'm'), 1, {}}};
  const Json items = Json::parse(world.ask(World::kMetric).body).at("items");
  EXPECT_EQ(items[0]["metricLabels"]["model"], "org.llama3.8b.instruct");
  EXPECT_EQ(items[0]["value"], "0") << "never less";
  EXPECT_EQ(items[1]["metricLabels"]["model"], std::string(63, 'm'));
  const std::string selector = std::string{World::kMetric} + "?labelSelector=model%3Dorg.llama3.8b.instruct";
  EXPECT_EQ(Json::parse(world.ask(selector).body).at("items").size(), 1U);
  world.pools[0].model = "///";
  EXPECT_FALSE(Json::parse(world.ask(World::kMetric).body).at("items")[0]["metricLabels"].contains("model"));
}

TEST(ExternalMetrics, AnUnknownTargetIsAnErrorAndNoNumber) {
  World world;
  world.begin();
  world.pools[0] = {"prefill", "org/llama", std::nullopt, "the gateway does not answer"};
  const net::FetchAnswer answer = world.ask(World::kMetric);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(Json::parse(answer.body)["message"], "pool prefill: the gateway does not answer");
  EXPECT_EQ(world.ask(std::string{World::kMetric} + "?labelSelector=pool%3Ddecode").status, 200);
}

TEST(ExternalMetrics, OnlyTheFrontProxySpeaksForUsers) {
  World world;
  world.begin();
  const std::string user = "X-Remote-User: hpa\r\n";
  EXPECT_EQ(world.ask(World::kMetric, user, &world.proxy).status, 200);
  EXPECT_EQ(world.ask(World::kMetric, user, nullptr).status, 401);
  EXPECT_EQ(world.ask(World::kMetric, user, &world.other).status, 401);
  EXPECT_NE(world.ask(World::kMetric, user, &world.foreign).status, 200);
  EXPECT_EQ(world.ask(World::kMetric, "", &world.proxy).status, 401);
  EXPECT_EQ(world.ask("/readyz", "", nullptr).status, 200);
}

TEST(ExternalMetrics, TheApiServerSaysWhatAUserMayList) {
  World world;
  world.begin();
  EXPECT_EQ(world.ask(World::kMetric).status, 200);
  EXPECT_EQ(world.ask(World::kMetric).status, 200);
  ASSERT_EQ(world.api.reviews.size(), 1U);  // The second answer was known.
  EXPECT_EQ(world.api.reviews[0]["spec"], Json::parse(R"({"user":"hpa","groups":["a","b"],"resourceAttributes":{
      "namespace":"prod","verb":"list","group":"external.metrics.k8s.io","version":"v1beta1",
      "resource":"penstock_target_replicas"}})"));
  EXPECT_EQ(world.ask(World::kMetric, "stranger").status, 403);
  world.api.status = 500;
  EXPECT_EQ(world.ask(World::kMetric, "another").status, 503);
  EXPECT_EQ(world.ask(World::kMetric).status, 200);
}

TEST(ExternalMetrics, BytesThatAreNotUtf8AreReplacedInWhatIsWrittenAsJson) {
  World world;
  world.begin();
  const net::FetchAnswer answer = world.ask(std::string{World::kMetric} + "?labelSelector=pool%FF");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(Json::parse(answer.body)["message"],
            "column 5: one of =, ==, !=, in and notin is expected in the label selector \"pool\uFFFD\"");
  EXPECT_EQ(world.ask(World::kMetric, "J\xfcrgen").status, 403);
  EXPECT_EQ(world.api.reviews.back()["spec"]["user"], "J\uFFFDrgen");
}

TEST(ExternalMetrics, AnUnreadableConfigMapIsReportedOnceAndWhatWasReadStays) {
  World world;
  world.begin();
  world.api.names = "not a list";
  while (world.failures.empty()) world.wait();
  for (int i = 0; i < 20; ++i) world.wait();
  EXPECT_EQ(world.failures.size(), 1U);
  EXPECT_EQ(world.ask(World::kMetric).status, 200);
}

}  // namespace
}  // namespace penstock::connect
