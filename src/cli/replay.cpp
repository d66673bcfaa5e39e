// `penstock replay`: autoscaling policies over traces, compared.
#include <fmt/format.h>

#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/replay_command.h"
#include "cli/replay_setup.h"
#include "config/reader.h"
#include "config/replay_options.h"
#include "forecast/predictor.h"
#include "planner/policy.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kTraces =
    "Traces: files of Mooncake (JSONL), Azure (CSV of 2023 and 2024), BurstGPT (CSV) or a plain CSV, as they are or\n"
    "compressed with gzip, xz or zstd; `synthetic:rate=5,duration=10m,input=1000,output=250`; `built-in`. Several are\n"
    "replayed together.\n\n"
    "Engines: `polynomial`; `linear:ALPHA,BETA,GAMMA,DELTA` (ms a step, a sequence, a prompt token, a KV token);\n"
    "`roofline:MODEL,GPU,tp=N,precision=P`; a measured profile, FILE.json or FILE.npz.\n\n";
constexpr std::string_view kExamples =
    "Examples:\n"
    "  penstock replay built-in\n"
    "  penstock replay conversation.jsonl.xz --policy all --frontier 1..8 --html report.html\n"
    "  penstock replay azure.csv --to 1h --rate-scale 2 --engine linear:6.5,0.05,0.03,0.00002 --slo ttft=1s,itl=30ms\n"
    "  penstock replay code.csv chat.csv --pool role=prefill,replicas=2 --pool role=decode,replicas=2\n"
    "  penstock replay --config penstock.yaml --json result.json\n\n"
    "Exit codes: 0 good, 1 a file cannot be written, 2 bad input, 130 Ctrl-C.\n";

std::string notes() {
  std::string text = fmt::format(
      "Policies:\n  {:<19} tries fleets out on recent requests, orders the cheapest that keeps the SLO\n", kPenstock);
  for (const std::string_view name : planner::policy_names())
    text += fmt::format("  {:<19} {}\n", name, planner::policy_summary(name));
  text += fmt::format("  {:<19} knows the future: what a fleet could have cost at best; takes about 60 runs\n\n",
                      kClairvoyant);
  return text + std::string{kTraces} + std::string{kExamples};
}

Usage usage() {
  Usage usage;
  usage.command = "replay";
  usage.summary =
      "Replays traces through a simulated fleet, once for each autoscaling policy, and compares what came of it:\n"
      "latency, SLO attainment, GPU-hours and cost. The table is printed best first.";
  usage.operand = "TRACE";
  usage.many_operands = true;
  usage.flags = replay_flags();
  usage.flags.push_back({"Other", "--config", "FILE", "a YAML file with any of this; flags overrule it", {}, {}});
  usage.flags.push_back({"Other", "--progress", {}, "show how far it is even where standard error is no terminal", {}});
  usage.flags.push_back(
      {"Other", "--options-markdown", {}, "print the reference page of all options and YAML keys", {}});
  usage.notes = notes();
  return usage;
}

}  // namespace

int replay(const Arguments& arguments) {
  const Usage page = usage();
  auto parsed = parse_arguments(page, arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(config::replay_options_markdown());

  config::ReplaySources sources;
  sources.file = parsed->value_of("--config");
  if (!sources.file.empty()) {
    auto text = config::read_text_file(sources.file, config::YamlLimits{}.bytes_max);
    if (!text) return complain_of_input(text.error());
    sources.yaml = *std::move(text);
  }
  sources.traces = parsed->operands;
  sources.flags = replay_flag_values(*parsed);
  sources.policies = all_policies();
  sources.predictors = forecast::predictor_names();
  auto settings = load_settings(sources);
  if (!settings) return settings.error();

  ReplayRequest request;
  request.settings = *std::move(settings);
  // Neither the number of cores nor the names of the outputs change what is found.
  request.command = command_line(
      page, *parsed,
      {"--jobs", "--progress", "--json", "--csv", "--html", "--decision-log", "--report-dir", "--report-interval"});
  if (!sources.file.empty()) request.inputs.push_back(sources.file);
  request.progress = parsed->has("--progress");
  return carry_out(std::move(request));
}

}  // namespace penstock::cli
