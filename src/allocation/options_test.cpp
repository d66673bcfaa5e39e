#include "allocation/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace penstock::allocation {
namespace {

// Three lines of hardware and budget, then the deployments from line 4 on.
constexpr const char* kHead =
    "hardware: [{name: h100, price: 3.0, gpus: 8}, {name: l40s, price: 1}]\n"
    "budget: {gpus: 8, money_per_hour: 20}\n"
    "deployments:\n";
constexpr const char* kChat =
    "  - name: chat\n"
    "    demand: 4\n"
    "    pools: [{hardware: h100, capacity: 2.5}]\n";

struct Loaded {
  AllocationOptions options;
  std::vector<std::string> problems;
  std::string role_location;

  explicit operator bool() const { return problems.empty(); }
  const AllocationOptions* operator->() const { return &options; }
};

Loaded load(const std::string& yaml, std::vector<std::string> rates = {}) {
  Loaded made;
  const options::Table table = allocation_table(made.options);
  options::Reading reading = options::read(table, {"a.yaml", yaml, {}});
  settle_allocation(made.options, rates, reading);
  for (const core::Error& error : reading.problems()) made.problems.push_back(error.message());
  made.role_location = reading.location("deployments[0].pools[1].role");
  return made;
}

std::vector<std::string> problems(const std::string& yaml, std::vector<std::string> rates = {}) {
  return load(yaml, std::move(rates)).problems;
}

// The one thing that is wrong.
std::string problem(const std::string& yaml, std::vector<std::string> rates = {}) {
  const auto all = problems(yaml, std::move(rates));
  if (all.size() == 1) return all.front();
  std::string text = std::to_string(all.size()) + " problems";
  for (const std::string& one : all) text += "\n" + one;
  return text;
}

std::string with(const std::string& deployment_lines) { return std::string{kHead} + deployment_lines; }

TEST(Allocation, EverythingThatIsGivenIsRead) {
  const Loaded loaded = load(
      "hardware:\n"
      "  - {name: h100, price: 3.5, gpus: 16}\n"
      "  - {name: l40s, price: 0}\n"
      "budget: {gpus: 24, money_per_hour: 60.5}\n"
      "objective: max-min\n"
      "every: 10m\n"
      "deployments:\n"
      "  - name: chat\n"
      "    priority: -2\n"
      "    weight: 1.5\n"
      "    demand: {trace: day.csv, rate_scale: 3}\n"
      "    slo: {ttft: 1s, itl: 40ms}\n"
      "    shape: {input: 1000, output: 250}\n"
      "    pools:\n"
      "      - {name: p, hardware: h100, role: prefill, gpus: 2, engine: linear, start_up: 3m}\n"
      "      - {name: d, hardware: l40s, role: decode, min_replicas: 1, max_replicas: 9, capacity: 2.5}\n"
      "previous:\n"
      "  - {deployment: chat, pool: p, replicas: 3}\n");
  ASSERT_TRUE(loaded) << loaded.problems.front();
  ASSERT_EQ(loaded->hardware.size(), 2U);
  EXPECT_EQ(loaded->hardware[0].name, "h100");
  EXPECT_EQ(loaded->hardware[0].price_per_gpu_hour, 3.5);
  EXPECT_EQ(loaded->hardware[0].gpus, 16U);
  EXPECT_FALSE(loaded->hardware[1].gpus);
  EXPECT_EQ(loaded->budget.gpus, 24U);
  EXPECT_EQ(loaded->budget.money_per_hour, 60.5);
  EXPECT_EQ(loaded->planner.objective, planner::global::Objective::kMaxMin);
  EXPECT_EQ(loaded->every, std::chrono::minutes{10});
  ASSERT_EQ(loaded->deployments.size(), 1U);
  const AllocationDeployment& chat = loaded->deployments[0];
  EXPECT_EQ(chat.priority, -2);
  EXPECT_EQ(chat.weight, 1.5);
  EXPECT_EQ(chat.demand.trace, "day.csv");
  EXPECT_EQ(chat.demand.rate_scale, 3.0);
  EXPECT_TRUE(loaded->has_traces());
  EXPECT_EQ(chat.slo.ttft, std::chrono::seconds{1});
  EXPECT_EQ(chat.slo.itl, std::chrono::milliseconds{40});
  EXPECT_EQ(chat.input_tokens, 1000U);
  EXPECT_EQ(chat.output_tokens, 250U);
  ASSERT_EQ(chat.pools.size(), 2U);
  EXPECT_EQ(chat.pools[0].spec.role, signals::Role::kPrefill);
  EXPECT_EQ(chat.pools[0].spec.gpus_per_replica, 2U);
  EXPECT_EQ(chat.pools[0].spec.step_time_model, "linear");
  EXPECT_EQ(chat.pools[0].spec.start_up, std::chrono::minutes{3});
  EXPECT_FALSE(chat.pools[0].capacity);
  EXPECT_EQ(chat.pools[1].spec.min_replicas, 1U);
  EXPECT_EQ(chat.pools[1].spec.max_replicas, 9U);
  EXPECT_EQ(chat.pools[1].capacity, 2.5);
  ASSERT_EQ(loaded->planner.previous.size(), 1U);
  EXPECT_EQ(loaded->planner.previous[0].replicas, 3U);
  EXPECT_EQ(loaded.role_location, "a.yaml:16:41: deployments[0].pools[1].role");
}

TEST(Allocation, APoolIsCalledLikeItsHardwareWhereItHasNoName) {
  const Loaded loaded = load(with(kChat));
  ASSERT_TRUE(loaded) << loaded.problems.front();
  EXPECT_EQ(loaded->deployments[0].pools[0].spec.name, "h100");
  EXPECT_EQ(loaded->deployments[0].demand.rps, 4.0);
  EXPECT_FALSE(loaded->has_traces());
}

TEST(Allocation, AMinimumAboveTheDefaultMaximumRaisesIt) {
  const Loaded loaded = load(
      "hardware: [{name: h100, price: 3}]\n"
      "deployments: [{name: chat, demand: 1, pools: [{hardware: h100, capacity: 1, min_replicas: 100}]}]\n");
  ASSERT_TRUE(loaded) << loaded.problems.front();
  EXPECT_EQ(loaded->deployments[0].pools[0].spec.max_replicas, 100U);
}

TEST(Allocation, ARateOnTheCommandLineCountsInsteadOfTheFile) {
  const Loaded loaded = load(with(kChat), {"chat=7.5"});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->deployments[0].demand.rps, 7.5);
}

