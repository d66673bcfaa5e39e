// `penstock evaluate`: the page on how Penstock's policy fares against every mark, with charts.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/evaluation_runs.h"
#include "cli/evaluation_traces.h"
#include "cli/progress_bar.h"
#include "config/scalars.h"
#include "report/evaluation_chart.h"
#include "report/evaluation_page.h"
#include "report/format.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRobustness = "robustness";
constexpr std::uint32_t kJobsMax = 1024;

std::vector<std::string_view> part_names() {
  std::vector<std::string_view> names;
  for (const EvaluationTrace& trace : evaluation_traces()) names.push_back(trace.name);
  names.push_back(kRobustness);
  return names;
}

Usage usage() {
  Usage usage;
  usage.command = "evaluate";
  usage.summary =
      "Runs every policy and fixed fleets of all sizes on four recorded traces, and Penstock's own where the world is\n"
      "not as it should be; writes the page with the targets, the tables and the charts.";
  usage.flags = {
      {"Input", "--traces", "DIR", "where the recorded traces lie", {}},
      {"Input", "--quick", {}, "only the busiest two hours of the traces that last a day", {}, {}},
      {"Input", "--only", "NAME,…", "some of it: " + config::choices(part_names()), {}},
      {"Output", "--out", "FILE", "write the page to this file instead of standard output", {}},
      {"Output", "--charts", "DIR", "write the charts here; made if it is not there", {}},
      {"Other", "--jobs", "COUNT", "runs at once; 0: as many as there are cores", "0"},
      {"Other", "--progress", {}, "show how far it is even where standard error is no terminal", {}, {}},
  };
  usage.notes =
      "Traces, their rates and the scenarios are a table in src/cli/evaluation_traces.cpp.\n\n"
      "Example:\n  penstock evaluate --traces traces --quick --out evaluation.md --charts images\n";
  return usage;
}

struct Request {
  EvaluationScope scope;
  std::vector<std::string> parts;
  std::string out, charts;
  std::string command;
  bool progress = false;

  [[nodiscard]] bool wants(std::string_view part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

core::Result<Request> read_request(const Usage& page, const Parsed& parsed) {
  Request request;
  request.scope.folder = parsed.value_of("--traces");
  if (request.scope.folder.empty())
    return core::invalid_input("--traces", "is needed", "name the folder where the recorded traces lie");
  request.scope.quick = parsed.has("--quick");
  const auto jobs = config::parse_count(parsed.value_of("--jobs", "0"), 0, kJobsMax);
  if (!jobs) return core::invalid_input("--jobs", jobs.error().message());
  request.scope.jobs = static_cast<std::uint32_t>(*jobs);
  const std::vector<std::string_view> known = part_names();
  request.parts.assign(known.begin(), known.end());
  if (parsed.has("--only")) {
    const auto parts = config::parse_list(parsed.value_of("--only"));
    if (!parts) return core::invalid_input("--only", parts.error().message());
    for (const std::string& part : *parts)
      if (std::find(known.begin(), known.end(), part) == known.end())
        return core::invalid_input("--only", "there is no " + config::quoted(part),
                                   "known are " + config::choices(known));
    request.parts = *parts;
  }
  request.out = parsed.value_of("--out");
  request.charts = parsed.value_of("--charts");
  request.command = command_line(page, parsed, {"--jobs", "--progress", "--out", "--charts"});
  request.progress = parsed.has("--progress");
  return request;
}

// Before hours of work: a folder that can be written to.
core::Result<void> make_folder(const fs::path& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return core::environment_error(folder.string(), "cannot be made: " + error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return core::environment_error(folder.string(), fmt::format("cannot write: {}", std::strerror(errno)),
                                   "choose a folder that you may write to");
  return {};
}

core::Result<void> make_folders(const Request& request) {
  if (auto made = make_folder(fs::path{request.out}.parent_path()); !made) return made;
  return make_folder(request.charts);
}

core::Result<report::Evaluation> evaluate(const Request& request) {
  report::Evaluation evaluation;
  evaluation.command = request.command;
  if (request.scope.quick)
    evaluation.window = fmt::format("of the traces that last a day, the busiest {} were replayed",
                                    report::format_seconds(core::to_seconds(kQuickWindow)));
  ProgressBar bar{request.progress || stderr_is_terminal()};
  const ShowProgress show = [&](const TaskProgress& progress) { bar.show(progress); };
  for (const EvaluationTrace& trace : evaluation_traces()) {
    if (!request.wants(trace.name)) continue;
    auto evaluated = evaluate_trace(trace, request.scope, show);
    if (!evaluated) return tl::make_unexpected(evaluated.error());
    evaluation.traces.push_back(*std::move(evaluated));
  }
  if (!request.wants(kRobustness)) return evaluation;
  auto scenarios = evaluate_scenarios(evaluation_scenarios(), evaluation.traces, request.scope, show);
  if (!scenarios) return tl::make_unexpected(scenarios.error());
  evaluation.scenarios = *std::move(scenarios);
  return evaluation;
}

core::Result<void> write(const Request& request, const report::Evaluation& evaluation, const std::string& page) {
  const InterruptLater all_or_nothing;
  if (!request.charts.empty())
    for (const report::TraceEvaluation& trace : evaluation.traces) {
      const fs::path file = fs::path{request.charts} / fmt::format("evaluation-{}.svg", trace.name);
      if (auto written = report::write_file(file.string(), report::attainment_chart(evaluation, trace)); !written)
        return written;
    }
  return request.out.empty() ? core::Result<void>{} : report::write_file(request.out, page);
}

std::string link_to_charts(const Request& request) {
  if (request.charts.empty()) return "images";
  const fs::path from = fs::absolute(request.out.empty() ? "page" : request.out).parent_path();
  return fs::absolute(request.charts).lexically_normal().lexically_relative(from.lexically_normal()).generic_string();
}

}  // namespace

int evaluate(const Arguments& arguments) {
  const Usage page = usage();
  const auto parsed = parse_arguments(page, arguments);
  if (!parsed) return parsed.error();
  const auto request = read_request(page, *parsed);
  if (!request) return complain(request.error());
  if (const auto made = make_folders(*request); !made) return complain(made.error());
  const auto began = std::chrono::steady_clock::now();
  const auto evaluation = evaluate(*request);
  if (!evaluation) return complain_of_input(evaluation.error());
  std::string charts = link_to_charts(*request);
  while (charts.ends_with('/')) charts.pop_back();
  const std::string text = report::evaluation_markdown(*evaluation, charts);
  if (const auto written = write(*request, *evaluation, text); !written) return complain(written.error());
  if (request->out.empty()) return print(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  return print(
      fmt::format("{} written in {}\n", report::printable(request->out), report::format_seconds(took.count())));
}

}  // namespace penstock::cli
