#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

TEST(Configuration, DefaultsAreThoseOfTheModules) {
  const Configuration made = loaded("");
  EXPECT_EQ(made.run.router, routing::Strategy::kLive);
  EXPECT_EQ(made.run.pools.size(), 1U);
  EXPECT_EQ(made.run.pools[0].name, "default");
  EXPECT_EQ(made.run.pools[0].engine.kv_blocks, engine::EngineConfig{}.kv_blocks);
  EXPECT_EQ(made.gateway.options.dispatch.retries, dispatch::DispatchOptions{}.retries);
  EXPECT_EQ(made.gateway.options.dispatch.batch.queue_time, std::chrono::minutes{5});
}

TEST(Configuration, FlagsOverrideTheFileInEveryPool) {
  const simulation::RunOptions settings =
      loaded(
          "start_up: 60s\npools:\n  - {role: prefill, replicas: 2}\n  - {role: decode, replicas: 3, start_up: 90s}\n",
          {{"--replicas", "5"}})
          .run;
  EXPECT_EQ(settings.pools[0].replicas, 5U);
  EXPECT_EQ(settings.pools[1].replicas, 5U);
  EXPECT_EQ(settings.pools[0].start_up, std::chrono::seconds{60});
  EXPECT_EQ(settings.pools[1].start_up, std::chrono::seconds{90});
  EXPECT_EQ(settings.pools[1].name, "decode");
}

TEST(Configuration, PoolFlagsMakePoolsThatShareTheOtherFlags) {
  const simulation::RunOptions settings = loaded("", {{"--pool", "role=prefill,replicas=2"},
                                                      {"--pool", "role=decode"},
                                                      {"--replicas", "3"},
                                                      {"--kv-blocks", "500"}})
                                              .run;
  ASSERT_EQ(settings.pools.size(), 2U);
  EXPECT_EQ(settings.pools[0].replicas, 2U);
  EXPECT_EQ(settings.pools[1].replicas, 3U);
  EXPECT_EQ(settings.pools[1].engine.kv_blocks, 500U);
}

TEST(Configuration, ADefaultBoundAdaptsToTheGivenOnes) {
  EXPECT_EQ(loaded("", {{"--replicas", "100"}}).run.pools[0].max_replicas, 100U);
  EXPECT_EQ(loaded("", {{"--min-replicas", "3"}}).run.pools[0].replicas, 3U);
}

TEST(Configuration, GpusOfAReplicaFollowTheParallelismOfItsEngine) {
  const auto gpus_of = [](const Configuration& made, std::size_t pool) {
    return made.run.pools[pool].gpus_per_replica;
  };
  EXPECT_EQ(gpus_of(loaded("", {{"--engine", "roofline:llama-3.1-70b,h100,tp=4"}}), 0), 4U);
  EXPECT_EQ(gpus_of(loaded("engine: {model: 'roofline:llama-3.1-70b,h100,tp=4,pp=2'}\ngpus: 8\n"), 0), 8U);
  EXPECT_EQ(gpus_of(loaded("engine: {model: 'linear:8,0.1,0.05,0.00005'}\ngpus: 3\n"), 0), 3U);
  const Configuration two = loaded(
      "pools:\n  - {role: prefill, engine: {model: 'roofline:llama-3.1-70b,h100,tp=4'}}\n  - {role: decode, gpus: "
      "2}\n");
  EXPECT_EQ(gpus_of(two, 0), 4U);
  EXPECT_EQ(gpus_of(two, 1), 2U);
}

TEST(Configuration, GpusThatContradictTheEngineAreAnError) {
  EXPECT_EQ(problems("pools:\n  - {gpus: 1, engine: {model: 'roofline:llama-3.1-70b,h100,tp=4,pp=2'}}\n"),
            "p.yaml:2:12: pools[0].gpus: is 1, but a replica of llama-3.1-70b has 8 GPUs (tp=4 × pp=2); correct one of "
            "the two, or leave gpus out\n");
  EXPECT_EQ(problems("", {{"--engine", "roofline:llama-3.1-70b,h100,tp=4"}, {"--gpus", "2"}}),
            "--gpus: is 2, but a replica of llama-3.1-70b has 4 GPUs (tp=4); correct one of the two, or leave gpus "
            "out\n");
}

