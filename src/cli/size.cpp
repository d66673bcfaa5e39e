// `penstock size`: whether a MIG instance, MPS or whole GPUs fit a model and a load, and how many replicas it needs; of
// a trace, the smallest fleet of each engine.
#include "capacity/sizing.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/size_page.h"
#include "cli/size_trace.h"
#include "configuration/configuration.h"
#include "options/values.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

constexpr std::uint64_t kSizeTokensMax = 10'000'000;
constexpr std::string_view kRooflinePrefix = "roofline:";

struct SizeOptions {
  std::string engine;
  double rate = 1.0;
  std::uint64_t input = 2000, output = 200;
  double cached = 0.0;
  std::uint64_t longest = 0;
  simulation::RunOptions run;  // Of which only the SLO is read.
  std::uint32_t max_sequences = 256, max_batched_tokens = 8192;
  double utilisation = 0.75;
  std::uint32_t min_replicas = 1;
  bool isolated = false;
  std::optional<core::Duration> ttft_p95, itl_p95;
  std::optional<double> measured_utilisation, batch_efficiency, batch_efficiency_before;
  std::string json;
};

options::Table size_table(SizeOptions& made) {
  using options::boolean, options::count, options::duration_above_zero, options::number, options::share, options::text;
  options::Table table;
  table.group("Engine");
  table
      .add({"", "--engine",
            "roofline:MODEL,GPU[,SETTING=VALUE]…, as in docs/step-time.md; without a TRACE it has no tp, pp and "
            "attention_ranks, for a TRACE any engine of `penstock replay`, once for each, and @PRICE for its GPU-hour "
            "(USD)"},
           text(made.engine))
      .placeholder("ROOFLINE");
  table.add({"", "--max-sequences", "sequences that run at once"}, count(made.max_sequences, 1, 65'536));
  table.add({"", "--max-batched-tokens", "token budget of one iteration"},
            count(made.max_batched_tokens, 1, 16'777'216));
  table.group("Load, without a TRACE");
  table.add({"", "--rate", "requests/s"}, number(made.rate, 0.0, 1e6));
  table.add({"", "--input", "prompt tokens of a request, on average"}, count(made.input, 1, kSizeTokensMax))
      .placeholder("TOKENS");
  table.add({"", "--output", "output tokens of a request, on average"}, count(made.output, 1, kSizeTokensMax))
      .placeholder("TOKENS");
  table.add({"", "--cached", "share of the prompt tokens that are found in the cache"}, share(made.cached));
  table
      .add({"", "--longest", "prompt and output tokens of the longest request, which the KV cache must hold"},
           count(made.longest, 1, kSizeTokensMax))
      .placeholder("TOKENS")
      .by_default("input and output");
  configuration::add_slo(table, made.run);
  table.group("Fleet");
  table.add({"", "--utilisation", "without a TRACE: share of the capacity of the replicas that the load may use"},
            share(made.utilisation));
  table.add({"", "--min-replicas", "fewest replicas"}, count(made.min_replicas, 1, 10'000));
  table
      .add({"", "--isolated", "without a TRACE: engines that share a GPU must not slow each other down: no MPS"},
           boolean(made.isolated))
      .implies("true");
  table.group("Measured at replicas, for advice on the engine");
  table.add({"", "--ttft-p95", "p95 of the time to the first token"}, duration_above_zero(made.ttft_p95));
  table.add({"", "--itl-p95", "p95 of the gaps between tokens"}, duration_above_zero(made.itl_p95));
  table.add({"", "--measured-utilisation", "share of the capacity that is used"},
            number(made.measured_utilisation, 0.0, 1.0));
  table.add({"", "--batch-efficiency", "batch_merge_efficiency of engines: filled sequence slots, 0 to 1"},
            number(made.batch_efficiency, 0.0, 1.0));
  table.add({"", "--batch-efficiency-before", "the same at an earlier time, such as an hour ago"},
            number(made.batch_efficiency_before, 0.0, 1.0));
  table.group("Output");
  table.add({"", "--json", "write the choices to this file"}, text(made.json)).placeholder("FILE");
  return table;
}

// A sizing for a trace takes these, too; the other flags of the table state a load, or are about it.
constexpr std::array<std::string_view, 6> kSharedFlags = {"--engine",       "--max-sequences", "--max-batched-tokens",
                                                          "--min-replicas", "--slo",           "--json"};

Usage size_usage(const options::Table& table, const options::Table& trace_table) {
  Usage usage;
  usage.command = "size";
  usage.operand = "[TRACE]";
  usage.many_operands = true;
  usage.summary =
      "Compares the ways to run replicas of a model for a load: MIG instances, engines that share a GPU by MPS, and\n"
      "whole GPUs with tensor parallelism. Shows what fits, what one replica serves within the SLO, how many replicas "
      "the\n"
      "load needs, and which way needs the least of a GPU; and settings of the engine that this or measurements "
      "suggest.\n"
      "MPS is advised only where no MIG instance serves the load, because its engines slow each other down.\n\n"
      "With a TRACE it finds, by simulation, the smallest fixed fleet of each engine that reaches the goal of the SLO "
      "over "
      "the\n"
      "recorded traffic, and shows what each costs, what rules the others out, and what autoscaling would save.";
  usage.flags = flags_of(table);
  for (Flag& flag : size_trace_flags(trace_table)) usage.flags.push_back(std::move(flag));
  usage.notes =
      "Examples:\n"
      "  penstock size --engine roofline:llama-3.1-8b,h100 --rate 1 --input 1500 --output 200 --slo ttft=1s,itl=50ms\n"
      "  penstock size --engine roofline:llama-3.1-70b,h100,precision=fp8 --rate 8 --json -\n"
      "  penstock size --engine roofline:./config.json,h200 --rate 2 --isolated\n"
      "  penstock size built-in --engine roofline:llama-3.1-8b --gpu-types h100=2.5,l40s=0.9 --precisions bf16,fp8\n"
      "  penstock size azure.csv --from 8h --to 20h --engine engine-a.json@2.5 --engine engine-b.json@1.2\n\n"
      "Exit codes: 0 success, 1 a file cannot be written, 2 invalid input, 130 Ctrl-C.\n";
  return usage;
}

// Refuses flags that would have no effect.
core::Result<void> check_size_flags(const Parsed& parsed, const options::Table& table, bool has_trace) {
  std::size_t engines = 0;
  for (const options::FlagValue& flag : parsed.flags) {
    if (flag.flag == "--engine" && ++engines > 1 && !has_trace)
      return core::invalid_input("--engine", "is given more than once", "several engines are compared for a TRACE");
    if (std::find(kSharedFlags.begin(), kSharedFlags.end(), flag.flag) != kSharedFlags.end()) continue;
    const bool is_load = table.with_flag(flag.flag) != nullptr;
    if (has_trace && is_load)
      return core::invalid_input(flag.flag, "has no effect on a trace, whose requests are the load",
                                 "leave it out, or leave the trace out");
    if (!has_trace && !is_load)
      return core::invalid_input(flag.flag, "needs a trace",
                                 "write penstock size TRACE, with a file, synthetic:… or built-in");
  }
  return {};
}

core::Result<capacity::SizingRequest> make_sizing(const SizeOptions& made) {
  if (made.cached >= 1.0) return core::invalid_input("--cached", "must be below 1", "one token at least is computed");
  if (made.rate <= 0.0) return core::invalid_input("--rate", "must be above 0");
  if (made.utilisation <= 0.0) return core::invalid_input("--utilisation", "must be above 0");
  if (made.engine.empty()) return core::invalid_input("--engine", "is missing", "write roofline:MODEL,GPU");
  if (!std::string_view{made.engine}.starts_with(kRooflinePrefix))
    return core::invalid_input("--engine", "must be a roofline",
                               "other step-time models do not say what their GPU is; write roofline:MODEL,GPU");
  const auto model = engine::parse_roofline_of_any_memory(made.engine.substr(kRooflinePrefix.size()));
  if (!model) return tl::make_unexpected(model.error());
  if (model->spec().gpus() != 1 || model->spec().attention_ranks != 1)
    return core::invalid_input("--engine", "must not have tp, pp or attention_ranks",
                               "leave them out: 1 to 8 GPUs are compared");
  capacity::SizingRequest request;
  request.engine = model->spec();
  request.efficiency = model->efficiency();
  request.requests_per_s = made.rate;
  request.traffic = {static_cast<double>(made.input), static_cast<double>(made.output), made.cached};
  request.longest_request = made.longest > 0 ? made.longest : made.input + made.output;
  if (request.longest_request < made.input + made.output)
    return core::invalid_input("--longest", "must be at least the tokens of --input and --output");
  request.max_sequences = made.max_sequences;
  request.max_batched_tokens = made.max_batched_tokens;
  request.slo = made.run.slo;
  request.utilisation = made.utilisation;
  request.min_replicas = made.min_replicas;
  request.isolated = made.isolated;
  return request;
}

capacity::EngineMeasurement measurement_of(const SizeOptions& made) {
  const auto seconds = [](const std::optional<core::Duration>& duration) {
    return duration ? std::optional{core::to_milliseconds(*duration) / 1e3} : std::nullopt;
  };
  return {seconds(made.ttft_p95), seconds(made.itl_p95), made.measured_utilisation, made.batch_efficiency,
          made.batch_efficiency_before};
}

}  // namespace

int size(const Arguments& arguments) {
  SizeOptions made;
  SizeTraceOptions made_for_trace;
  const options::Table table = size_table(made), trace_table = size_trace_table(made_for_trace);
  const Usage usage = size_usage(table, trace_table);
  const auto parsed = parse_arguments(usage, arguments);
  if (!parsed) return parsed.error();
  const bool has_trace = !parsed->operands.empty() || parsed->has("--config");
  if (const auto checked = check_size_flags(*parsed, table, has_trace); !checked) return report_error(checked.error());
  if (has_trace) {
    if (const auto read = read_flags(trace_table, *parsed); !read) return read.error();
    return size_trace(made_for_trace, usage, *parsed);
  }
  const auto read = read_flags(table, *parsed);
  if (!read) return read.error();
  const auto request = make_sizing(made);
  if (!request) return report_input_error(request.error());
  const capacity::SizingAdvice advice = capacity::advise(*request);
  const std::vector<capacity::EngineAdvice> engine = capacity::engine_advice(*request, advice, measurement_of(made));
  core::Result<void> written;
  if (!made.json.empty()) written = report::write_file(made.json, size_json(*request, advice, engine));
  const int printed = print_page(size_page(*request, advice, engine), {made.json});
  return std::max(printed, report_failure(written));
}

}  // namespace penstock::cli
