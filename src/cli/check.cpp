// `penstock check`: everything that is wrong with a configuration file, at once.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/planner_setup.h"
#include "cli/replay_setup.h"
#include "cli/traces.h"
#include "config/reader.h"
#include "forecast/predictor.h"
#include "report/format.h"
#include "workload/reader.h"
#include "workload/synthetic.h"

namespace penstock::cli {
namespace {

Usage usage() {
  Usage usage;
  usage.command = "check";
  usage.summary =
      "Checks a YAML configuration of `penstock replay` without running anything. Every problem is a line\n"
      "`file:line:column: what; hint` on standard error. Exit codes: 0 good, 2 not.";
  usage.operand = "FILE";
  usage.notes = "Keys and defaults: docs/reference/replay-options.md, or `penstock replay --options-markdown`.\n";
  return usage;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string summary(const config::ReplaySettings& settings) {
  std::string pools;
  for (const config::PoolSettings& pool : settings.pools)
    pools += fmt::format("{}{} {}..{} from {}", pools.empty() ? "" : ", ", pool.name, pool.min_replicas,
                         pool.max_replicas, pool.replicas);
  return fmt::format("{}, {}, replicas {}", counted(settings.traces.size(), "trace", "traces"),
                     counted(settings.policies.size(), "policy", "policies"), pools);
}

int report_problem(const std::string& line) {
  print_error_text(report::printable(line) + "\n");
  return kBadInput;
}

// Schedules one by one, so that each says what is wrong with it.
int check_planner(const std::string& file, const config::ReplaySettings& settings) {
  int code = kGood;
  config::ReplaySettings part = settings;
  part.planner.warm_trace.clear();
  for (const config::ScheduleSettings& schedule : settings.planner.schedules) {
    part.planner.schedules = {schedule};
    if (const auto options = make_planner_options(part); !options) code = report_problem(options.error().message());
  }
  part.planner.schedules.clear();
  part.planner.warm_trace = settings.planner.warm_trace;
  if (const auto options = make_planner_options(part); !options)
    code = report_problem(file + ": planner.warm_trace: " + options.error().message());
  return code;
}

}  // namespace

int check(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  const std::string& file = parsed->operands.front();
  auto text = config::read_text_file(file, config::YamlLimits{}.bytes_max);
  if (!text) return complain_of_input(text.error());

  config::ReplaySources sources;
  sources.file = file;
  sources.yaml = *std::move(text);
  sources.policies = all_policies();
  sources.predictors = forecast::predictor_names();
  const auto settings = config::load_replay(sources);
  if (!settings) {
    for (const core::Error& problem : settings.error()) report_problem(problem.message());
    return kBadInput;
  }
  int code = kGood;
  if (const auto format = workload::parse_format(settings->format); !format)
    code = report_problem(file + ": format: " + format.error().message());
  for (const std::string& trace : settings->traces)
    if (const auto spec = workload::parse_synthetic(trace); trace.starts_with(kSyntheticTrace) && !spec)
      code = report_problem(file + ": trace: " + spec.error().message());
  if (const auto options = make_run_options(*settings); !options)
    code = report_problem(file + ": engine.model: " + options.error().message());
  if (const int planner = check_planner(file, *settings); planner != kGood) code = planner;
  return code != kGood ? code : print(report::printable(fmt::format("{}: ok, {}", file, summary(*settings))) + "\n");
}

}  // namespace penstock::cli