TEST(Allocation, WrongRatesAreRefused) {
  EXPECT_EQ(problem(with(kChat), {"chatt=7"}), "--rate: unknown deployment 'chatt'; did you mean chat?");
  EXPECT_EQ(problem(with(kChat), {"chat"}), "--rate: must be like NAME=RPS, is 'chat'");
  EXPECT_NE(problem(with(kChat), {"chat=-1"}).find("--rate: must be"), std::string::npos);
  EXPECT_NE(problem(with(kChat), {"chat=nan"}).find("--rate: must be"), std::string::npos);
}

struct Wrong {
  const char* lines;  // Lines of the deployments.
  const char* says;
};

TEST(Allocation, ImpossibleFiguresAreRefusedWithTheirLocation) {
  const Wrong cases[] = {
      {"  - {name: chat, priority: 1.5, demand: 4, pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:28: deployments[0].priority: must be a whole number from -1000000 to 1000000, is '1.5'"},
      {"  - {name: chat, weight: 0, demand: 4, pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:26: deployments[0].weight: must be above 0, is '0'"},
      {"  - {name: chat, weight: .nan, demand: 4, pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:26: deployments[0].weight: must be"},
      {"  - {name: chat, demand: -4, pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:26: deployments[0].demand: must be"},
      {"  - {name: chat, demand: [4], pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:26: deployments[0].demand: must be a number, is a list"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 0}]}\n",
       "a.yaml:4:64: deployments[0].pools[0].capacity: must be above 0, is '0'"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 2, gpus: 0}]}\n",
       "a.yaml:4:73: deployments[0].pools[0].gpus: must be"},
      {"  - {name: chat, demand: 4, slo: {ttft: 0s}, pools: [{hardware: h100, capacity: 2}]}\n",
       "a.yaml:4:41: deployments[0].slo.ttft: must be longer than 0, is '0s'"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 2, role: prefil}]}\n",
       "a.yaml:4:73: deployments[0].pools[0].role: must be aggregated, prefill or decode, is 'prefil'; did you mean "
       "prefill?"},
      {"  - {name: chat, demand: 4, pools: []}\n",
       "a.yaml:4:36: deployments[0].pools: must be a list of sections, is an empty list"},
      {"  - {name: chat, demand: 4}\n", "a.yaml:4:5: deployments[0]: needs the key pools"},
  };
  for (const Wrong& wrong : cases)
    EXPECT_EQ(problem(with(wrong.lines)).rfind(wrong.says, 0), 0U) << problem(with(wrong.lines));
}

