#include "controller/gpu_watch.h"

#include <gtest/gtest.h>

#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/server.h"
#include "net/tls_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

// The /metrics of an exporter, on the test's own loop.
class ScriptedExporter final : private net::ExchangeHandler {
 public:
  explicit ScriptedExporter(net::Loop& loop, std::shared_ptr<net::TlsContext> tls = nullptr)
      : listening_(*net::listen_on(net::Address{}, false)),
        url_((tls == nullptr ? "http://" : "https://") + net::local_address(listening_).text()),
        server_(loop, listening_, static_cast<net::ExchangeHandler&>(*this), net::ServerLimits{}, std::move(tls)) {}
  [[nodiscard]] const std::string& url() const { return url_; }

  int asked = 0;
  int status = 200;
  std::string metrics;

 private:
  void on_request(net::Exchange& exchange) override {
    ++asked;
    exchange.respond(exchange.head().target == "/metrics" ? status : 404, {}, metrics);
  }
  std::string error_body(int, std::string_view fault) override { return std::string{fault}; }

  int listening_;
  std::string url_;
  net::Server server_;
};

class GpuWatchTest : public ::testing::Test {
 protected:
  void run_until(const std::function<bool()>& condition) {
    const auto timeout = loop.after(30s, [&] { loop.stop(); });
    const auto poll = loop.every(2ms, [&] {
      if (condition()) loop.stop();
    });
    loop.run();
    loop.cancel(timeout);
    loop.cancel(poll);
    EXPECT_TRUE(condition());
  }
  static signals::EngineSample sample_in(const GpuWatch& watch, const std::string& name, bool is_alone = true) {
    signals::EngineSample filled;
    watch.fill(filled, name, "127.0.0.1", is_alone);
    return filled;
  }
  [[nodiscard]] signals::EngineSample sample(const std::string& name, bool is_alone = true) const {
    return sample_in(*watch, name, is_alone);
  }
  void open(std::vector<std::string> urls) { watch = opened(std::move(urls), ""); }
  std::unique_ptr<GpuWatch> opened(std::vector<std::string> urls, const std::string& in_namespace) {
    return std::make_unique<GpuWatch>(
        loop, client, events, GpuWatchOptions{std::move(urls), in_namespace, credentials, net::Address::resolve, 10ms});
  }
  static std::string utilisation(const std::string& labels, int percent) {
    return "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"," + labels + "} " + std::to_string(percent) + "\n";
  }
  // Each exporter also has a pod that is found in every namespace.
  void expose(const std::string& first, const std::string& second) {
    exporter.metrics = first + utilisation(R"(pod="first")", 1);
    other.metrics = second + utilisation(R"(pod="second")", 2);
  }
  std::unique_ptr<GpuWatch> read_both(const std::string& in_namespace) {
    auto both = opened({exporter.url(), other.url()}, in_namespace);
    run_until([&] { return sample_in(*both, "first").gpu_utilisation && sample_in(*both, "second").gpu_utilisation; });
    return both;
  }

  std::function<std::shared_ptr<const net::Credentials>(const std::string& url)> credentials;
  net::Loop loop;
  net::Client client{loop};
  logging::testing::CapturedLog log;
  FleetEvents events{log};
  ScriptedExporter exporter{loop}, other{loop};
  std::unique_ptr<GpuWatch> watch;
};

TEST_F(GpuWatchTest, ReadsAnExporterBehindTlsWhoseCertificateIsTrusted) {
  const net::testing::TestCertificate certificate;
  ScriptedExporter secure{loop, *net::TlsContext::server(certificate.certificate(), certificate.key())};
  secure.metrics = utilisation(R"(pod="chat-0")", 80);
  open({secure.url()});
  run_until([&] { return !events.all().empty(); });
  EXPECT_EQ(events.all().back().text, "GPU metrics of " + secure.url() + " cannot be read: " + secure.url() +
                                          ": needs TLS, and it is not known whom to trust");
  EXPECT_EQ(secure.asked, 0);
  net::CredentialOptions options;
  options.ca_file = certificate.certificate();
  const auto store = net::CredentialStore::load(options, {});
  ASSERT_TRUE(store);
  credentials = [&](const std::string& url) { return store->of(url); };
  open({secure.url()});
  run_until([&] { return sample("chat-0").gpu_utilisation.has_value(); });
  EXPECT_DOUBLE_EQ(*sample("chat-0").gpu_utilisation, 0.8);
}

