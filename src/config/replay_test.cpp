#include "config/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/replay_options.h"
#include "config/replay_testing.h"

namespace penstock::config {
namespace {

TEST(Replay, DefaultsStandWithoutAnySource) {
  const ReplaySettings settings = loaded("");
  EXPECT_EQ(settings.router, "live");
  EXPECT_EQ(settings.pools.size(), 1U);
  EXPECT_EQ(settings.pools[0].name, "default");
  EXPECT_EQ(settings.pools[0].engine.kv_blocks, 2000U);
}

TEST(Replay, EveryDefaultIsReadBackByItsOwnOption) {
  const ReplaySettings defaults;
  for (const Option& option : replay_options()) {
    const std::string shown = option.show(defaults, defaults.pools.front());
    if (shown.empty() || option.list) continue;
    ReplaySettings settings;
    const std::vector<std::string> values = {shown};
    EXPECT_TRUE(option.put({settings, settings.pools.front()}, values)) << option.key;
    EXPECT_EQ(option.show(settings, settings.pools.front()), shown) << option.key;
  }
}

TEST(Replay, YamlAndFlagsSayTheSame) {
  const ReplaySettings yaml = loaded(
      "trace: [a.csv, b.csv]\npolicy: [static, hpa-rate]\nreplicas: 4\nslo: {ttft: 1s, itl: 30ms}\n"
      "engine: {model: 'linear:1,2,3', chunked_prefill: false}\nfrontier: 1..8\nto: 1h\nskip_bad_rows: true\n");
  ReplaySources by_flag = sources("", {{"--policy", "static,hpa-rate"},
                                       {"--replicas", "4"},
                                       {"--slo", "ttft=1s,itl=30ms"},
                                       {"--engine", "linear:1,2,3"},
                                       {"--no-chunked-prefill", "false"},
                                       {"--frontier", "1..8"},
                                       {"--to", "1h"},
                                       {"--skip-bad-rows", "true"}});
  by_flag.traces = {"a.csv", "b.csv"};
  const auto flags = load_replay(by_flag);
  ASSERT_TRUE(flags);
  for (const Option& option : replay_options())
    EXPECT_EQ(option.show(yaml, yaml.pools[0]), option.show(*flags, flags->pools[0])) << option.key;
  EXPECT_EQ(yaml.pools[0].engine.model, "linear:1,2,3");
}

TEST(Replay, FlagsOverrideTheFileInEveryPool) {
  const ReplaySettings settings = loaded(
      "start_up: 60s\npools:\n  - {role: prefill, replicas: 2}\n  - {role: decode, replicas: 3, start_up: 90s}\n",
      {{"--replicas", "5"}});
  EXPECT_EQ(settings.pools[0].replicas, 5U);
  EXPECT_EQ(settings.pools[1].replicas, 5U);
  EXPECT_EQ(settings.pools[0].start_up, std::chrono::seconds{60});
  EXPECT_EQ(settings.pools[1].start_up, std::chrono::seconds{90});
  EXPECT_EQ(settings.pools[1].name, "decode");
}

TEST(Replay, PoolFlagsMakePoolsThatShareTheOtherFlags) {
  const ReplaySettings settings = loaded(
      "",
      {{"--pool", "role=prefill,replicas=2"}, {"--pool", "role=decode"}, {"--replicas", "3"}, {"--kv-blocks", "500"}});
  ASSERT_EQ(settings.pools.size(), 2U);
  EXPECT_EQ(settings.pools[0].replicas, 2U);
  EXPECT_EQ(settings.pools[1].replicas, 3U);
  EXPECT_EQ(settings.pools[1].engine.kv_blocks, 500U);
}

TEST(Replay, ABoundNobodyNamedGivesWay) {
  EXPECT_EQ(loaded("", {{"--replicas", "100"}}).pools[0].max_replicas, 100U);
  EXPECT_EQ(loaded("", {{"--min-replicas", "3"}}).pools[0].replicas, 3U);
}

TEST(Replay, AllPoliciesMeansEachOnce) {
  EXPECT_EQ(loaded("", {{"--policy", "static,all"}}).policies.size(), kPolicies.size());
}

TEST(Replay, ReportsAllFaultsOfAFileAtOnceWithTheirPlaces) {
  EXPECT_EQ(problems("replicas: 010\nrouter: kvv\nslo: {ttft: 2}\nwatermark: 1\nprice: .nan\n"
                     "engine: {watermark: [1]}\nfrontier: 8..1\n"),
            "p.yaml:1:11: replicas: must not begin with a zero, is '010'; some tools would read it as octal\n"
            "p.yaml:2:9: router: must be kv, round-robin, least-loaded or p2c, is 'kvv'; did you mean kv?\n"
            "p.yaml:3:13: slo.ttft: needs a unit (ns, us, ms, s, m, h or d), is '2'\n"
            "p.yaml:4:1: watermark: is no known key\n"
            "p.yaml:5:8: price: must be a number, is '.nan'\n"
            "p.yaml:6:21: engine.watermark: must be a share, is a list\n"
            "p.yaml:7:11: frontier: must not be reversed, is '8..1'; write 1..8\n");
}

struct Contradiction {
  const char* yaml;
  std::vector<FlagValue> flags;
  const char* message;
};

TEST(Replay, ContradictionsNameTheirPlace) {
  const Contradiction cases[] = {
      {"pools:\n  - role: prefill\n  - role: decode\n    min_replicas: 4\n    max_replicas: 2\n",
       {},
       "p.yaml:5:19: pools[1].max_replicas: must be at least min_replicas (4), is 2\n"},
      {"", {{"--replicas", "9"}, {"--max-replicas", "8"}}, "--replicas: must be at most max_replicas (8), is 9\n"},
      {"", {{"--replicas", "1"}, {"--min-replicas", "2"}}, "--replicas: must be at least min_replicas (2), is 1\n"},
      {"max_replicas: 8\n", {{"--replicas", "9"}}, "--replicas: must be at most max_replicas (8), is 9\n"},
      {"", {{"--from", "2h"}, {"--to", "1h"}}, "--to: must be later than from (2h), is 1h\n"},
      {"", {{"--slo", "ttft=0s"}}, "--slo ttft: must be longer than 0\n"},
      {"slo: {itl: 0}\n", {}, "p.yaml:1:12: slo.itl: must be longer than 0\n"},
      {"", {{"--slo", "tttf=1s"}}, "--slo: has no key 'tttf'; its keys are ttft, itl or goal\n"},
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
      {"pools: 3\n", {}, "p.yaml:1:8: pools: must be a list of pools, is '3'; begin each pool with a dash\n"},
      {"",
       {{"--pool", "role=prefill"}, {"--pool", "role=decode"}, {"--frontier", "1..4"}},
       "--frontier: must begin at 2 or more, since prefill and decode need a replica each\n"},
      {"", {{"--json", "x"}, {"--csv", "x"}}, "--csv: names the same file as json, 'x'\n"},
      {"policy: [static, hpa-rat]\n",
       {},
       "p.yaml:1:18: policy[1]: no policy is called 'hpa-rat'; did you mean hpa-rate? there are static, hpa-rate, "
       "keda-tokens, dynamo-latency, clairvoyant or all\n"},
      {"pools: [{price: -1}]\n", {}, "p.yaml:1:17: pools[0].price: must be from 0 to 1e+06, is '-1'\n"},
      {"price: -0.5\n", {}, "p.yaml:1:8: price: must be from 0 to 1e+06, is '-0.5'\n"},
      {"", {{"--price", "-2"}}, "--price: must be from 0 to 1e+06, is '-2'\n"},
      {"", {{"--pool", "price=-2"}}, "--pool price: must be from 0 to 1e+06, is '-2'\n"},
      {"",
       {{"--slow-factor", "2"}},
       "--slow-factor: slows nothing down while slow_replicas is 0; say how many replicas are slow\n"},
  };
  for (const Contradiction& contradiction : cases)
    EXPECT_EQ(problems(contradiction.yaml, contradiction.flags), contradiction.message);
}

TEST(Replay, ReferencePageIsWhatTheTableSays) {
  const std::string source = __FILE__;
  const std::string root = source.substr(0, source.rfind("src/config/"));
  std::ifstream file{root + "docs/reference/replay-options.md"};
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), replay_options_markdown()) << "write it with: penstock replay --options-markdown";
}

}  // namespace
}  // namespace penstock::config