TEST(Configuration, KvBlocksFollowTheMemoryOfTheGpus) {
  const auto tokens_of = [](const Configuration& made) {
    return std::uint64_t{made.run.pools[0].engine.kv_blocks} * made.run.pools[0].engine.block_tokens;
  };
  // 55.5 GiB at 128 KiB a token.
  EXPECT_NEAR(static_cast<double>(tokens_of(loaded("", {{"--engine", "roofline:llama-3.1-8b,h100"}}))), 454'000, 2'000);
  EXPECT_EQ(tokens_of(loaded("engine: {model: 'roofline:llama-3.1-8b,h100', kv_blocks: 100}\n")), 100U * 512U);
  EXPECT_EQ(tokens_of(loaded("engine: {model: polynomial}\n")), 2000U * 512U);
  EXPECT_EQ(problems("engine: {model: 'roofline:llama-3.1-8b,l4', kv_blocks: 2000}\n"),
            "p.yaml:1:56: engine.kv_blocks: 2000 blocks of 512 tokens do not fit the GPUs, which hold 57942 tokens "
            "without any overhead; leave it out for 24151 tokens\n");
}

TEST(Configuration, EnginesOfOthersAreOnlyWhatIsConfiguredOfThem) {
  const auto pool_of = [](const std::string& yaml) { return loaded(yaml).run.pools[0]; };
  EXPECT_FALSE(pool_of("").known_max_sequences);
  EXPECT_FALSE(pool_of("").known_kv_bytes_per_token);
  EXPECT_EQ(pool_of("engine: {max_sequences: 256}\n").known_max_sequences, 256U);
  EXPECT_EQ(pool_of("pools: [{name: a, engine: {max_sequences: 64}}]\n").known_max_sequences, 64U);
  EXPECT_EQ(pool_of("kv_transfer: {bytes_per_token: 70kB}\n").known_kv_bytes_per_token, 70'000.0);
  // 32 layers, 8 KV heads of 128 elements in 16 bit, on all GPUs together.
  EXPECT_EQ(pool_of("engine: {model: 'roofline:llama-3.1-8b,h100'}\n").known_kv_bytes_per_token, 131'072.0);
  EXPECT_EQ(pool_of("engine: {model: 'roofline:llama-3.1-8b,h100,tp=2'}\n").known_kv_bytes_per_token, 131'072.0);
  const Configuration two = loaded(
      "engine: {max_sequences: 32}\nkv_transfer: {bytes_per_token: 1kB}\n"
      "deployments: [{name: a, model: a}, {name: b, model: b, engine: {max_sequences: 8}}]\n");
  const std::vector<simulation::PoolSpec> pools = all_pools(two);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].known_max_sequences, 32U);
  EXPECT_EQ(pools[1].known_max_sequences, 8U);
  EXPECT_EQ(pools[1].known_kv_bytes_per_token, 1000.0);
}

TEST(Configuration, LimitsOfAnEngineAreThoseOfItsMeasuredProfileUnlessTheyAreGiven) {
  const std::string file = ::testing::TempDir() + "limits_of_a_profile.json";
  const auto limits_of = [&](const std::string& fields, const std::vector<std::pair<std::string, std::string>>& flags) {
    std::ofstream{file} << R"({"prefill_isl": [100, 1000], "prefill_ttft_ms": [20, 50], "decode_itl": [5],
        "decode_active_kv_tokens": [1], "decode_context_length": [1])"
                        << fields << "}";
    std::vector<options::FlagValue> given{{"--engine", file}};
    for (const auto& [flag, text] : flags) given.push_back({flag, text});
    const engine::EngineConfig engine = loaded("", given).run.pools[0].engine;
    return std::pair{engine.kv_blocks, engine.max_sequences};
  };
  using Limits = std::pair<std::uint32_t, std::uint32_t>;
  const engine::EngineConfig usual;
  const std::string both = R"(, "max_kv_tokens": 102400, "max_sequences": 64)";
  EXPECT_EQ(limits_of(both, {}), (Limits{200, 64}));
  EXPECT_EQ(limits_of(both, {{"--block-size", "16"}}), (Limits{6400, 64}));
  EXPECT_EQ(limits_of(both, {{"--kv-blocks", "300"}, {"--max-sequences", "32"}}), (Limits{300, 32}));
  EXPECT_EQ(limits_of(R"(, "max_sequences": 64, "max_sequences_from": "measurement")", {}),
            (Limits{usual.kv_blocks, usual.max_sequences}));
  EXPECT_EQ(limits_of("", {}), (Limits{usual.kv_blocks, usual.max_sequences}));
}