TEST(Allocation, NegativePricesAreRefused) {
  EXPECT_EQ(problem("hardware: [{name: h100, price: -3}]\n"
                    "deployments: [{name: chat, demand: 1, pools: [{hardware: h100, capacity: 1}]}]\n")
                .rfind("a.yaml:1:32: hardware[0].price: must be", 0),
            0U);
}

TEST(Allocation, ContradictionsAreRefusedWithTheirLocation) {
  const Wrong cases[] = {
      {"  - {name: chat, demand: 4, pools: [{hardware: h10, capacity: 2}]}\n",
       "a.yaml:4:48: deployments[0].pools[0].hardware: 'h10' is not in the list of hardware; did you mean h100?"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 2, min_replicas: 3, max_replicas: 2}]}\n",
       "a.yaml:4:98: deployments[0].pools[0].max_replicas: must be at least min_replicas (3), is 2"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 2}, {hardware: h100, capacity: 1}]}\n",
       "a.yaml:4:79: deployments[0].pools[1].hardware: 'h100' is used twice; give each a name of its own"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100, capacity: 2, role: prefill}]}\n",
       "a.yaml:4:36: deployments[0].pools: must have one prefill and one decode pool or neither, has 1 and 0; give "
       "each pool its role"},
      {"  - {name: chat, demand: 4, pools: [{hardware: h100}]}\n",
       "a.yaml:4:5: deployments[0]: needs the key shape, since a pool has no capacity: a load test needs requests; "
       "give "
       "shape: {input: TOKENS, output: TOKENS}"},
      {"  - {name: chat, demand: 4, shape: {input: 5}, pools: [{hardware: h100}]}\n",
       "a.yaml:4:5: deployments[0]: needs the key shape.output; give shape: {input: TOKENS, output: TOKENS}"},
  };
  for (const Wrong& wrong : cases) EXPECT_EQ(problem(with(wrong.lines)), wrong.says);
}

TEST(Allocation, NamesThatAreThereTwiceAreRefused) {
  EXPECT_EQ(problem(with(std::string{kChat} + kChat)),
            "a.yaml:7:11: deployments[1].name: 'chat' is used twice; give each a name of its own");
}

TEST(Allocation, ATraceNeedsNoShape) {
  EXPECT_EQ(problems(with("  - {name: chat, demand: {trace: built-in}, pools: [{hardware: h100}]}\n")).size(), 0U);
}

