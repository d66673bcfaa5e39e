// `penstock allocate`: splits one budget of GPUs among several deployments.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocation/renderings.h"
#include "allocation/setup.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/file_kind.h"
#include "cli/outputs.h"
#include "cli/progress_bar.h"
#include "options/values.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

namespace global = planner::global;

constexpr std::uint64_t kJobsMax = 1024;

Usage allocate_usage() {
  Usage usage;
  usage.command = "allocate";
  usage.summary =
      "Splits one budget of GPUs and money among several deployments: how many replicas each pool gets, what keeps it\n"
      "from more, and how far from the best plan that can be. Where a demand comes from a trace, it plans again and\n"
      "again over the trace and shows what sharing the budget brings.";
  usage.operand = "FILE";
  usage.flags = {
      {"Demand", "--rate", "NAME=RPS", "requests/s of a deployment instead of what the file says; repeatable", {}, {}},
      {"Output", "--json", "FILE", "write the plan as JSON", {}, {}},
      {"Other", "--jobs", "COUNT", "load tests that run at once", "as many as cores", {}},
      {"Other", "--progress", {}, "show how far it is even where standard error is no terminal", {}}};
  usage.notes =
      "FILE is YAML; docs/global-planner.md explains every key:\n\n"
      "  hardware:\n"
      "    - {name: h100, price: 3.0, gpus: 16}\n"
      "  budget: {gpus: 16, money_per_hour: 60}\n"
      "  deployments:\n"
      "    - name: chat\n"
      "      priority: 1\n"
      "      demand: 12                # requests/s, or {trace: FILE, rate_scale: 2}\n"
      "      slo: {ttft: 1s, itl: 40ms}\n"
      "      shape: {input: 1000, output: 250}\n"
      "      pools:\n"
      "        - {hardware: h100, gpus: 2, engine: \"roofline:llama-3.1-70b,h100_sxm,tp=2,precision=fp8\"}\n\n"
      "Examples:\n"
      "  penstock allocate allocate.yaml\n"
      "  penstock allocate allocate.yaml --rate chat=20 --json plan.json\n\n"
      "Exit codes: 0 success, 1 a file cannot be written, 2 invalid input, 130 Ctrl-C.\n";
  return usage;
}

core::Result<std::uint32_t> jobs_of(const Parsed& parsed) {
  if (!parsed.has("--jobs")) return 0;
  auto jobs = options::parse_count(parsed.value_of("--jobs"), 1, kJobsMax);
  if (!jobs) return core::invalid_input("--jobs", jobs.error().what, jobs.error().hint);
  return static_cast<std::uint32_t>(*jobs);
}

// Reports errors and returns the exit code in that case.
tl::expected<options::Reading, int> read_file(const std::string& file, const Parsed& parsed,
                                              const options::Table& table, allocation::AllocationOptions& made) {
  auto text = options::read_text_file(file, options::YamlLimits{}.bytes_max);
  if (!text) return tl::make_unexpected(report_input_error(text.error()));
  std::vector<std::string> rates;
  for (const options::FlagValue& flag : parsed.flags)
    if (flag.flag == "--rate") rates.push_back(flag.text);
  const options::Source source{file, *std::move(text), {}};
  configuration::Configuration other;
  if (const auto kind =
          check_file_kind(source, table, configuration::configuration_table(other),
                          "is a configuration of gateway and planner", "check it with `penstock check FILE`");
      !kind)
    return tl::make_unexpected(report_error(kind.error()));
  options::Reading reading = options::read(table, source);
  allocation::settle_allocation(made, rates, reading);
  if (!reading.good()) return tl::make_unexpected(report_error(reading.problems()));
  return reading;
}

// Runs before the load tests, which take a while.
core::Result<void> check_output(const std::string& json, const std::string& file,
                                const allocation::AllocationOptions& made) {
  configuration::OutputOptions output;
  output.json = json;
  std::vector<std::string> inputs = {file};
  for (const allocation::AllocationDeployment& deployment : made.deployments)
    if (!deployment.demand.trace.empty()) inputs.push_back(deployment.demand.trace);
  return check_outputs(output, inputs);
}

struct Found {
  std::string text, json;
};

// The location in an error of the planner has no file name.
core::Error from_planner(core::Error error, const std::string& file) {
  error.where = file + ": " + error.where;
  return error;
}

core::Result<Found> plan_once(const allocation::AllocationSetup& setup) {
  std::vector<global::Deployment> deployments;
  for (const global::ChangingDeployment& each : setup.deployments) deployments.push_back(each.deployment);
  return global::plan(deployments, setup.options.hardware, setup.options.budget, setup.options.planner)
      .map([&](const global::GlobalPlan& plan) {
        return Found{allocation::plan_text(setup, plan), allocation::plan_json(setup, plan)};
      });
}

core::Result<Found> plan_over_trace(const allocation::AllocationSetup& setup) {
  global::OverTimeOptions options;
  options.minutes_each = static_cast<std::size_t>(setup.options.every / std::chrono::minutes{1});
  options.plan = setup.options.planner;
  allocation::AllocationRuns runs;
  const auto run = [&](auto plan, global::OverTime& into) {
    return plan(setup.deployments, setup.options.hardware, setup.options.budget, options)
        .map([&](global::OverTime&& result) { into = std::move(result); });
  };
  return run(global::plan_over_time, runs.shared)
      .and_then([&] { return run(global::plan_apart_over_time, runs.apart); })
      .and_then([&] { return run(global::plan_once_at_peak, runs.at_peak); })
      .map([&] {
        return Found{allocation::runs_text(setup, runs), allocation::runs_json(setup, runs)};
      });
}

}  // namespace

int allocate(const Arguments& arguments) {
  const auto parsed = parse_arguments(allocate_usage(), arguments);
  if (!parsed) return parsed.error();
  const std::string& file = parsed->operands.front();
  const auto jobs = jobs_of(*parsed);
  if (!jobs) return report_error(jobs.error());
  allocation::AllocationOptions made;
  const options::Table table = allocation::allocation_table(made);
  const auto reading = read_file(file, *parsed, table, made);
  if (!reading) return reading.error();
  const std::string json = parsed->value_of("--json");
  if (const auto checked = check_output(json, file, made); !checked) return report_error(checked.error());

  ProgressBar bar{parsed->has("--progress") || stderr_is_terminal()};
  const auto setup = allocation::prepare_allocation(made, *reading, *jobs,
                                                    [&](const replay::TaskProgress& progress) { bar.show(progress); });
  bar.erase();
  if (!setup) return report_error(setup.error());
  const auto found = setup->options.has_traces() ? plan_over_trace(*setup) : plan_once(*setup);
  if (!found) return report_error(from_planner(found.error(), file));
  core::Result<void> written;
  if (!json.empty()) {
    const InterruptLater whole_file;
    written = report::write_file(json, found->json);
  }
  const int printed = print_page(found->text, {json});
  return std::max(printed, report_failure(written));
}

}  // namespace penstock::cli
