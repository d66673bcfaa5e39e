// Writes the page on how Penstock's policy compares with fixed fleets, the policies of other projects and a policy that
// knows the future:
//   evaluate --traces DIR [--quick] [--only NAME,...] [--judged PAGE] [--out FILE] [--charts DIR] [--jobs COUNT]
// PAGE is that of bench/dynamo_bridge.py, whose tables the page repeats.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <mutex>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/progress_bar.h"
#include "engine/step_time_models.h"
#include "evaluation/chart.h"
#include "evaluation/page.h"
#include "evaluation/runs.h"
#include "evaluation/studies.h"
#include "evaluation/traces.h"
#include "flags.h"
#include "report/format.h"
#include "report/write_file.h"

namespace penstock::evaluation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRobustness = "robustness", kAblation = "ablation";
constexpr std::uint32_t kJobsMax = 1024;
constexpr std::uint32_t kPartsAtOnce = 2;
constexpr std::size_t kPageBytesMax = std::size_t{1} << 20;

struct Request {
  EvaluationScope scope;
  std::vector<std::string> parts;
  std::string out, charts, judged, command;

  [[nodiscard]] bool wants(std::string_view part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

core::Result<std::vector<std::string>> read_parts(std::string_view list, bool quick) {
  std::vector<std::string> known;
  for (const EvaluationTrace& trace : evaluation_traces()) known.emplace_back(trace.name);
  for (const std::string_view part : {kRobustness, kAblation}) known.emplace_back(part);
  if (list.empty()) {
    for (const EvaluationTrace& trace : evaluation_traces())
      if (quick && !trace.in_quick) std::erase(known, trace.name);
    return known;
  }
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    parts.emplace_back(list.substr(at, comma - at));
    at = comma + 1;
    if (std::find(known.begin(), known.end(), parts.back()) == known.end())
      return core::invalid_input("--only", fmt::format("unknown part '{}'", parts.back()),
                                 fmt::format("the parts are {}", fmt::join(known, ", ")));
  }
  return parts;
}

core::Result<Request> read_request(const bench::Flags& flags) {
  Request request;
  request.scope.folder = flags.value_of("--traces");
  if (request.scope.folder.empty())
    return core::invalid_input("--traces", "is required", "name the folder of the recorded traces");
  request.scope.quick = flags.has("--quick");
  if (const std::string jobs = flags.value_of("--jobs"); !jobs.empty()) {
    const auto [end, error] = std::from_chars(jobs.data(), jobs.data() + jobs.size(), request.scope.jobs);
    if (error != std::errc{} || end != jobs.data() + jobs.size() || request.scope.jobs > kJobsMax)
      return core::invalid_input("--jobs", fmt::format("must be a number from 0 to {}", kJobsMax));
  }
  auto parts = read_parts(flags.value_of("--only"), request.scope.quick);
  if (!parts) return tl::make_unexpected(parts.error());
  request.parts = *std::move(parts);
  request.out = flags.value_of("--out");
  request.charts = flags.value_of("--charts");
  if (const std::string page = flags.value_of("--judged"); !page.empty()) {
    auto judged = engine::read_file(page, kPageBytesMax);
    if (!judged) return tl::make_unexpected(judged.error());
    request.judged = *std::move(judged);
  }
  request.command = fmt::format("make evaluate{}{}", request.scope.quick ? " QUICK=1" : "",
                                flags.has("--only") ? " ONLY=" + flags.value_of("--only") : "");
  return request;
}

// Checks before hours of work that the folder exists and can be written to.
core::Result<void> make_folder(const fs::path& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return core::environment_error(folder.string(), "cannot be created: " + error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return core::environment_error(folder.string(), fmt::format("cannot write: {}", std::strerror(errno)),
                                   "choose a folder that you may write to");
  return {};
}

// Shows on the terminal what is done. Its calls may come from several threads.
class Terminal {
 public:
  void show(const replay::TaskProgress& progress) {
    const std::lock_guard guard{mutex_};
    bar_.show(progress);
  }
  void part_done(std::string_view part) {
    const std::lock_guard guard{mutex_};
    bar_.erase();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    fmt::print(stderr, "{:<24} done after {:5.0f} s\n", part, passed.count());
  }

 private:
  std::mutex mutex_;
  cli::ProgressBar bar_{cli::stderr_is_terminal()};
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Adds to `tasks` what `evaluate` does for a part, which it stores in `into`.
template <class Into, class Evaluate>
void add_part(std::vector<replay::Task>& tasks, std::string_view name, double weight, Into& into, Terminal& terminal,
              Evaluate evaluate) {
  tasks.push_back(
      {std::string{name}, weight, [name, &into, &terminal, evaluate](const std::function<void(double)>& progress) {
         auto made = evaluate([&](const replay::TaskProgress& inner) { progress(inner.share_done); });
         if (!made) return core::Result<void>{tl::make_unexpected(made.error())};
         into = *std::move(made);
         terminal.part_done(name);
         return core::Result<void>{};
       }});
}

// The traces, and the studies that need no result of them. The runs of a sweep follow one another, so that a part alone
// leaves cores idle: two parts run at once, the longest first.
core::Result<void> evaluate_parts(const Request& request, Terminal& terminal, Evaluation& evaluation) {
  std::vector<const EvaluationTrace*> traces;
  for (const EvaluationTrace& trace : evaluation_traces())
    if (request.wants(trace.name)) traces.push_back(&trace);
  evaluation.traces.resize(traces.size());
  const EvaluationScope& scope = request.scope;
  std::vector<replay::Task> tasks;
  for (std::size_t i = 0; i < traces.size(); ++i)
    add_part(tasks, traces[i]->name, traces[i]->day_long || traces[i]->request_cost > 1.0 ? 10.0 : 2.0,
             evaluation.traces[i], terminal,
             [&scope, trace = traces[i]](const ShowProgress& show) { return evaluate_trace(*trace, scope, show); });
  if (request.wants(kAblation))
    add_part(tasks, kAblation, 9.0, evaluation.ablations, terminal,
             [&](const ShowProgress& show) { return evaluate_ablations(scope, request.parts, show); });
  if (request.wants(kRobustness))
    add_part(tasks, kRobustness, 4.0, evaluation.scenarios, terminal, [&scope](const ShowProgress& show) {
      return evaluate_scenarios(evaluation_scenarios(scope.quick), scope, show);
    });
  std::stable_sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.weight > b.weight; });
  return replay::run_tasks(tasks, scope.jobs == 1 ? 1 : kPartsAtOnce,
                           [&](const replay::TaskProgress& progress) { terminal.show(progress); });
}

core::Result<Evaluation> evaluate(const Request& request) {
  Evaluation evaluation;
  evaluation.command = request.command;
  evaluation.judged = request.judged;
  evaluation.quick = request.scope.quick;
  Terminal terminal;
  if (auto done = evaluate_parts(request, terminal, evaluation); !done) return tl::make_unexpected(done.error());
  const ShowProgress show = [&](const replay::TaskProgress& progress) { terminal.show(progress); };
  if (auto done = run_transfers(evaluation.traces, request.scope, show); !done)
    return tl::make_unexpected(done.error());
  terminal.part_done("settings of other traces");
  fill_shipped(evaluation);
  evaluation.cpu_s = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return evaluation;
}

core::Result<void> write(const Request& request, const Evaluation& evaluation, const std::string& page) {
  const cli::InterruptLater all_or_nothing;
  if (!request.charts.empty())
    for (const TraceEvaluation& trace : evaluation.traces) {
      const fs::path file = fs::path{request.charts} / fmt::format("evaluation-{}.svg", trace.name);
      if (auto written = report::write_file(file.string(), attainment_chart(trace)); !written) return written;
    }
  return request.out.empty() ? core::Result<void>{} : report::write_file(request.out, page);
}

std::string link_to_charts(const Request& request) {
  if (request.charts.empty()) return "images";
  const fs::path from = fs::absolute(request.out.empty() ? "page" : request.out).parent_path();
  std::string link =
      fs::absolute(request.charts).lexically_normal().lexically_relative(from.lexically_normal()).generic_string();
  while (link.ends_with('/')) link.pop_back();
  return link;
}

int run(std::span<char* const> words) {
  const auto flags =
      bench::Flags::parse(words, {"--traces", "--only", "--judged", "--out", "--charts", "--jobs"}, {"--quick"});
  if (!flags) return cli::report_error(flags.error());
  const auto request = read_request(*flags);
  if (!request) return cli::report_error(request.error());
  for (const fs::path& folder : {fs::path{request->out}.parent_path(), fs::path{request->charts}})
    if (const auto made = make_folder(folder); !made) return cli::report_error(made.error());
  const auto evaluation = evaluate(*request);
  if (!evaluation) return cli::report_input_error(evaluation.error());
  fmt::print(stderr, "{}", cpu_report(*evaluation));
  const std::string page = evaluation_markdown(*evaluation, link_to_charts(*request));
  if (const auto written = write(*request, *evaluation, page); !written) return cli::report_error(written.error());
  return request->out.empty() ? cli::print(page) : cli::kGood;
}

}  // namespace
}  // namespace penstock::evaluation

int main(int count, char** words) {
  penstock::cli::end_on_interrupt();
  return penstock::evaluation::run({words + 1, words + count});
}