TEST(Configuration, AllPoliciesMeansEachOnce) {
  EXPECT_EQ(loaded("", {{"--policy", "static,all"}}).policies.size(), all_policies().size());
}

TEST(Configuration, ReportsAllFaultsOfAFileAtOnceWithTheirPlaces) {
  EXPECT_EQ(problems("replicas: 010\nrouter: kvv\nslo: {ttft: 2}\nwatermark: 1\nprice: .nan\n"
                     "engine: {watermark: [1]}\nfrontier: 8..1\n"),
            "p.yaml:1:11: replicas: must not begin with a zero, is '010'; some tools would read it as octal\n"
            "p.yaml:2:9: router: must be live, kv, round-robin, least-loaded or p2c, is 'kvv'; did you mean kv?\n"
            "p.yaml:3:13: slo.ttft: needs a unit (ns, us, ms, s, m, h or d), is '2'\n"
            "p.yaml:4:1: watermark: unknown key; did you mean engine.watermark?\n"
            "p.yaml:5:8: price: must be a number, is '.nan'\n"
            "p.yaml:6:21: engine.watermark: must be a share, is a list\n"
            "p.yaml:7:11: frontier: must not be reversed, is '8..1'; write 1..8\n");
}

TEST(Configuration, ContradictionsAreReportedBesideValuesThatCannotBeRead) {
  EXPECT_EQ(
      problems("polcy: static\nslo: {ttft: 2, segments: [{name: chat, ttft: 1s}]}\n"
               "pools: [{name: a, min_replicas: 4, max_replicas: 2}]\n"
               "tenants: [{name: shop, api_key: k}, {name: shop, keys: [k]}]\n"
               "planner: {tick_interval: 1s, gpu_budget: many, predictor: seasonale}\n"
               "gateway: {tls: {certificate: c.pem}}\n"),
      "p.yaml:1:1: polcy: unknown key; did you mean policy?\n"
      "p.yaml:2:13: slo.ttft: needs a unit (ns, us, ms, s, m, h or d), is '2'\n"
      "p.yaml:4:24: tenants[0].api_key: unknown key; write keys, or key_files or key_envs to keep keys out of the "
      "file\n"
      "p.yaml:5:42: planner.gpu_budget: must be a whole number from 0 to 10000000, is 'many'\n"
      "p.yaml:3:50: pools[0].max_replicas: must be at least min_replicas (4), is 2\n"
      "p.yaml:2:27: slo.segments[0]: selects nothing; give it a model, class, tenant, prompt_min or prompt_max\n"
      "p.yaml:5:59: planner.predictor: unknown predictor 'seasonale'; did you mean seasonal? there are constant, "
      "linear, "
      "seasonal, arima, kalman, decomposition or auto\n"
      "p.yaml:4:37: tenants[1]: the name 'shop' is used twice\n"
      "p.yaml:6:30: gateway.tls.certificate: TLS needs a certificate and a key, one of them is missing\n");
}

