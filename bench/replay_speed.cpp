// How fast a replay is, beside the peer's: replay_speed [PEER.csv]. One thread; the best of five runs, since what else
// runs on a machine only ever slows a run down. Both are compared by CPU seconds, which that changes least. Prints a
// table in Markdown.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/step_time_models.h"
#include "fidelity/peer_runs.h"
#include "simulation/run.h"
#include "workload/reader.h"
#include "workload/synthetic.h"

namespace {

using namespace penstock;

template <class T>
T value_or_stop(core::Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "replay_speed: {}\n", result.error().message());
  std::exit(1);
}

std::shared_ptr<const engine::StepTimeModel> polynomial() {
  static const auto kModel = value_or_stop(engine::make_step_time_model("polynomial"));
  return kModel;
}

simulation::RunOptions options(std::uint32_t replicas, routing::Strategy router) {
  simulation::RunOptions made;
  made.pools[0].step_time = polynomial();
  made.pools[0].replicas = replicas;
  made.pools[0].max_replicas = std::max(64U, replicas);
  made.router = router;
  return made;
}

// A recorded trace where it is at hand, otherwise one of its size and rate.
workload::Workload trace_or(const char* file, const char* synthetic) {
  const std::string path = std::string{PENSTOCK_TRACES} + "/" + file;
  if (std::filesystem::exists(path)) return value_or_stop(workload::read_workload(path, {}));
  fmt::print(stderr, "replay_speed: {} is not there; using {}\n", path, synthetic);
  return value_or_stop(workload::make_synthetic(value_or_stop(workload::parse_synthetic(synthetic)), 1));
}

struct Speed {
  double requests_per_s = 0.0, requests_per_cpu_s = 0.0;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Speed measure(const workload::Workload& work, const simulation::RunOptions& run_options, const char* policy_name) {
  Speed best;
  for (int i = 0; i < 5; ++i) {
    auto policy = value_or_stop(planner::make_policy(policy_name, {}));
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    const auto result = value_or_stop(simulation::run(work, *policy, run_options));
    const double cpu = cpu_seconds() - cpu_start;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto requests = static_cast<double>(result.requests);
    best.requests_per_s = std::max(best.requests_per_s, requests / seconds);
    best.requests_per_cpu_s = std::max(best.requests_per_cpu_s, requests / cpu);
  }
  return best;
}

std::optional<double> peer_speed(const std::vector<fidelity::PeerRun>& peer, const std::string& work,
                                 std::uint32_t replicas) {
  for (const auto& run : peer)
    if (run.work == work && run.replicas == replicas && run.requests_per_cpu_s > 0.0 &&
        (work == "saturated" || run.router == routing::Strategy::kKv))
      return run.requests_per_cpu_s;
  return std::nullopt;
}

void print_row(const std::string& work, const Speed& ours, std::optional<double> theirs) {
  fmt::print("| {} | {} | {:.0f} | {:.0f} | {} |\n", work, theirs ? fmt::format("{:.0f}", *theirs) : "–",
             ours.requests_per_cpu_s, ours.requests_per_s,
             theirs ? fmt::format("{:.0f}x", ours.requests_per_cpu_s / *theirs) : "–");
  std::fflush(stdout);
}

std::vector<fidelity::PeerRun> read_peer(const char* path) {
  const std::string text = value_or_stop(engine::read_file(path, 1 << 20));
  return value_or_stop(fidelity::parse_peer_runs(path, text));
}

}  // namespace

int main(int argc, char** argv) {
  using routing::Strategy;
  const auto peer = argc > 1 ? read_peer(argv[1]) : std::vector<fidelity::PeerRun>{};
  fmt::print(
      "| work | Dynamo 1.6.1 replay, requests per CPU s | Penstock, requests per CPU s | requests/s | ratio |\n"
      "|---|---|---|---|---|\n");

  const auto uniform = value_or_stop(workload::make_synthetic(
      value_or_stop(workload::parse_synthetic("synthetic:requests=100000,rate=1000,cv=0,input=1000,output=250")), 1));
  simulation::RunOptions small_blocks = options(16, routing::Strategy::kRoundRobin);
  small_blocks.pools[0].engine.block_tokens = 64;  // the peer's default
  small_blocks.pools[0].engine.kv_blocks = 16'384;
  for (const Strategy router : {Strategy::kRoundRobin, Strategy::kLive}) {
    small_blocks.router = router;
    print_row(fmt::format("100,000 requests of 1000/250 tokens, 16 replicas, {}", to_string(router)),
              measure(uniform, small_blocks, "static"), peer_speed(peer, "saturated", 16));
  }

  const auto mooncake = trace_or("mooncake_conversation.jsonl.xz",
                                 "synthetic:requests=12031,rate=3.4,input=12000,input_cv=1.3,output=343,output_cv=0.6,"
                                 "prefix_groups=400,prefix_tokens=4096");
  for (const std::uint32_t replicas : {8U, 64U})
    for (const Strategy router : {Strategy::kKv, Strategy::kLive})
      print_row(fmt::format("Mooncake conversation, {} replicas, {}", replicas, to_string(router)),
                measure(mooncake, options(replicas, router), "static"), peer_speed(peer, "mooncake", replicas));

  const auto day =
      trace_or("servegen_mid_day1.csv.xz",
               "synthetic:rate=7.1,duration=24h,cv=2.4,input=375,input_cv=1.5,output=63,output_cv=2,tenants=60");
  print_row("ServeGen mid day 1 (24 h), live, dynamo-latency policy, 5 s ticks",
            measure(day, options(2, Strategy::kLive), "dynamo-latency"), std::nullopt);
  return 0;
}
