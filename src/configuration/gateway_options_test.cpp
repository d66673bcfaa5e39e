#include <gtest/gtest.h>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

using namespace std::chrono_literals;

GatewaySetup loaded_gateway(std::string yaml, std::vector<options::FlagValue> flags = {}) {
  return loaded(std::move(yaml), std::move(flags)).gateway;
}

TEST(GatewayOptions, ReplicasMayBeInSeveralFiles) {
  const std::vector<std::string> both = {"a.json", "b.json"};
  EXPECT_EQ(loaded_gateway("gateway: {replicas_file: [a.json, b.json]}\n").discovery.files, both);
  EXPECT_EQ(loaded_gateway("", {{"--replicas-file", "a.json,b.json"}}).discovery.files, both);
  EXPECT_EQ(loaded_gateway("gateway: {replicas_file: a.json}\n").discovery.files, std::vector{both[0]});
}

TEST(GatewayOptions, PeersAreUrlsInAListOrAFlag) {
  const std::vector<std::string> both = {"http://a:1", "http://b:1"};
  EXPECT_EQ(loaded_gateway("gateway: {peers: ['http://a:1', 'http://b:1']}\n").options.peers.urls, both);
  EXPECT_EQ(loaded_gateway("", {{"--peers", "http://a:1,http://b:1"}}).options.peers.urls, both);
  EXPECT_TRUE(loaded_gateway("").options.peers.urls.empty());
}

TEST(GatewayOptions, FlagsCountMoreThanTheFile) {
  const GatewaySetup settings =
      loaded_gateway("gateway: {listen: '127.0.0.1:1', retries: 1}\n", {{"--listen", "127.0.0.1:2"}});
  EXPECT_EQ(settings.listen, "127.0.0.1:2");
  EXPECT_EQ(settings.options.dispatch.retries, 1U);
}