TEST(Allocation, AnIntervalIsForTracesAndInWholeMinutes) {
  EXPECT_EQ(problem(with(kChat) + "every: 5m\n"),
            "a.yaml:7:8: every: is for a demand that changes, and no deployment's comes from a trace; give a demand as "
            "{trace: FILE}, or remove it");
  EXPECT_EQ(problem(with("  - {name: chat, demand: {trace: built-in}, pools: [{hardware: h100}]}\n") + "every: 90s\n"),
            "a.yaml:5:8: every: must be one or more whole minutes, is 90s");
}

TEST(Allocation, ABudgetBelowTheMinimumFleetReportsTheShortfall) {
  const std::string fleet =
      "  - {name: chat, demand: 4, pools: [{hardware: h100, gpus: 2, capacity: 2, min_replicas: 5}]}\n";
  const auto all = problems(with(fleet));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0],
            "a.yaml:1:43: hardware[0].gpus: must hold min_replicas of every pool, which take 10 GPUs, is 8: 2 short; "
            "raise it, or lower min_replicas");
  EXPECT_EQ(all[1].rfind("a.yaml:2:16: budget.gpus: must hold min_replicas of every pool, which take 10 GPUs, is 8", 0),
            0U);
  EXPECT_EQ(all[2].rfind("a.yaml:2:35: budget.money_per_hour: must hold min_replicas of every pool, which take 30 an "
                         "hour, is 20: 10 short",
                         0),
            0U);
}

TEST(Allocation, ABudgetForTheMinimumFleetSuffices) {
  EXPECT_TRUE(
      problems("hardware: [{name: h100, price: 0.1}]\n"
               "budget: {money_per_hour: 0.3, gpus: 3}\n"
               "deployments: [{name: chat, demand: 1, pools: [{hardware: h100, capacity: 1, min_replicas: 3}]}]\n")
          .empty());
}

TEST(Allocation, APreviousPlanNamesWhatIsThere) {
  EXPECT_EQ(problem(with(kChat) + "previous: [{deployment: chatt, pool: h100, replicas: 1}]\n"),
            "a.yaml:7:25: previous[0].deployment: unknown deployment 'chatt'; did you mean chat?");
  EXPECT_EQ(problem(with(kChat) + "previous: [{deployment: chat, pool: l40s, replicas: 1}]\n"),
            "a.yaml:7:37: previous[0].pool: 'chat' has no pool 'l40s'; there are h100");
  EXPECT_EQ(problem(with(kChat) + "previous: [{deployment: chat, pool: h100, replicas: 1}, "
                                  "{deployment: chat, pool: h100, replicas: 2}]\n"),
            "a.yaml:7:82: previous[1].pool: 'h100' is used twice");
}

TEST(Allocation, AllErrorsAreReportedAtOnce) {
  const auto all = problems(
      "hardwear: []\n"
      "budget: {gpu: 3}\n"
      "deployments:\n"
      "  - {name: chat, demand: x, weight: -1, pools: [{hardware: h100, capaciti: 3}]}\n");
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0], "a.yaml:1:1: hardwear: unknown key; did you mean hardware?");
  EXPECT_EQ(all[1], "a.yaml:1:1: needs the key hardware");
  EXPECT_EQ(all[2], "a.yaml:2:10: budget.gpu: unknown key; did you mean gpus?");
  EXPECT_EQ(all[3].rfind("a.yaml:4:26: deployments[0].demand:", 0), 0U);
  EXPECT_EQ(all[4].rfind("a.yaml:4:37: deployments[0].weight:", 0), 0U);
  EXPECT_EQ(all[5], "a.yaml:4:66: deployments[0].pools[0].capaciti: unknown key; did you mean capacity?");
}

TEST(Allocation, AnEmptyFileSaysWhatIsMissing) {
  const auto all = problems("");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0].find("needs the key hardware"), std::string::npos);
  EXPECT_NE(all[1].find("needs the key deployments"), std::string::npos);
}

}  // namespace
}  // namespace penstock::allocation
