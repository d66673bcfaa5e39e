// Replicas that are named by host names, in front of a gateway on loopback.
#include "gateway/discovery.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

// Declared after the replicas of a test, whose connections it closes.
class Site {
 public:
  ~Site() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    discovery_.reset();
    gateway.end();
  }
  // A look-up of the name returns the replica's address, with its port.
  void set_address(const std::string& name, const net::Address& address) {
    const std::scoped_lock lock{mutex_};
    addresses_.insert_or_assign(name, address);
  }
  DiscoveryOptions options(const std::vector<std::string>& urls) {
    DiscoveryOptions made;
    for (const std::string& url : urls) made.replicas.emplace_back().url = url;
    made.dns_interval = 20ms;
    made.lookup = [this](const std::string& host, std::uint16_t) -> net::Resolver::Addresses {
      const std::scoped_lock lock{mutex_};
      const auto found = addresses_.find(host);
      if (found == addresses_.end()) return core::environment_error(host, "the name has no address");
      return std::vector{found->second};
    };
    return made;
  }
  void start(DiscoveryOptions made) {
    auto started = Discovery::start(loop_, std::move(made), *gateway, log_);
    ASSERT_TRUE(started) << started.error().message();
    discovery_ = *std::move(started);
    thread_ = std::thread{[this] { loop_.run(); }};
  }
  // Returns when the gateway uses the addresses that were found last.
  void wait_for_addresses(std::size_t changes) {
    for (int i = 0; i < 2000 && log_.count(logging::Event::kHostResolved) < changes; ++i)
      std::this_thread::sleep_for(5ms);
    EXPECT_EQ(log_.count(logging::Event::kHostResolved), changes);
    std::promise<void> published;
    loop_.post([&] { published.set_value(); });
    published.get_future().wait();
    for (int i = 0; i < 2; ++i) gateway.admin("/health");  // The thread that answers has taken the list before.
  }
  static GatewayOptions checking() {
    GatewayOptions made = quiet_options();
    made.health_interval = 20ms;
    return made;
  }

  TestGateway gateway{{}, checking()};

 private:
  std::mutex mutex_;
  std::map<std::string, net::Address> addresses_;
  logging::testing::CapturedLog log_;
  net::Loop loop_;
  std::unique_ptr<Discovery> discovery_;
  std::thread thread_;
};

TEST(Discovery, ANameWithoutAnAddressDoesNotKeepOthersFromServing) {
  TestReplica good{answer_well}, late{answer_well};
  Site site;
  site.start(site.options({good.url(), "http://vllm-0:19001"}));
  EXPECT_TRUE(site.gateway.wait_for("vllm-0: the name has no address"));
  EXPECT_TRUE(site.gateway.wait_until_ready());
  EXPECT_EQ(ask(site.gateway, chat_body()).status, 200);
  site.set_address("vllm-0", late.address());
  EXPECT_TRUE(site.gateway.wait_for(R"("id":"http://vllm-0:19001")"));
  EXPECT_TRUE(site.gateway.wait_for(R"("problems":[])"));
  for (int i = 0; i < 100 && late.requests().empty(); ++i)
    EXPECT_EQ(ask(site.gateway, chat_body("prompt " + std::to_string(i))).status, 200);
  EXPECT_FALSE(late.requests().empty());
}

TEST(Discovery, AFileWithANameWithoutAnAddressIsInForce) {
  TestReplica good{answer_well}, late{answer_well};
  Site site;
  const auto file = std::filesystem::temp_directory_path() / ("penstock-discovery-" + std::to_string(::getpid()));
  std::ofstream{file} << R"({"version":1,"replicas":[{"id":"a","url":")" << good.url()
                      << R"("},{"id":"b","url":"http://vllm-0:19001"}]})";
  DiscoveryOptions made = site.options({});
  made.files = {file};
  site.start(std::move(made));
  EXPECT_TRUE(site.gateway.wait_for(R"("id":"a")"));
  EXPECT_TRUE(site.gateway.wait_for("vllm-0: the name has no address"));
  EXPECT_EQ(ask(site.gateway, chat_body()).status, 200);
  site.set_address("vllm-0", late.address());
  EXPECT_TRUE(site.gateway.wait_for(R"("id":"b")"));
  std::filesystem::remove(file);
}

