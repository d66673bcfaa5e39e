#include "cli/epp_flags.h"

#include <gtest/gtest.h>

#include "cli/endpoint_picker_config.h"

namespace penstock::cli {
namespace {

TEST(EppFlags, TheCommandLineOfLlmdsChartBecomesOneOfTheGateway) {
  const auto line = read_epp_words({"--pool-name", "chat", "--pool-namespace", "prod", "--pool-group",
                                    "inference.networking.k8s.io", "--zap-encoder", "json", "--config-file",
                                    "/config/default.yaml", "--ha-enable-leader-election", "--grpc-health-port", "9003",
                                    "--tracing=false", "-v", "4", "--secure-serving=false", "--cert-path=/certs"});
  ASSERT_TRUE(line);
  EXPECT_EQ(
      line->gateway,
      (Arguments{"--pool-name", "chat", "--pool-namespace", "prod", "--pool-group", "inference.networking.k8s.io",
                 "--log-format", "json", "--endpoint-picker-health-listen", ":9003", "--endpoint-picker-tls", "false",
                 "--endpoint-picker-certificate", "/certs/tls.crt", "--endpoint-picker-key", "/certs/tls.key"}));
  EXPECT_EQ(line->config_file, "/config/default.yaml");
  EXPECT_EQ(line->warnings, (std::vector<std::string>{"--ha-enable-leader-election has no counterpart and is ignored",
                                                      "--tracing has no counterpart and is ignored",
                                                      "-v has no counterpart and is ignored"}));
}

TEST(EppFlags, PortsThatAreGivenSeveralTimesAdd) {
  const auto line = read_epp_words({"--endpoint-selector", "app=vllm,tier=a", "--endpoint-target-ports", "8000",
                                    "--endpoint-target-ports=8001,8002", "http://10.0.0.1:8000"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->gateway, (Arguments{"--endpoint-selector", "app=vllm,tier=a", "--endpoint-target-ports",
                                      "8000,8001,8002", "http://10.0.0.1:8000"}));
}

TEST(EppFlags, AFlagWithoutItsValueIsAnError) {
  const auto line = read_epp_words({"--grpc-port"});
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().message(), "--grpc-port: needs a value");
}

TEST(EndpointPickerConfig, LimitsAreTakenAndPluginsWithoutACounterpartAreNamed) {
  const auto config = parse_endpoint_picker_config("epp.yaml", R"(
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- type: queue-scorer
- type: prefix-cache-scorer
  parameters: {maxPrefixBlocksToMatch: 256}
- type: lora-affinity-scorer
- {name: mine, type: by-label}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer, weight: 2}]
flowControl: {maxRequests: 5k, defaultRequestTTL: 1m30s, maxBytes: 1Gi}
dataLayer: {sources: []}
)");
  ASSERT_TRUE(config) << config.error()[0].message();
  EXPECT_EQ(config->queue_time, std::chrono::seconds{90});
  EXPECT_EQ(config->queue_requests, 5000U);
  EXPECT_EQ(config->warnings,
            (std::vector<std::string>{"epp.yaml: the plugin lora-affinity-scorer has no counterpart and is ignored",
                                      "epp.yaml: the plugin mine (by-label) has no counterpart and is ignored",
                                      "epp.yaml: flowControl.maxBytes has no counterpart and is ignored",
                                      "epp.yaml: dataLayer has no counterpart and is ignored"}));
}

TEST(EndpointPickerConfig, FaultsHaveTheirPlace) {
  const auto other = parse_endpoint_picker_config("p.yaml", "gateway: {listen: ':1'}\n");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error()[0].message(),
            "p.yaml: the kind must be EndpointPickerConfig, is ''; give the configuration of Penstock as --config");
  const auto bad = parse_endpoint_picker_config(
      "p.yaml", "kind: EndpointPickerConfig\nflowControl: {maxRequests: 0, defaultRequestTTL: soon}\n");
  ASSERT_FALSE(bad);
  ASSERT_EQ(bad.error().size(), 2U);
  EXPECT_TRUE(bad.error()[0].message().starts_with("p.yaml:2:28: flowControl.maxRequests: "))
      << bad.error()[0].message();
  EXPECT_TRUE(bad.error()[1].message().starts_with("p.yaml:2:50: flowControl.defaultRequestTTL: "))
      << bad.error()[1].message();
}

}  // namespace
}  // namespace penstock::cli