TEST(GatewayOptions, ReadsListsOfSections) {
  const GatewaySetup settings = loaded_gateway(
      "gateway:\n"
      "  replicas:\n"
      "    - {url: 'http://a:1', model: m, role: prefill, weight: 0.5, kv_events: 'tcp://a:2'}\n"
      "tenants:\n"
      "  - {name: shop, keys: [k1, k2], key_files: f, key_envs: 'A,B', weight: 2, tier: -1, tokens_per_minute: 1000,\n"
      "     burst: 50, over_budget: queue, reserve: expected, concurrent: 3, context: 4096, models: [m, n], class: "
      "batch, over_context: truncate, max_prompt_tokens: 3000, max_completion_tokens: 500}\n"
      "models:\n"
      "  - {name: m, input_price: 1, cached_input_price: 0.5, output_price: 2, context: 8192, over_context: truncate,\n"
      "     max_prompt_tokens: 6000, max_completion_tokens: 700}\n"
      "  - {name: n}\n"
      "slo: {ttft: 1s, segments: [{name: chat, tenant: shop, itl: 20ms}]}\n");
  ASSERT_EQ(settings.discovery.replicas.size(), 1U);
  EXPECT_EQ(settings.discovery.replicas[0].role, signals::Role::kPrefill);
  EXPECT_EQ(settings.discovery.replicas[0].kv_events, "tcp://a:2");
  EXPECT_DOUBLE_EQ(settings.discovery.replicas[0].weight, 0.5);
  ASSERT_EQ(settings.tenants.size(), 1U);
  const TenantOptions& shop = settings.tenants[0];
  EXPECT_EQ(shop.keys, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(shop.key_files, (std::vector<std::string>{"f"}));
  EXPECT_EQ(shop.key_envs, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(shop.tier, -1);
  EXPECT_EQ(shop.over_budget, dispatch::OverBudget::kQueue);
  EXPECT_EQ(shop.reserve, admission::Reserve::kExpected);
  EXPECT_EQ(shop.concurrent, 3U);
  EXPECT_EQ(shop.context_tokens, 4096U);
  EXPECT_EQ(shop.over_context, dispatch::OverContext::kTruncate);
  EXPECT_EQ(shop.caps.prompt_tokens, 3000U);
  EXPECT_EQ(shop.caps.completion_tokens, 500U);
  EXPECT_EQ(shop.models, (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ(shop.traffic_class, admission::Class::kBatch);
  ASSERT_EQ(settings.options.dispatch.models.size(), 2U);
  EXPECT_DOUBLE_EQ(settings.options.dispatch.models[0].price.cached_input, 0.5);
  EXPECT_EQ(settings.options.dispatch.models[0].context_tokens, 8192U);
  EXPECT_EQ(settings.options.dispatch.models[0].over_context, dispatch::OverContext::kTruncate);
  EXPECT_EQ(settings.options.dispatch.models[1].over_context, dispatch::OverContext::kReject);
  EXPECT_EQ(settings.options.dispatch.models[0].caps.prompt_tokens, 6000U);
  EXPECT_EQ(settings.options.dispatch.models[0].caps.completion_tokens, 700U);
  EXPECT_EQ(settings.options.dispatch.models[1].caps.prompt_tokens, 0U);
  ASSERT_EQ(settings.options.dispatch.slo.segments.size(), 1U);
  EXPECT_EQ(settings.options.dispatch.slo.segments[0].target.ttft, core::Duration{1s})
      << "what a segment does not say is the general target's";
  EXPECT_EQ(settings.options.dispatch.slo.segments[0].target.itl, core::Duration{20ms});
}

TEST(GatewayOptions, CachedTokensHaveThePriceOfOthersUnlessTheyHaveTheirOwn) {
  const GatewaySetup settings = loaded_gateway(
      "models:\n"
      "  - {name: a, input_price: 3}\n"
      "  - {name: b, input_price: 3, cached_input_price: 0}\n");
  EXPECT_DOUBLE_EQ(settings.options.dispatch.models[0].price.cached_input, 3.0);
  EXPECT_DOUBLE_EQ(settings.options.dispatch.models[1].price.cached_input, 0.0);
}

TEST(GatewayOptions, TenantsTurnOffAnonymousRequests) {
  const std::string tenants = "tenants: [{name: shop, keys: [k]}]\n";
  EXPECT_FALSE(loaded_gateway(tenants).options.anonymous);
  EXPECT_TRUE(loaded_gateway(tenants + "gateway: {anonymous: true}\n").options.anonymous);
  EXPECT_TRUE(loaded_gateway(tenants, {{"--anonymous", "true"}}).options.anonymous);
}

TEST(GatewayOptions, WordsOfAKeyInAnotherOrderLeadToTheKey) {
  EXPECT_EQ(problems("gateway: {access_log: on}\nmodels: [{name: m, price_input: 1}]\n"),
            "p.yaml:1:11: gateway.access_log: unknown key; did you mean log.access?\n"
            "p.yaml:2:20: models[0].price_input: unknown key; did you mean input_price?\n");
}

TEST(GatewayOptions, PricesOfOtherProgramsLeadToThePricesHere) {
  EXPECT_EQ(problems("models: [{name: m, prompt_price: 1, output_cost_per_token: 2}]\n"),
            "p.yaml:1:20: models[0].prompt_price: unknown key; write input_price, of 1M tokens\n"
            "p.yaml:1:37: models[0].output_cost_per_token: unknown key; write output_price, of 1M tokens\n");
}

TEST(GatewayOptions, ReportsAllFaultsOfAFileAtOnceWithTheirPlaces) {
  EXPECT_EQ(
      problems("gateway: {listn: x, retries: 11, admission: {kv_reject: 2}}\n"
               "tenants: [{name: a, keys: [k], wieght: 1}, {keys: [k2]}, 7]\n"
               "models: m\n"
               "classes: {batch: {queue_time: 5}}\n"),
      "p.yaml:1:11: gateway.listn: unknown key; did you mean listen?\n"
      "p.yaml:1:30: gateway.retries: must be from 0 to 10, is '11'\n"
      "p.yaml:1:57: gateway.admission.kv_reject: must be a share from 0 to 1 or 0% to 100%, is '2'\n"
      "p.yaml:2:32: tenants[0].wieght: unknown key; did you mean weight?\n"
      "p.yaml:2:44: tenants[1]: needs the key name\n"
      "p.yaml:2:58: tenants[2]: must be a section, is '7'; its keys are name, keys, key_files, key_envs, weight, tier, "
      "tokens_per_minute, burst, over_budget, reserve, concurrent, context, max_prompt_tokens, max_completion_tokens, "
      "over_context, models, class, overload, "
      "priority, "
      "isolation or "
      "operator\n"
      "p.yaml:3:9: models: must be a list of sections, is 'm'; begin each with a dash\n"
      "p.yaml:4:31: classes.batch.queue_time: needs a unit (ns, us, ms, s, m, h or d), is '5'\n");
}

TEST(GatewayOptions, AWrongPolicyForLongPromptsNamesItsPlace) {
  EXPECT_EQ(problems("models: [{name: m, over_context: cut}]\ntenants: [{name: a, keys: [k], over_context: 1}]\n"),
            "p.yaml:1:34: models[0].over_context: must be reject or truncate, is 'cut'\n"
            "p.yaml:2:46: tenants[0].over_context: must be reject or truncate, is '1'\n");
}

TEST(GatewayOptions, ACapThatTheContextMakesSuperfluousNamesItsPlace) {
  EXPECT_EQ(
      problems("models: [{name: m, context: 8192, max_prompt_tokens: 8192}]\n"),
      "p.yaml:1:54: models[0].max_prompt_tokens: must be below context (8192), is 8192; prompt and answer together "
      "have at most the tokens of context\n");
  EXPECT_EQ(problems("tenants: [{name: a, keys: [k], max_completion_tokens: 5000, context: 4096}]\n"),
            "p.yaml:1:55: tenants[0].max_completion_tokens: must be below context (4096), is 5000; prompt and answer "
            "together have at most the tokens of context\n");
  EXPECT_EQ(problems("models: [{name: m, max_prompt_tokens: 0}]\n"),
            "p.yaml:1:39: models[0].max_prompt_tokens: must be from 1 to 100000000, is '0'\n");
  EXPECT_EQ(problems("models: [{name: m, context: 8192, max_prompt_tokens: 8000, max_completion_tokens: 8000}]\n"), "");
}

TEST(GatewayOptions, FaultsOfFlagsNameTheFlag) {
  EXPECT_EQ(problems("", {{"--retries", "many"}}), "--retries: must be a whole number from 0 to 10, is 'many'\n");
}

TEST(GatewayOptions, ContradictionsNameTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"gateway: {tls: {certificate: c.pem}}\n",
       "p.yaml:1:30: gateway.tls.certificate: TLS needs a certificate and a key, one of them is missing\n"},
      {"gateway: {tls: {key: k.pem}}\n",
       "p.yaml:1:22: gateway.tls.key: TLS needs a certificate and a key, one of them is missing\n"},
      {"gateway: {admission: {kv_throttle: 0.9, kv_reject: 0.8}}\n",
       "p.yaml:1:52: gateway.admission.kv_reject: must be at least kv_throttle (0.9), is 0.8\n"},
      {"tenants: [{name: a, keys: [k]}, {name: a, keys: [l]}]\n",
       "p.yaml:1:33: tenants[1]: the name 'a' is used twice\n"},
      {"tenants: [{name: anonymous, keys: [k]}]\n",
       "p.yaml:1:11: tenants[0]: the name anonymous is reserved for requests without a key\n"},
      {"tenants: [{name: a}]\n",
       "p.yaml:1:11: tenants[0]: needs keys, key_files or key_envs, or no request could be of this tenant\n"},
      {"gateway: {replicas: [{url: 'http://a:1'}, {url: 'http://a:1'}]}\n",
       "p.yaml:1:43: gateway.replicas[1]: the url 'http://a:1' is used twice\n"},
      {"gateway: {health_interval: 0s}\n", "p.yaml:1:28: gateway.health_interval: must be longer than 0, is '0s'\n"},
      {"slo: {itl: 0s}\n", "p.yaml:1:12: slo.itl: must be longer than 0, is '0s'\n"},
      {"gateway: {peer_interval: 1m}\n", "p.yaml:1:26: gateway.peer_interval: must be from 100ms to 10s, is 60s\n"},
      {"gateway: {peers: 'http://a:1', admin_tls: {certificate: c, key: k, client_ca: a}}\n",
       "p.yaml:1:18: gateway.peers: gateways identify themselves to each other by a token only, and there is none; set "
       "gateway.admin_token_file or gateway.admin_token_env\n"},
      {"models: [{name: m}, {name: m}]\n", "p.yaml:1:21: models[1]: the name 'm' is used twice\n"},
      {"gateway: {endpoint_picker: {listen: ':9002', certificate: c.pem}}\n",
       "p.yaml:1:59: gateway.endpoint_picker.certificate: TLS needs a certificate and a key, one of them is missing\n"},
      {"gateway: {endpoint_picker: {listen: ':9002', tls: false, certificate: c.pem, key: k.pem}}\n",
       "p.yaml:1:71: gateway.endpoint_picker.certificate: has no effect without gateway.endpoint_picker.tls\n"},
      {"gateway: {endpoint_picker: {health_listen: ':9003'}}\n",
       "p.yaml:1:44: gateway.endpoint_picker.health_listen: has no effect without gateway.endpoint_picker.listen\n"},
      {"gateway: {kubernetes: {inference_pool: chat, selector: app=vllm}}\n",
       "p.yaml:1:40: gateway.kubernetes.inference_pool: names the pods, as does gateway.kubernetes.selector; remove "
       "one "
       "of them\n"},
      {"gateway: {kubernetes: {inference_pool: chat, ports: [8000]}}\n",
       "p.yaml:1:53: gateway.kubernetes.ports: are those of pods that gateway.kubernetes.selector selects; an "
       "InferencePool states its own\n"},
      {"gateway: {kubernetes: {selector: app=vllm, ports: [8000, 8000]}}\n",
       "p.yaml:1:51: gateway.kubernetes.ports: has '8000' twice\n"},
      {"gateway: {kubernetes: {selector: app=vllm, ports: [0]}}\n",
       "p.yaml:1:51: gateway.kubernetes.ports: must be from 1 to 65535, is '0'\n"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(problems(yaml), message);
}

TEST(GatewayOptions, KeysOfTenantsAreNeverInMessages) {
  const char* cases[] = {
      "tenants: [{name: a, keys: ['sk-secret,sk-secret2']}]\n",
      "tenants: [{name: a, keys: {sk-secret: 1}}]\n",
      "tenants: [{name: a, keys: [[sk-secret]]}]\n",
      "tenants: [{name: a, keys: ['sk-secret', '']}]\n",
      "tenants: [{name: a, keys: ',sk-secret'}]\n",
  };
  for (const char* yaml : cases) {
    const std::string shown = problems(yaml);
    EXPECT_NE(shown, "") << yaml;
    EXPECT_EQ(shown.find("sk-"), std::string::npos) << shown;
  }
}

TEST(GatewayOptions, ShareOneFileWithThePlanners) {
  const std::string yaml =
      "model: penstock-sim\n"
      "pools: [{name: chat, replicas: 1, min_replicas: 1, max_replicas: 4}]\n"
      "planner: {tick_interval: 2s}\n"
      "slo: {ttft: 1s, itl: 30ms, goal: 0.9}\n"
      "gateway: {anonymous: true, retries: 1}\n"
      "classes: {interactive: {queue_time: 3s}}\n"
      "models: [{name: penstock-sim, input_price: 0.5}]\n"
      "tenants: [{name: shop, keys: [sk-shop]}]\n";
  const Configuration made = loaded(yaml);
  EXPECT_EQ(made.gateway.options.dispatch.slo.target.ttft, core::Duration{1s});
  EXPECT_EQ(made.run.slo.ttft, core::Duration{1s});
  EXPECT_EQ(made.gateway.options.dispatch.interactive.queue_time, core::Duration{3s});
  EXPECT_EQ(made.run.pools[0].max_replicas, 4U);
}

TEST(GatewayOptions, SeveralPortsOfAPodAreAListOrOneNumber) {
  using Ports = std::vector<std::uint16_t>;
  const auto ports = [](const char* text) {
    return loaded(std::string{"gateway: {kubernetes: {selector: app=vllm, ports: "} + text + "}}\n")
        .gateway.discovery.pods.ports;
  };
  EXPECT_EQ(ports("[8001, 8000]"), (Ports{8001, 8000}));
  EXPECT_EQ(ports("8001"), (Ports{8001}));
  EXPECT_EQ(ports("'8001,8002'"), (Ports{8001, 8002}));
}

TEST(GatewayOptions, RenamedKeysNameTheNewOne) {
  EXPECT_EQ(problems("gateway: {silence: 3s, first_byte_time: 1s}\n"),
            "p.yaml:1:11: gateway.silence: was renamed; write gateway.stream_idle_timeout\n"
            "p.yaml:1:24: gateway.first_byte_time: was renamed; write gateway.first_byte_timeout\n");
}

}  // namespace
}  // namespace penstock::configuration
