#include "config/gateway.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "config/gateway_keys.h"
#include "config/replay_testing.h"

namespace penstock::config {
namespace {

using namespace std::chrono_literals;

GatewaySources gateway_sources(std::string yaml, std::vector<FlagValue> flags = {}) {
  GatewaySources made;
  made.file = yaml.empty() ? "" : "p.yaml";
  made.yaml = std::move(yaml);
  made.flags = std::move(flags);
  return made;
}

GatewaySettings loaded_gateway(std::string yaml, std::vector<FlagValue> flags = {}) {
  auto settings = load_gateway(gateway_sources(std::move(yaml), std::move(flags)));
  if (!settings) ADD_FAILURE() << settings.error().front().message();
  return settings.value_or(GatewaySettings{});
}

std::string gateway_problems(std::string yaml, std::vector<FlagValue> flags = {}) {
  const auto settings = load_gateway(gateway_sources(std::move(yaml), std::move(flags)));
  std::string text;
  if (!settings)
    for (const core::Error& error : settings.error()) text += error.message() + "\n";
  return text;
}

const GatewayKey& key_named(std::string_view name) {
  const auto found =
      std::find_if(gateway_keys().begin(), gateway_keys().end(), [&](const auto& key) { return key.key == name; });
  EXPECT_NE(found, gateway_keys().end()) << name;
  return *found;
}

// A value of each type that is nobody's default.
std::string other_value(const GatewayKey& key) {
  static const std::map<std::string_view, std::string> kByType = {{"address", "127.0.0.1:4711"},
                                                                  {"text", "some.file"},
                                                                  {"list", "some.file,another.file"},
                                                                  {"count", "77"},
                                                                  {"duration", "77s"},
                                                                  {"share", "0.87"},
                                                                  {"number", "77"},
                                                                  {"bytes", "77B"}};
  if (key.key == "gateway.retries") return "7";
  if (key.type == "boolean") return key.show(GatewaySettings{}) == "true" ? "false" : "true";
  return kByType.at(key.type);
}

// "a.b" as sections in each other.
std::string as_yaml(std::string_view key, const std::string& value) {
  const std::size_t dot = key.find('.');
  const std::string name{key.substr(0, dot)};
  if (dot == std::string_view::npos) return name + ": '" + value + "'";
  return name + ": {" + as_yaml(key.substr(dot + 1), value) + "}";
}

TEST(GatewaySettings, DefaultsStandWithoutAnySource) {
  const GatewaySettings settings = loaded_gateway("");
  EXPECT_EQ(settings.listen, "127.0.0.1:8000");
  EXPECT_EQ(settings.admin_listen, "127.0.0.1:8081");
  EXPECT_TRUE(settings.anonymous);
  EXPECT_TRUE(settings.replicas.empty());
  EXPECT_EQ(settings.batch.queue_time, 5min);
  EXPECT_DOUBLE_EQ(settings.kv_throttle, 0.85);
}

TEST(GatewaySettings, EveryDefaultIsReadBackByItsOwnKey) {
  const GatewaySettings defaults;
  for (const GatewayKey& key : gateway_keys()) {
    const std::string shown = key.show(defaults);
    if (shown.empty()) continue;
    GatewaySettings settings;
    EXPECT_TRUE(key.put(settings, shown)) << key.key;
    EXPECT_EQ(key.show(settings), shown) << key.key;
  }
}

TEST(GatewaySettings, EveryKeySetsItsOwnValueAndNoOther) {
  for (const GatewayKey& key : gateway_keys()) {
    GatewaySettings settings;
    const std::string value = other_value(key);
    ASSERT_TRUE(key.put(settings, value)) << key.key;
    const GatewaySettings defaults;
    for (const GatewayKey& other : gateway_keys())
      if (other.key == key.key)
        EXPECT_NE(other.show(settings), other.show(defaults)) << key.key;
      else
        EXPECT_EQ(other.show(settings), other.show(defaults)) << key.key << " changes " << other.key;
  }
}

TEST(GatewaySettings, YamlAndFlagsSayTheSame) {
  for (const GatewayKey& key : gateway_keys()) {
    if (key.flag.empty() || key.key.starts_with("gateway.tls")) continue;
    const std::string value = other_value(key);
    const GatewaySettings yaml = loaded_gateway(as_yaml(key.key, value));
    const GatewaySettings flag = loaded_gateway("", {{std::string{key.flag}, value}});
    EXPECT_EQ(key.show(yaml), key.show(flag)) << key.key;
    EXPECT_NE(key.show(yaml), key.show(GatewaySettings{})) << key.key;
  }
}

TEST(GatewaySettings, ReplicasMayStandInSeveralFiles) {
  const std::vector<std::string> both = {"a.json", "b.json"};
  EXPECT_EQ(loaded_gateway("gateway: {replicas_file: [a.json, b.json]}\n").replicas_files, both);
  EXPECT_EQ(loaded_gateway("", {{"--replicas-file", "a.json,b.json"}}).replicas_files, both);
  EXPECT_EQ(loaded_gateway("gateway: {replicas_file: a.json}\n").replicas_files, std::vector{both[0]});
}

TEST(GatewaySettings, FlagsCountMoreThanTheFile) {
  const GatewaySettings settings =
      loaded_gateway("gateway: {listen: '127.0.0.1:1', retries: 1}\n", {{"--listen", "127.0.0.1:2"}});
  EXPECT_EQ(settings.listen, "127.0.0.1:2");
  EXPECT_EQ(settings.retries, 1U);
}

TEST(GatewaySettings, ReplicasOfTheCommandLineTakeThePlaceOfTheFiles) {
  GatewaySources sources = gateway_sources("gateway:\n  replicas:\n    - {url: 'http://a:1', weight: 2}\n");
  sources.replicas = {"http://b:1", "http://c:1"};
  const auto settings = load_gateway(sources);
  ASSERT_TRUE(settings);
  ASSERT_EQ(settings->replicas.size(), 2U);
  EXPECT_EQ(settings->replicas[0].url, "http://b:1");
  EXPECT_DOUBLE_EQ(settings->replicas[0].weight, 1.0);
}

TEST(GatewaySettings, ReadsListsOfSections) {
  const GatewaySettings settings = loaded_gateway(
      "gateway:\n"
      "  replicas:\n"
      "    - {url: 'http://a:1', model: m, role: prefill, weight: 0.5, kv_events: 'tcp://a:2'}\n"
      "tenants:\n"
      "  - {name: shop, keys: [k1, k2], key_files: f, key_envs: 'A,B', weight: 2, tier: -1, tokens_per_minute: 1000,\n"
      "     burst: 50, over_budget: queue, concurrent: 3, context: 4096, models: [m, n], class: batch}\n"
      "models:\n"
      "  - {name: m, input_price: 1, cached_input_price: 0.5, output_price: 2, context: 8192}\n"
      "slo: {ttft: 1s, segments: [{name: chat, tenant: shop, itl: 20ms}]}\n");
  ASSERT_EQ(settings.replicas.size(), 1U);
  EXPECT_EQ(settings.replicas[0].role, "prefill");
  EXPECT_EQ(settings.replicas[0].kv_events, "tcp://a:2");
  EXPECT_DOUBLE_EQ(settings.replicas[0].weight, 0.5);
  ASSERT_EQ(settings.tenants.size(), 1U);
  const TenantSettings& shop = settings.tenants[0];
  EXPECT_EQ(shop.keys, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(shop.key_files, (std::vector<std::string>{"f"}));
  EXPECT_EQ(shop.key_envs, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(shop.tier, -1);
  EXPECT_EQ(shop.over_budget, "queue");
  EXPECT_EQ(shop.concurrent, 3U);
  EXPECT_EQ(shop.context_tokens, 4096U);
  EXPECT_EQ(shop.models, (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ(shop.traffic_class, "batch");
  ASSERT_EQ(settings.models.size(), 1U);
  EXPECT_DOUBLE_EQ(settings.models[0].cached_input_price, 0.5);
  EXPECT_EQ(settings.models[0].context_tokens, 8192U);
  ASSERT_EQ(settings.slo_segments.size(), 1U);
  EXPECT_EQ(settings.slo_segments[0].ttft, core::Duration{1s}) << "what a segment does not say is the general target's";
  EXPECT_EQ(settings.slo_segments[0].itl, core::Duration{20ms});
}

TEST(GatewaySettings, WhoNamesTenantsMeansToKnowWhoAsks) {
  const std::string tenants = "tenants: [{name: shop, keys: [k]}]\n";
  EXPECT_FALSE(loaded_gateway(tenants).anonymous);
  EXPECT_TRUE(loaded_gateway(tenants + "gateway: {anonymous: true}\n").anonymous);
  EXPECT_TRUE(loaded_gateway(tenants, {{"--anonymous", "true"}}).anonymous);
}

TEST(GatewaySettings, ReportsAllFaultsOfAFileAtOnceWithTheirPlaces) {
  EXPECT_EQ(
      gateway_problems("gateway: {listn: x, retries: 11, admission: {kv_reject: 2}}\n"
                       "tenants: [{name: a, keys: [k], wieght: 1}, {keys: [k2]}, 7]\n"
                       "models: m\n"
                       "classes: {batch: {queue_time: 5}}\n"),
      "p.yaml:1:11: gateway.listn: is no known key; did you mean listen?\n"
      "p.yaml:1:30: gateway.retries: must be from 0 to 10, is '11'\n"
      "p.yaml:1:57: gateway.admission.kv_reject: must be a share from 0 to 1 or 0% to 100%, is '2'\n"
      "p.yaml:2:32: tenants[0].wieght: is no known key; did you mean weight?\n"
      "p.yaml:2:44: tenants[1]: needs the key name\n"
      "p.yaml:2:58: tenants[2]: must be a section, is '7'; its keys are name, keys, key_files, key_envs, weight, tier, "
      "tokens_per_minute, burst, over_budget, concurrent, context, models or class\n"
      "p.yaml:3:9: models: must be a list of sections, is 'm'; begin each with a dash\n"
      "p.yaml:4:31: classes.batch.queue_time: needs a unit (ns, us, ms, s, m, h or d), is '5'\n");
}

TEST(GatewaySettings, FaultsOfFlagsNameTheFlag) {
  EXPECT_EQ(gateway_problems("", {{"--retries", "many"}}),
            "--retries: must be a whole number from 0 to 10, is 'many'\n");
}

TEST(GatewaySettings, ContradictionsNameTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"gateway: {tls: {certificate: c.pem}}\n",
       "p.yaml:1:30: gateway.tls.certificate: needs a certificate and a key, there is one of them\n"},
      {"gateway: {tls: {key: k.pem}}\n",
       "p.yaml:1:22: gateway.tls.key: needs a certificate and a key, there is one of them\n"},
      {"gateway: {admission: {kv_throttle: 0.9, kv_reject: 0.8}}\n",
       "p.yaml:1:52: gateway.admission.kv_reject: must be at least kv_throttle (0.9), is 0.8\n"},
      {"tenants: [{name: a, keys: [k]}, {name: a, keys: [l]}]\n",
       "p.yaml:1:33: tenants[1]: the name 'a' is there twice\n"},
      {"tenants: [{name: anonymous, keys: [k]}]\n",
       "p.yaml:1:11: tenants[0]: the name anonymous is that of requests without a key\n"},
      {"tenants: [{name: a}]\n",
       "p.yaml:1:11: tenants[0]: needs keys, key_files or key_envs: nobody could be this tenant\n"},
      {"gateway: {replicas: [{url: 'http://a:1'}, {url: 'http://a:1'}]}\n",
       "p.yaml:1:43: gateway.replicas[1]: the url 'http://a:1' is there twice\n"},
      {"gateway: {health_interval: 0s}\n", "p.yaml:1:28: gateway.health_interval: must be longer than 0\n"},
      {"slo: {itl: 0s}\n", "p.yaml:1:12: slo.itl: must be longer than 0\n"},
      {"models: [{name: m}, {name: m}]\n", "p.yaml:1:21: models[1]: the name 'm' is there twice\n"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(gateway_problems(yaml), message);
}

TEST(GatewaySettings, KeysOfTenantsNeverStandInMessages) {
  const char* cases[] = {
      "tenants: [{name: a, keys: ['sk-secret,sk-secret2']}]\n",
      "tenants: [{name: a, keys: {sk-secret: 1}}]\n",
      "tenants: [{name: a, keys: [[sk-secret]]}]\n",
      "tenants: [{name: a, keys: ['sk-secret', '']}]\n",
      "tenants: [{name: a, keys: ',sk-secret'}]\n",
  };
  for (const char* yaml : cases) {
    const std::string said = gateway_problems(yaml);
    EXPECT_NE(said, "") << yaml;
    EXPECT_EQ(said.find("sk-"), std::string::npos) << said;
  }
}

TEST(GatewaySettings, ShareOneFileWithThePlanners) {
  const std::string yaml =
      "model: penstock-sim\n"
      "pools: [{name: chat, replicas: 1, min_replicas: 1, max_replicas: 4}]\n"
      "planner: {load_interval: 2s}\n"
      "slo: {ttft: 1s, itl: 30ms, goal: 0.9}\n"
      "gateway: {anonymous: true, retries: 1}\n"
      "classes: {interactive: {queue_time: 3s}}\n"
      "models: [{name: penstock-sim, input_price: 0.5}]\n"
      "tenants: [{name: shop, keys: [sk-shop]}]\n";
  const GatewaySettings gateway = loaded_gateway(yaml);
  const ReplaySettings planner = loaded(yaml);
  EXPECT_EQ(gateway.slo_ttft, core::Duration{1s});
  EXPECT_EQ(planner.slo_ttft, core::Duration{1s});
  EXPECT_EQ(gateway.interactive.queue_time, core::Duration{3s});
  EXPECT_EQ(planner.pools[0].max_replicas, 4U);
}

TEST(GatewaySettings, AKeyOfNeitherIsRefusedByBothReaders) {
  const std::string yaml = "tenats: [{name: a, keys: [k]}]\n";
  EXPECT_NE(gateway_problems(yaml).find("p.yaml:1:1: tenats: is no known key"), std::string::npos);
  EXPECT_NE(problems(yaml).find("p.yaml:1:1: tenats: is no known key"), std::string::npos);
}

TEST(GatewaySettings, ReferencePageIsWhatTheTableSays) {
  const std::string source = __FILE__;
  std::ifstream file{source.substr(0, source.rfind("src/config/")) + "docs/reference/gateway-options.md"};
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), gateway_options_markdown()) << "write it with: penstock gateway --options-markdown";
}

TEST(GatewaySettings, EveryKeyIsNamedOnceAndExplained) {
  std::vector<std::string_view> names = gateway_names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const GatewayKey& key : gateway_keys()) EXPECT_FALSE(key.help.empty() || key.type.empty()) << key.key;
  EXPECT_EQ(key_named("gateway.retries").flag, "--retries");
}

}  // namespace
}  // namespace penstock::config
