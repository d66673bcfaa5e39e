// `penstock replay`: compares autoscaling policies on traces.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/progress_bar.h"
#include "cli/replay_deployments.h"
#include "cli/scaled_objects.h"
#include "configuration/traces.h"
#include "options/reference.h"
#include "planner/policy.h"
#include "replay/capacities.h"
#include "replay/deployments.h"
#include "replay/runs.h"
#include "replay/setup.h"
#include "report/table.h"

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
    "  penstock replay --config penstock.yaml --json result.json\n"
    "  penstock replay --config docs/examples/deployments.yaml --policy penstock\n\n"
    "Exit codes: 0 success, 1 a file cannot be written, 2 invalid input, 130 Ctrl-C.\n";

std::string notes() {
  std::string text =
      fmt::format("Policies:\n  {:<19} tries fleets out on recent requests, orders the cheapest that keeps the SLO\n",
                  configuration::kPenstock);
  for (const std::string_view name : planner::policy_names())
    text += fmt::format("  {:<19} {}\n", name, planner::policy_summary(name));
  text += fmt::format("  {:<19} knows the future: what a fleet could have cost at best; takes 8 to 60 runs\n",
                      configuration::kClairvoyant);
  text += fmt::format("  {:<19} replicas over time from a file with the header time,replicas\n", "schedule:FILE");
  text +=
      "Settings follow a colon: keda-tokens:utilisation=0.6 (also hpa-rate, hpa-concurrency, kpa), "
      "llmd-slo:up=0.5:down=0.4,\nllmd-queue:running=32, llmd-token-aware:backlog=1:kv=0.7, apa:kv=0.3, "
      "llmd-saturation-v2:up=0.5,\ndynamo-sla:slo=0.5, penstock:goal=0.95, clairvoyant:goal=0.95.\n\n";
  return text + std::string{kTraces} + std::string{kExamples};
}

Usage replay_usage(const options::Table& own, const options::Table& table) {
  Usage usage;
  usage.command = "replay";
  usage.summary =
      "Replays traces through a simulated fleet, once for each autoscaling policy, and compares the results:\n"
      "latency, SLO attainment, GPU-hours and cost. The table is printed best first.";
  usage.operand = "TRACE";
  usage.many_operands = true;
  usage.flags = flags_of(table, configuration::replay_groups());
  for (Flag& flag : flags_of(own)) usage.flags.push_back(std::move(flag));
  usage.flags.push_back({"Other", "--config", "FILE", "a YAML file with any of this; flags override it", {}, {}});
  usage.flags.push_back({"Other", "--progress", {}, "show how far it is even where standard error is no terminal", {}});
  usage.flags.push_back({"Other", "--quiet", {}, "print neither the table nor progress, only errors", {}, {}});
  usage.flags.push_back(
      {"Other", "--options-markdown", {}, "print the reference page of all options and YAML keys", {}});
  usage.notes = notes();
  return usage;
}

std::string reference(const options::Table& table) {
  return "# Options of `penstock replay`\n\n"
         "Made from the table of options; `penstock replay --options-markdown` prints it.\n"
         "Keys are for YAML (`--config FILE`); a dotted key is a section with a key in it. Flags override the file.\n"
         "Keys with `yes` in the column *reload* take effect in `penstock plan` when the file changes or at SIGHUP; "
         "all "
         "others need a restart.\n"
         "A replay reads `tenants`, `models`, `classes` and `gateway` of the same file, too: "
         "[gateway-options.md](gateway-options.md).\nHow to use them: [replay.md](../replay.md).\n" +
         options::to_markdown(table, configuration::replay_groups(), true) +
         "\nOnly `penstock plan` uses these keys.\n\n" +
         options::to_markdown(table, configuration::planner_groups(), true) +
         "\n¹ Also a key of each item of `pools`, for that pool alone.\n\n"
         "A duration is written `120s`, `50ms` or `1h30m`, a share `0.3` or `30%`, a size `128KiB` or `2.5GB`, a "
         "range\n"
         "`1..8`. A list is a YAML list, or has commas in a flag.\n";
}

struct ReplayRequest {
  configuration::Configuration configuration;
  std::string command;              // Command line that repeats the run, for reports.
  std::vector<std::string> inputs;  // Other input files, which must not be overwritten.
  EmitOptions emit;
  bool progress = false;  // Also if standard error is not a terminal.
  bool quiet = false;
};