TEST(Configuration, ContradictionsThatFollowFromAnErrorAreNotReported) {
  // Each file has one error, with the first of which a check that compares values would find another one.
  for (const char* yaml :
       {"pools: [{name: a, min_replicas: four, max_replicas: 2, replicas: 1}]\n",
        "pools: [{role: prefil}, {role: decode}]\n",
        "pools: [{type: prefill}, {role: decode}]\n",
        "pools: [{nam: b}]\nfaults: {events: [{kind: hang, pool: b}]}\n",
        "pool: [{name: b}]\nfaults: {events: [{kind: hang, pool: b}]}\n",
        "pools: [{nam: b}]\nplanner: {schedules: [{cron: '0 8 * * *', length: 1h, pool: b, replicas: 1}]}\n",
        "max_replicas: 8s\nplanner: {schedules: [{cron: '0 8 * * *', length: 1h, replicas: 4}]}\n",
        "pools: [{name: a, prompt_max: 1k}, {name: b}]\n",
        "pools: [{min_replicas: no}]\nplanner: {gpu_budget: 0}\n",
        "from: 2h\nto: 1\nengine: {watermark: 0.1}\n",
        "tenants: [{name: a, api_key: k}]\n",
        "slo: {segments: [{name: a, clas: batch}]}\n",
        "slo: {segments: [{name: a, tenant: x, class: bach}, {name: b, tenant: x, class: batch}]}\n",
        "gateway: {tls: {certificate: c.pem, ky: k.pem}}\n",
        "planner: {tick_interval: ten, load_interval: 2s}\n",
        "engine: {max_batched_tokens: 2k, max_sequences: 9000}\n",
        "deployment: [{name: a, model: m}]\nbudget: {gpus: 8}\n",
        "deployments: [{name: a, modell: m}, {name: b, model: n}]\n",
        "tenants: 3\nclasses: {interactive: {overload: shed}, batch: {degrade_above: 1}}\n",
        "replicas: [1\n"}) {
    const std::string found = problems(yaml);
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << yaml << found;
  }
}

struct Contradiction {
  const char* yaml;
  std::vector<options::FlagValue> flags;
  const char* message;
};

