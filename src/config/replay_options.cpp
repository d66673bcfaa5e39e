#include "config/replay_options.h"

#include <fmt/core.h>

#include <array>

#include "config/option_rows.h"
#include "config/planner_options.h"

namespace penstock::config {
namespace {

constexpr std::uint32_t kBlocksMax = 100'000'000;

using namespace rows;

void add_workload(std::vector<Option>& table) {
  constexpr std::string_view kGroup = "Workload";
  table.push_back(list(row(kGroup, "trace", "",
                           "trace files, `synthetic:…` or `built-in`; on the command line they need "
                           "no flag"),
                       PENSTOCK_FIELD(replay.traces)));
  table.push_back(text(row(kGroup, "format", "--format", "format of the traces, if it is not to be found out"),
                       PENSTOCK_FIELD(replay.format)));
  table.push_back(boolean(row(kGroup, "skip_bad_rows", "--skip-bad-rows",
                              "leave bad rows of a trace out and count them, instead of refusing it", "true"),
                          PENSTOCK_FIELD(replay.skip_bad_rows)));
  table.push_back(
      number(row(kGroup, "rate_scale", "--rate-scale", "replay this many times as many requests per second"),
             PENSTOCK_FIELD(replay.rate_scale), 1e-6, 1e3));
  table.push_back(
      duration(row(kGroup, "from", "--from", "leave out what arrives before"), PENSTOCK_FIELD(replay.from)));
  Option to = row(kGroup, "to", "--to", "leave out what arrives at this time or later");
  to.type = "duration";
  table.push_back(scalar(to, PENSTOCK_FIELD(replay.to), parse_duration, [](const std::optional<core::Duration>& value) {
    return value ? format_duration(*value) : std::string{};
  }));
  table.push_back(count(row(kGroup, "seed", "--seed", "seed of everything that is drawn; same seed, same result"),
                        PENSTOCK_FIELD(replay.seed), 0, UINT64_MAX));
}

void add_comparison(std::vector<Option>& table) {
  constexpr std::string_view kGroup = "What is compared";
  table.push_back(list(row(kGroup, "policy", "--policy", "autoscaling policies to compare, or `all`"),
                       PENSTOCK_FIELD(replay.policies)));
  Option frontier = row(kGroup, "frontier", "--frontier", "also run static fleets of each size in this range");
  frontier.type = "range";
  table.push_back(scalar(
      frontier, PENSTOCK_FIELD(replay.frontier), [](std::string_view range) { return parse_range(range, 256); },
      [](const CountRange& range) {
        return range.empty() ? std::string{} : fmt::format("{}..{}", range.first, range.last);
      }));
  table.push_back(
      choice(row(kGroup, "router", "--router",
                 "how requests find a replica: live is the gateway with its limits; peers: kv, round-robin, "
                 "least-loaded or p2c"),
             PENSTOCK_FIELD(replay.router), {"live", "kv", "round-robin", "least-loaded", "p2c"}));
  table.push_back(duration(row(kGroup, "slo.ttft", "", "longest time to first token that keeps the SLO"),
                           PENSTOCK_FIELD(replay.slo_ttft)));
  table.push_back(duration(row(kGroup, "slo.itl", "", "longest mean gap between a request's tokens that keeps the SLO"),
                           PENSTOCK_FIELD(replay.slo_itl)));
  add_targets(table, kGroup);
  table.push_back(count(row(kGroup, "jobs", "--jobs", "runs at once; 0 is one for each core"),
                        PENSTOCK_FIELD(replay.jobs), 0, 1024));
}

void add_fleet(std::vector<Option>& table) {
  constexpr std::string_view kGroup = "Fleet";
  table.push_back(text(
      row(kGroup, "model", "--model",
          "name of the model that is served: live, what is asked of others is left out; segments may name it, too"),
      PENSTOCK_FIELD(replay.model)));
  const std::size_t first = table.size();
  table.push_back(
      text(row(kGroup, "name", "", "what reports call the pool; by default its role"), PENSTOCK_FIELD(pool.name)));
  table.push_back(choice(row(kGroup, "role", "", "aggregated, or one pool with prefill and one with decode"),
                         PENSTOCK_FIELD(pool.role), {"aggregated", "prefill", "decode"}));
  for (std::size_t i = first; i < table.size(); ++i) table[i].pool_only = true;
  table.push_back(count(row(kGroup, "replicas", "--replicas", "replicas that are ready at the start"),
                        PENSTOCK_FIELD(pool.replicas), 1, kReplicasMax));
  table.push_back(count(row(kGroup, "min_replicas", "--min-replicas", "fewest replicas a policy may ask for"),
                        PENSTOCK_FIELD(pool.min_replicas), 1, kReplicasMax));
  table.push_back(count(row(kGroup, "max_replicas", "--max-replicas", "most replicas a policy may ask for"),
                        PENSTOCK_FIELD(pool.max_replicas), 1, kReplicasMax));
  table.push_back(count(row(kGroup, "gpus", "--gpus", "GPUs of one replica"), PENSTOCK_FIELD(pool.gpus), 1, 1024));
  table.push_back(
      number(row(kGroup, "price", "--price", "price of one GPU for one hour"), PENSTOCK_FIELD(pool.price), 0.0, 1e6));
  table.push_back(duration(row(kGroup, "start_up", "--start-up", "from the request for a replica until it is ready"),
                           PENSTOCK_FIELD(pool.start_up)));
  for (std::size_t i = first; i < table.size(); ++i) table[i].per_pool = true;
  table.push_back(bytes(row(kGroup, "kv_transfer.bytes_per_token", "--kv-bytes-per-token",
                            "KV cache that goes from a prefill to a decode replica for each token of the prompt"),
                        PENSTOCK_FIELD(replay.kv_bytes_per_token), false));
  table.push_back(bytes(row(kGroup, "kv_transfer.bandwidth", "--kv-bandwidth", "speed of that transfer"),
                        PENSTOCK_FIELD(replay.kv_transfer_bytes_per_s), true));
}

void add_engine(std::vector<Option>& table) {
  constexpr std::string_view kGroup = "Engine";
  const std::size_t first = table.size();
  table.push_back(text(row(kGroup, "engine.model", "--engine",
                           "step-time model: polynomial, linear:…, roofline:… or a measured profile"),
                       PENSTOCK_FIELD(pool.engine.model)));
  table.push_back(count(row(kGroup, "engine.block_size", "--block-size", "tokens in one KV block"),
                        PENSTOCK_FIELD(pool.engine.block_tokens), 1, 65'536));
  table.push_back(count(row(kGroup, "engine.kv_blocks", "--kv-blocks", "blocks in one replica's KV cache"),
                        PENSTOCK_FIELD(pool.engine.kv_blocks), 1, kBlocksMax));
  table.push_back(count(row(kGroup, "engine.max_sequences", "--max-sequences", "sequences that run at once"),
                        PENSTOCK_FIELD(pool.engine.max_sequences), 1, 65'536));
  table.push_back(
      count(row(kGroup, "engine.max_batched_tokens", "--max-batched-tokens", "token budget of one iteration"),
            PENSTOCK_FIELD(pool.engine.max_batched_tokens), 1, 16'777'216));
  table.push_back(boolean(row(kGroup, "engine.chunked_prefill", "--no-chunked-prefill",
                              "spread a long prompt over several iterations", "false"),
                          PENSTOCK_FIELD(pool.engine.chunked_prefill)));
  table.push_back(boolean(
      row(kGroup, "engine.prefix_caching", "--no-prefix-caching", "keep blocks for requests that begin alike", "false"),
      PENSTOCK_FIELD(pool.engine.prefix_caching)));
  table.push_back(share(row(kGroup, "engine.watermark", "--watermark", "blocks kept free when a request is admitted"),
                        PENSTOCK_FIELD(pool.engine.watermark)));
  table.push_back(
      choice(row(kGroup, "engine.queue_order", "--queue-order", "who is served first: fcfs, shortest or priority"),
             PENSTOCK_FIELD(pool.engine.queue_order), {"fcfs", "shortest", "priority"}));
  table.push_back(duration(
      row(kGroup, "engine.fairness_bound", "--fairness-bound", "with shortest: who waited longer than this goes first"),
      PENSTOCK_FIELD(pool.engine.fairness_bound)));
  table.push_back(choice(row(kGroup, "engine.preemption_order", "--preemption-order",
                             "who gives way when KV blocks run out: lifo, least-progress or priority"),
                         PENSTOCK_FIELD(pool.engine.preemption_order), {"lifo", "least-progress", "priority"}));
  table.push_back(duration(row(kGroup, "engine.queue_delay", "--queue-delay",
                               "an idle engine waits this long for more prompts before it steps"),
                           PENSTOCK_FIELD(pool.engine.queue_delay)));
  table.push_back(share(row(kGroup, "engine.prefill_share", "--prefill-share",
                            "of an iteration's tokens for prompts while sequences decode; 1 is one shared budget"),
                        PENSTOCK_FIELD(pool.engine.prefill_share)));
  table.push_back(share(row(kGroup, "engine.prefill_share_min", "--prefill-share-min", "the controller goes no lower"),
                        PENSTOCK_FIELD(pool.engine.prefill_share_min)));
  table.push_back(share(row(kGroup, "engine.prefill_share_max", "--prefill-share-max", "the controller goes no higher"),
                        PENSTOCK_FIELD(pool.engine.prefill_share_max)));
  for (std::size_t i = first; i < table.size(); ++i) table[i].per_pool = true;
}

void add_faults_and_capacity(std::vector<Option>& table) {
  constexpr std::string_view kFaults = "Faults";
  table.push_back(duration(row(kFaults, "faults.telemetry_delay", "--telemetry-delay",
                               "policies see the engines as they were this long ago"),
                           PENSTOCK_FIELD(replay.faults.telemetry_delay)));
  table.push_back(share(row(kFaults, "faults.telemetry_loss", "--telemetry-loss", "samples that never arrive"),
                        PENSTOCK_FIELD(replay.faults.telemetry_loss)));
  table.push_back(share(
      row(kFaults, "faults.telemetry_lie", "--telemetry-lie", "samples that show an empty queue and an empty KV cache"),
      PENSTOCK_FIELD(replay.faults.telemetry_lie)));
  table.push_back(number(row(kFaults, "faults.crashes_per_replica_hour", "--crashes", "crashes per replica and hour"),
                         PENSTOCK_FIELD(replay.faults.crashes_per_replica_hour), 0.0, 3600.0));
  table.push_back(number(row(kFaults, "faults.start_up_spread", "--start-up-spread",
                             "start-ups take up to this many times start_up longer"),
                         PENSTOCK_FIELD(replay.faults.start_up_spread), 0.0, 100.0));
  table.push_back(
      count(row(kFaults, "faults.slow_replicas", "--slow-replicas", "this many of the first replicas are slow"),
            PENSTOCK_FIELD(replay.faults.slow_replicas), 0, kReplicasMax));
  table.push_back(number(row(kFaults, "faults.slow_factor", "--slow-factor", "how many times longer their steps take"),
                         PENSTOCK_FIELD(replay.faults.slow_factor), 1.0, 1000.0));
  table.push_back(share(row(kFaults, "faults.refused_actions", "--refused-actions",
                            "scale requests that the platform refuses; the fleet stays as it is"),
                        PENSTOCK_FIELD(replay.faults.refused_actions)));
  constexpr std::string_view kCapacity = "Capacity";
  table.push_back(known_number(
      row(kCapacity, "capacity.requests_per_s", "", "requests per second that one replica carries within the SLO"),
      PENSTOCK_FIELD(replay.capacity.requests_per_s)));
  table.push_back(
      known_number(row(kCapacity, "capacity.input_tokens_per_s", "", "prompt tokens per second of the same"),
                   PENSTOCK_FIELD(replay.capacity.input_tokens_per_s)));
  table.push_back(
      known_number(row(kCapacity, "capacity.output_tokens_per_s", "", "output tokens per second of the same"),
                   PENSTOCK_FIELD(replay.capacity.output_tokens_per_s)));
  table.push_back(known_number(row(kCapacity, "capacity.concurrency", "", "requests in flight at that rate"),
                               PENSTOCK_FIELD(replay.capacity.concurrency)));
}

void add_output(std::vector<Option>& table) {
  constexpr std::string_view kGroup = "Output";
  table.push_back(
      text(row(kGroup, "json", "--json", "write the results as JSON to this file"), PENSTOCK_FIELD(replay.json)));
  table.push_back(
      text(row(kGroup, "csv", "--csv", "write one line per result to this file"), PENSTOCK_FIELD(replay.csv)));
  table.push_back(
      text(row(kGroup, "html", "--html", "write a report with charts to this file"), PENSTOCK_FIELD(replay.html)));
  table.push_back(text(row(kGroup, "decision_log", "--decision-log",
                           "write every decision with its evidence to this .jsonl or .sqlite file, for "
                           "`penstock explain`"),
                       PENSTOCK_FIELD(replay.decision_log)));
  table.push_back(text(row(kGroup, "metrics", "--metrics",
                           "write the planner's Prometheus series as they stand at the end of each run to this file"),
                       PENSTOCK_FIELD(replay.metrics)));
  table.push_back(text(row(kGroup, "report_dir", "--report-dir",
                           "write a report with charts for each policy and interval of the run to this folder"),
                       PENSTOCK_FIELD(replay.report_dir)));
  table.push_back(duration(row(kGroup, "report_interval", "--report-interval", "length of such an interval"),
                           PENSTOCK_FIELD(replay.report_interval)));
  table.push_back(count(row(kGroup, "series_points", "--series-points", "points of each chart, at most"),
                        PENSTOCK_FIELD(replay.series_points), 1, 100'000));
}

std::vector<Option> make_table() {
  std::vector<Option> table;
  add_workload(table);
  add_comparison(table);
  add_fleet(table);
  add_engine(table);
  add_faults_and_capacity(table);
  add_planner(table);
  add_output(table);
  return table;
}

std::string cell(std::string_view value) { return value.empty() ? "" : fmt::format("`{}`", value); }

}  // namespace

const std::vector<Option>& replay_options() {
  static const std::vector<Option> kTable = make_table();
  return kTable;
}

std::span<const CompositeFlag> composite_flags() {
  static constexpr std::array<CompositeFlag, 3> kFlags = {
      {{"What is compared", "--slo", "slo", "the SLO, as ttft=2s,itl=50ms,goal=99%"},
       {"Fleet", "--pool", "pools", "a pool, as role=prefill,replicas=2,max_replicas=8; once for each pool"},
       {"Capacity", "--capacity", "capacity",
        "what one replica carries, as requests_per_s=2.5,concurrency=12; else "
        "it is load-tested in simulation"}}};
  return kFlags;
}

std::string replay_options_markdown() {
  std::string page =
      "# Options of `penstock replay`\n\n"
      "Generated from the table in `src/config/replay_options.cpp`; `penstock replay --options-markdown` prints it.\n"
      "Keys are for YAML (`--config FILE`); a dotted key is a section with a key in it. Flags override the file.\n"
      "How to use them: [replay.md](../replay.md).\n";
  const ReplaySettings defaults;
  std::string_view group;
  for (const Option& option : replay_options()) {
    if (option.group != group) {
      group = option.group;
      page += fmt::format("\n## {}\n\n", group);
      for (const CompositeFlag& flag : composite_flags())
        if (flag.group == group) page += fmt::format("`{}`: {}.\n\n", flag.flag, flag.help);
      page += "| key | flag | type | default | meaning |\n|---|---|---|---|---|\n";
    }
    page += fmt::format("| `{}{}` | {} | {} | {} | {}{} |\n", option.pool_only ? "pools[]." : "", option.key,
                        cell(option.flag), option.type, cell(option.show(defaults, defaults.pools.front())),
                        option.help, option.per_pool && !option.pool_only ? " ¹" : "");
    if (option.items)
      for (const ItemRow& item : item_rows(option.key))
        page += fmt::format("| `{}[].{}` |  | {} | {} | {} |\n", option.key, item.key, item.type, cell(item.fallback),
                            item.help);
  }
  page +=
      "\n¹ May stand in an item of `pools`, too, where it holds for that pool alone.\n\n"
      "A duration is written `120s`, `50ms` or `1h30m`, a share `0.3` or `30%`, a size `128KiB` or `2.5GB`, a range\n"
      "`1..8`. A list is a YAML list, or has commas in a flag.\n";
  return page;
}

}  // namespace penstock::config