TEST_F(GpuWatchTest, FiguresOfAPodBelongToTheReplicaWithItsName) {
  exporter.metrics =
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",pod=\"chat-0\"} 80\nDCGM_FI_DEV_FB_USED{gpu=\"0\",pod=\"chat-0\"} 30\n"
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\",pod=\"chat-0\"} 10\n";
  open({exporter.url()});
  run_until([&] { return sample("chat-0").gpu_utilisation.has_value(); });
  EXPECT_EQ(sample("chat-0").gpu_utilisation, 0.8);
  EXPECT_EQ(sample("chat-0").gpu_memory_usage, 0.75);
  EXPECT_FALSE(sample("chat-0").gpu_memory_bandwidth || sample("chat-0").gpu_memory_full_in);
  EXPECT_FALSE(sample("chat-1").gpu_utilisation) << "missing is not zero";
}

TEST_F(GpuWatchTest, PodsOfTwoNamespacesWithOneNameAreNotMixed) {
  expose(
      utilisation(R"(namespace="prod",pod="vllm-0")", 90),
      utilisation(R"(namespace="staging",pod="vllm-0")", 10) + utilisation(R"(namespace="staging",pod="vllm-1")", 20));
  const auto prod = read_both("prod"), staging = read_both("staging"), unknown = read_both("");
  EXPECT_EQ(sample_in(*prod, "vllm-0").gpu_utilisation, 0.9);
  EXPECT_FALSE(sample_in(*prod, "vllm-1").gpu_utilisation) << "of another namespace";
  EXPECT_EQ(sample_in(*staging, "vllm-0").gpu_utilisation, 0.1);
  EXPECT_EQ(sample_in(*staging, "vllm-1").gpu_utilisation, 0.2);
  EXPECT_FALSE(sample_in(*unknown, "vllm-0").gpu_utilisation) << "either pod may be the replica";
  EXPECT_EQ(sample_in(*unknown, "vllm-1").gpu_utilisation, 0.2);
}

TEST_F(GpuWatchTest, APodWithoutNamespaceNeedsAUniqueName) {
  expose(utilisation(R"(Hostname="node-1",pod="vllm-0")", 90) + utilisation(R"(Hostname="node-1",pod="vllm-1")", 20),
         utilisation(R"(Hostname="node-2",pod="vllm-0")", 10));
  const auto prod = read_both("prod");
  EXPECT_FALSE(sample_in(*prod, "vllm-0").gpu_utilisation);
  EXPECT_EQ(sample_in(*prod, "vllm-1").gpu_utilisation, 0.2);
}

TEST_F(GpuWatchTest, FiguresWithoutPodBelongToTheOnlyReplicaOnTheHost) {
  exporter.metrics = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 40\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} 60\n";
  open({exporter.url() + "/metrics"});
  run_until([&] { return sample("any").gpu_utilisation.has_value(); });
  EXPECT_EQ(sample("any").gpu_utilisation, 0.5);
  EXPECT_FALSE(sample("any", false).gpu_utilisation) << "two replicas share the GPUs";
}

TEST_F(GpuWatchTest, WhyAnExporterCannotBeReadIsReportedOnce) {
  exporter.metrics = "vllm:num_requests_running 3\n";
  open({exporter.url(), "no URL"});
  run_until([&] { return exporter.asked >= 3; });
  EXPECT_EQ(log.count(logging::Event::kGpuMetricsUnavailable), 2U);
  exporter.metrics = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 40\n";
  run_until([&] { return sample("any").gpu_utilisation.has_value(); });
  exporter.status = 500;
  run_until([&] { return log.count(logging::Event::kGpuMetricsUnavailable) == 3; });
}

}  // namespace
}  // namespace penstock::controller