TEST(Configuration, ContradictionsNameTheirPlace) {
  const Contradiction cases[] = {
      {"pools:\n  - role: prefill\n  - role: decode\n    min_replicas: 4\n    max_replicas: 2\n",
       {},
       "p.yaml:5:19: pools[1].max_replicas: must be at least min_replicas (4), is 2\n"},
      {"", {{"--replicas", "9"}, {"--max-replicas", "8"}}, "--replicas: must be at most max_replicas (8), is 9\n"},
      {"", {{"--replicas", "1"}, {"--min-replicas", "2"}}, "--replicas: must be at least min_replicas (2), is 1\n"},
      {"asleep: 4\n", {}, "p.yaml:1:9: asleep: needs wake_time above 0s, the time to wake a replica\n"},
      {"",
       {{"--asleep", "4"}, {"--wake-time", "5s"}, {"--max-replicas", "2"}},
       "--asleep: must be at most max_replicas (2), is 4; lower it, or raise max_replicas\n"},
      {"wake_time: 5s\npools: [{role: prefill, max_replicas: 4, asleep: 4}, {role: decode, max_replicas: 4, asleep: "
       "5}]\n",
       {},
       "p.yaml:2:94: pools[1].asleep: must be at most max_replicas (4), is 5; lower it, or raise max_replicas\n"},
      {"",
       {{"--start-up", "30s"}, {"--wake-time", "31s"}},
       "--wake-time: must be at most start_up (30s), is 31s; leave it out, because a start is faster\n"},
      {"pools: [{wake_time: 121s}]\n",
       {},
       "p.yaml:1:21: pools[0].wake_time: must be at most start_up (120s), is 121s; leave it out, because a start is "
       "faster\n"},
      {"max_replicas: 8\n", {{"--replicas", "9"}}, "--replicas: must be at most max_replicas (8), is 9\n"},
      {"switch_time: 5s\n",
       {},
       "p.yaml:1:14: switch_time: needs one prefill and one decode pool with the same number of GPUs per replica; "
       "leave it out, or give --pool role=prefill --pool role=decode\n"},
      {"pools:\n  - {role: prefill, gpus: 2, switch_time: 5s}\n  - {role: decode}\n",
       {},
       "p.yaml:2:43: pools[0].switch_time: needs one prefill and one decode pool with the same number of GPUs per "
       "replica; leave it out, or give --pool role=prefill --pool role=decode\n"},
      {"pools:\n  - {role: prefill}\n  - {role: decode}\n",
       {{"--switch-time", "3m"}},
       "--switch-time: must be shorter than start_up (120s), is 180s; leave it out, because a start is faster\n"},
      {"", {{"--from", "2h"}, {"--to", "1h"}}, "--to: must be later than from (2h), is 1h\n"},
      {"", {{"--slo", "ttft=0s"}}, "--slo ttft: must be longer than 0, is '0s'\n"},
      {"slo: {itl: 0}\n", {}, "p.yaml:1:12: slo.itl: must be longer than 0, is '0'\n"},
      {"", {{"--slo", "tttf=1s"}}, "--slo: unknown key 'tttf'; did you mean ttft?\n"},
      {"", {{"--slo", "1s"}}, "--slo: must be like key=value,key=value, is '1s'\n"},
      {"", {{"--block-size", "0"}}, "--block-size: must be from 1 to 65536, is '0'\n"},
      {"", {{"--max-batched-tokens", "100"}}, "--max-batched-tokens: must be at least max_sequences (256), is 100\n"},
      {"", {{"--watermark", "100%"}}, "--watermark: must be below 1, or no request is ever admitted\n"},
      {"",
       {{"--prefill-share", "0.9"}},
       "--prefill-share: must be 1, or from prefill_share_min (0.1) to prefill_share_max (0.6), is 0.9\n"},
      {"",
       {{"--prefill-share-min", "0.7"}},
       "--prefill-share-min: prefill_share_min (0.7) must be at most prefill_share_max (0.6)\n"},
      {"pools:\n  - role: prefill\n",
       {},
       "p.yaml:2:5: pools[0]: a disaggregated deployment has one prefill and one decode pool, this one has 1 prefill, "
       "0 "
       "decode and 0 aggregated; give each pool its role\n"},
      {"pools: 3\n", {}, "p.yaml:1:8: pools: must be a list of sections, is '3'; begin each with a dash\n"},
      {"",
       {{"--pool", "role=prefill"}, {"--pool", "role=decode"}, {"--frontier", "1..4"}},
       "--frontier: must begin at 2 or more, since prefill and decode need a replica each\n"},
      {"", {{"--json", "x"}, {"--csv", "x"}}, "--csv: names the same file as json, 'x'\n"},
      {"pools: [{price: -1}]\n", {}, "p.yaml:1:17: pools[0].price: must be from 0 to 1e+06, is '-1'\n"},
      {"price: -0.5\n", {}, "p.yaml:1:8: price: must be from 0 to 1e+06, is '-0.5'\n"},
      {"", {{"--price", "-2"}}, "--price: must be from 0 to 1e+06, is '-2'\n"},
      {"", {{"--pool", "price=-2"}}, "--pool price: must be from 0 to 1e+06, is '-2'\n"},
      {"",
       {{"--cache-event-delay", "2s"}},
       "--cache-event-delay: has no effect on this router; only kv follows KV events\n"},
      {"",
       {{"--cancelled-after", "2s"}},
       "--cancelled-after: has no effect while cancelled_requests is 0; set the share of clients that leave\n"},
      {"faults: {events: [{kind: hang, pool: decode}]}\n",
       {},
       "p.yaml:1:38: faults.events[0].pool: no pool is named 'decode'\n"},
      {"faults: {events: [{kind: hang, factor: 2}]}\n",
       {},
       "p.yaml:1:40: faults.events[0].factor: has an effect on kind slow only\n"},
      {"faults: {events: [{kind: crash, for: 2s}]}\n",
       {},
       "p.yaml:1:38: faults.events[0].for: a crash has no end; the pool starts another replica\n"},
      {"faults: {slow_replicas: 1}\n", {}, "p.yaml:1:10: faults.slow_replicas: was renamed; write faults.events\n"},
      {"max_gpu_budget: 8\n", {}, "p.yaml:1:1: max_gpu_budget: was renamed; write planner.gpu_budget\n"},
      {"planner: {min_endpoint: 1}\n",
       {},
       "p.yaml:1:11: planner.min_endpoint: was renamed; write planner.minimum_endpoints\n"},
  };
  for (const Contradiction& contradiction : cases)
    EXPECT_EQ(problems(contradiction.yaml, contradiction.flags), contradiction.message);
}

