#include "connect/prometheus/source.h"

#include <gtest/gtest.h>

#include <chrono>

#include "net/server.h"

namespace penstock::connect {
namespace {

// A Prometheus server with the same answer to each query.
class ScriptedPrometheus final : private net::ExchangeHandler {
 public:
  explicit ScriptedPrometheus(net::Loop& loop)
      : listening_{*net::listen_on(net::Address{}, false)},
        address_{net::local_address(listening_)},
        server_{loop, listening_, *this} {}
  [[nodiscard]] const net::Address& address() const { return address_; }

 private:
  void on_request(net::Exchange& exchange) override {
    exchange.respond(200, {},
                     R"({"status":"success","data":{"resultType":"vector","result":[)"
                     R"({"metric":{"instance":"a:8000"},"value":[1,"7"]}]}})");
  }
  std::string error_body(int, std::string_view fault) override { return std::string{fault}; }

  int listening_;
  net::Address address_;
  net::Server server_;
};

TEST(PrometheusSource, ANameIsAskedAtTheAddressThatAnswers) {
  net::Loop loop;
  ScriptedPrometheus server{loop};
  net::Client client{loop};
  PrometheusOptions options;
  options.url = "http://prometheus:" + std::to_string(server.address().port());
  options.interval = std::chrono::milliseconds{20};
  options.queries = {{"queued_requests", "a"}, {"running_requests", "b"}};
  options.lookup = [](const std::string&, std::uint16_t port) -> net::Resolver::Addresses {
    return std::vector{*net::Address::parse("::1", port), *net::Address::parse("127.0.0.1", port)};
  };
  const auto source = PrometheusSource::start(loop, client, options);
  ASSERT_TRUE(source);
  QueriedReplicas found;
  loop.after(std::chrono::seconds{30}, [&] { loop.stop(); });
  (*source)->listen({[&](const QueriedReplicas& replicas) {
                       found = replicas;
                       if (!found.empty()) loop.stop();
                     },
                     {}});
  loop.run();
  ASSERT_TRUE(found.contains("a:8000"));
  EXPECT_EQ(found.at("a:8000").scrape.queued_requests, 7U);
  (*source)->listen({});
}

}  // namespace
}  // namespace penstock::connect