// Runs the replay, writes the files and prints the table. Reports errors, also those of single files, and returns the
// exit code.
int run(ReplayRequest request) {
  std::vector<std::string> inputs = std::move(request.inputs);
  const configuration::TraceOptions& traces = request.configuration.traces;
  inputs.insert(inputs.end(), traces.names.begin(), traces.names.end());
  if (const auto checked = check_outputs(request.configuration.output, inputs); !checked)
    return report_error(checked.error());
  auto setup = replay::prepare_replay(std::move(request.configuration));
  if (!setup) return report_input_error(setup.error());
  if (const auto checked = check_report_interval(setup->configuration.output, setup->info.duration); !checked)
    return report_error(checked.error());

  if (!request.quiet) print_warnings(configuration::gap_warnings(setup->workload, "--to"));
  ProgressBar bar{!request.quiet && (request.progress || stderr_is_terminal())};
  auto runs = replay::run_replay(*setup, [&](const replay::TaskProgress& progress) { bar.show(progress); });
  bar.erase();
  if (!runs) return report_error(runs.error());

  report::Report report;
  report.info = std::move(setup->info);
  report.info.command = std::move(request.command);
  report.info.notes.insert(report.info.notes.end(), runs->notes.begin(), runs->notes.end());
  for (std::size_t i = 0; i < runs->capacities.size(); ++i)
    report.info.pools[i].capacity = replay::figures_of(runs->capacities[i]);
  report.results = std::move(runs->results);
  report.frontier = std::move(runs->frontier);
  report.fixed = std::move(runs->fixed);
  report.metrics = std::move(runs->metrics);
  const options::Problems missing = write_outputs(setup->configuration.output, report);
  const configuration::OutputOptions& files = setup->configuration.output;
  int printed = kGood;
  if (request.emit.kind != Emit::kNothing) {
    if (!request.quiet) print_error_text(report::render_table(report, {}));
    printed = print(scaled_objects(request.emit, setup->configuration, runs->capacities, report));
  } else if (!request.quiet) {
    const std::string table = report::render_table(
        report, {.colour = stdout_has_colour(), .width = terminal_width().value_or(report::kTableWidth)});
    printed = print_page(table, {files.json, files.csv, files.html, files.decision_log, files.metrics});
  }
  return std::max(printed, report_error(missing));
}

}  // namespace

int replay(const Arguments& arguments) {
  ReplayRequest request;
  const options::Table table = configuration::configuration_table(request.configuration);
  const options::Table own = emit_table(request.emit);
  const Usage page = replay_usage(own, table);
  const auto parsed = parse_arguments(page, arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(reference(table));
  const auto source = source_of(*parsed);
  if (!source) return source.error();
  if (const auto flags = read_flags(own, *parsed); !flags) return flags.error();
  auto loaded = configuration::load(request.configuration, table, *source);
  if (!loaded) return report_error(loaded.error());
  if (request.configuration.deployments.empty()) check_emit(request.emit, request.configuration, *loaded);
  if (!parsed->operands.empty()) {
    request.configuration.traces.names = parsed->operands;
    for (configuration::DeploymentSetup& each : request.configuration.deployments) each.traces.names = parsed->operands;
  }
  const bool has_deployments = !request.configuration.deployments.empty();
  if (has_deployments) replay::check_deployments(request.configuration, *loaded);
  if (has_deployments && request.emit.kind != Emit::kNothing)
    loaded->report("--emit", "takes one deployment", "give its values at the top of a file of its own");
  if (!loaded->good()) return report_error(loaded->problems());
  // Neither the number of cores nor the names of the outputs change the results.
  request.command = command_line(page, *parsed,
                                 {"--jobs", "--progress", "--quiet", "--json", "--csv", "--html", "--decision-log",
                                  "--report-dir", "--report-interval"});
  if (!source->file.empty()) request.inputs.push_back(source->file);
  request.progress = parsed->has("--progress");
  request.quiet = parsed->has("--quiet");
  if (has_deployments)
    return run_deployments({std::move(request.configuration), std::move(request.command), std::move(request.inputs),
                            request.progress, request.quiet});
  return run(std::move(request));
}

}  // namespace penstock::cli