TEST(Configuration, TargetsOfPoolsInKubernetesAreCheckedAndDiffer) {
  EXPECT_EQ(problems("pools: [{role: prefill, kubernetes: deployment/p}, {role: decode, kubernetes: statefulset/d}]"),
            "");
  EXPECT_EQ(problems("pools: [{role: prefill, kubernetes: deployment/p, switch_time: 5s}, "
                     "{role: decode, kubernetes: deployment/d}]"),
            "");
  EXPECT_NE(
      problems("pools: [{role: prefill, kubernetes: deployment/p, switch_time: 5s}, "
               "{role: decode, kubernetes: statefulset/d}]")
          .find("pools[1].kubernetes: is a StatefulSet, whose pods cannot change their role; leave out switch_time, "
                "or name a deployment"),
      std::string::npos);
  EXPECT_NE(problems("pools: [{kubernetes: pod/p}]").find("pools[0].kubernetes: \"pod/p\" is no object with replicas"),
            std::string::npos);
  EXPECT_NE(problems("pools: [{role: prefill, kubernetes: deployment/p}, {role: decode, kubernetes: "
                     "apps/v1/deployments/p}]")
                .find("pools[1].kubernetes: two pools have the target deployments.apps \"p\""),
            std::string::npos);
}

TEST(Configuration, PoolsThatMustRunOnOneNodeExist) {
  const std::string pools = "pools: [{role: prefill, name: p}, {role: decode, name: d}]\n";
  EXPECT_EQ(problems(pools + "planner: {kubernetes: {single_node: [p, d]}}"), "");
  EXPECT_NE(problems(pools + "planner: {kubernetes: {single_node: [x]}}")
                .find("planner.kubernetes.single_node: no pool is called"),
            std::string::npos);
  EXPECT_NE(problems("pools: [{role: prefill, kubernetes: dynamographdeployment/g/D}, {role: decode, kubernetes: "
                     "dynamographdeploymentscalingadapter/g-d}]")
                .find("two pools have the target"),
            std::string::npos)
      << "the adapter of a component scales the component";
}

TEST(Configuration, AnUnknownPolicyGetsASuggestion) {
  EXPECT_TRUE(problems("policy: [static, hpa-rat]\n")
                  .starts_with("p.yaml:1:18: policy[1]: unknown policy 'hpa-rat'; did you mean hpa-rate? there are "));
  EXPECT_TRUE(
      problems("policy: [hpa]\n")
          .starts_with("p.yaml:1:10: policy[0]: unknown policy 'hpa'; did you mean hpa-rate or hpa-concurrency? "));
}

TEST(Configuration, SettingsOfAllPoliciesAreAnError) {
  EXPECT_EQ(problems("policy: [static, \"all:goal=0.9\"]\n"),
            "p.yaml:1:18: policy[1]: 'all:goal=0.9': all takes no settings; name each policy with its settings\n");
  EXPECT_EQ(problems("", {{"--policy", "llmd-slo:up=0.3:down=0.5"}}),
            "--policy: 'llmd-slo:up=0.3:down=0.5': down must be at most up (0.3), is 0.5; lower down or raise up\n");
}

TEST(Configuration, NamesOfOtherProgramsLeadToHints) {
  EXPECT_EQ(
      problems("slo: {tpot: 50ms}\nreport_interval_hours: 24\nplanner: {live_dashboard_port: 8080}\n"
               "tenants: [{name: a, keys: [k], api_key: x, rpm: 3, tpm: 4, budget_usd: 5}]\n"),
      "p.yaml:1:7: slo.tpot: unknown key; write itl, the mean gap between the tokens of a request\n"
      "p.yaml:2:1: report_interval_hours: unknown key; write report_interval, as 24h\n"
      "p.yaml:3:11: planner.live_dashboard_port: unknown key; use the flag --dashboard of `penstock plan`; 0 disables "
      "the page\n"
      "p.yaml:4:32: tenants[0].api_key: unknown key; write keys, or key_files or key_envs to keep keys out of the "
      "file\n"
      "p.yaml:4:44: tenants[0].rpm: unknown key; requests per minute have no limit; write tokens_per_minute, or "
      "concurrent for requests at once\n"
      "p.yaml:4:52: tenants[0].tpm: unknown key; write tokens_per_minute\n"
      "p.yaml:4:60: tenants[0].budget_usd: unknown key; budgets are in tokens; write tokens_per_minute\n");
}

}  // namespace
}  // namespace penstock::configuration