TEST(Discovery, AReplicaThatMovesIsFoundAndItsRequestsInFlightEnd) {
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  TestReplica before{[&](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("one")));
    may_go_on.wait();
    peer.send(chunk(api::kDoneEvent) + std::string{net::kLastChunk});
  }};
  TestReplica after{answer_well};
  Site site;
  site.set_address("vllm-0", before.address());
  site.start(site.options({"http://vllm-0:19001"}));
  EXPECT_TRUE(site.gateway.wait_until_ready());
  RawClient client{site.gateway.address()};
  client.send(chat_request(chat_body("hi", kStream)));
  EXPECT_NE(client.read_until("one"), "");
  site.set_address("vllm-0", after.address());
  site.wait_for_addresses(2);
  EXPECT_EQ(ask(site.gateway, chat_body()).status, 200);
  EXPECT_EQ(after.requests().size(), 1U);
  go_on.set_value();
  EXPECT_NE(client.read_until("[DONE]"), "");
}

TEST(Discovery, TheAddressesOfADnsNameAreReplicas) {
  TestReplica first{answer_well}, second{answer_well};
  Site site;
  DiscoveryOptions made = site.options({});
  made.dns = "engines:19001";
  site.set_address("engines", first.address());
  site.start(std::move(made));
  EXPECT_TRUE(site.gateway.wait_for("\"id\":\"" + first.url()));
  site.set_address("engines", second.address());
  EXPECT_TRUE(site.gateway.wait_for("\"id\":\"" + second.url()));
  EXPECT_TRUE(site.gateway.wait_until(
      [&](const std::string& overview) { return overview.find("\"id\":\"" + first.url()) == std::string::npos; }));
}

TEST(Discovery, ALateAnswerOfAPodIsNoneOfTheNextPodWithItsName) {
  std::promise<void> asked, may_answer, answered;
  const net::testing::ScriptedServer before{[&](Peer& peer, int) {
    while (const auto request = peer.read_request()) {
      const bool is_models = request->starts_with("GET /v1/models");
      if (is_models) asked.set_value();
      if (is_models) may_answer.get_future().wait();
      peer.send(with_length("200 OK", R"({"data":[{"id":"m"},{"id":"old"}]})"));
      if (is_models) answered.set_value();
    }
  }};
  TestReplica after{answer_well};
  ReplicaEndpoint pod = replica_named("vllm-0");
  pod.url = "http://" + before.address().text();
  pod.addresses = {before.address()};
  TestGateway gateway{{pod}};
  asked.get_future().wait();
  gateway.set_replicas({spec_of(after, "vllm-0")});
  EXPECT_TRUE(gateway.wait_until_ready());
  may_answer.set_value();
  answered.get_future().wait();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(ask(gateway, R"({"model":"old","messages":[{"role":"user","content":"hi"}]})").status, 404);
  EXPECT_TRUE(after.requests().empty());
}

TEST(Discovery, ADnsNameHasNeitherTlsNorAPath) {
  EXPECT_TRUE(parse_replicas_dns("engines:8000"));
  EXPECT_TRUE(parse_replicas_dns("http://engines:8000/"));
  TestGateway gateway{{}, quiet_options()};
  logging::testing::CapturedLog log;
  net::Loop loop;
  for (const char* name : {"https://engines:8443", "engines:8000/v2", "engines"}) {
    DiscoveryOptions options;
    options.dns = name;
    const auto started = Discovery::start(loop, options, *gateway, log);
    ASSERT_FALSE(started) << name;
    EXPECT_TRUE(started.error().message().starts_with("gateway.replicas_dns: ")) << started.error().message();
  }
}

}  // namespace
}  // namespace penstock::gateway
