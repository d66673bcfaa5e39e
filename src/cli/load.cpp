// `penstock load`: a load generator for any OpenAI-compatible server.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "load/live_view.h"
#include "load/reports.h"
#include "load/setup.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

constexpr core::Duration kLookInterval = std::chrono::seconds{1};
constexpr int kLooksALine = 5;  // Lines without a terminal.

// ---- before the run ------------------------------------------------------------------------------------------------

core::Result<void> check_files(const load::LoadOptions& options) {
  if (!options.json.empty() && options.json == options.html)
    return core::invalid_input("--html", "names the same file as --json, " + options::quote(options.html));
  if (auto checked = check_output_folder("--json", options.json); !checked) return checked;
  return check_output_folder("--html", options.html);
}

// ---- while it runs -------------------------------------------------------------------------------------------------

class Watcher {
 public:
  Watcher(const load::Generator& generator, const load::Tally& tally, core::Duration planned, bool quiet)
      : generator_{generator}, tally_{tally}, is_quiet_{quiet}, is_terminal_{::isatty(STDOUT_FILENO) == 1} {
    state_.planned = planned;
  }

  void look() {
    const core::Duration elapsed = generator_.elapsed();
    const double cpu_s = generator_.cpu_s();
    const double passed_s = core::to_seconds(elapsed - state_.elapsed);
    state_.cpu_share = passed_s > 0.0 ? (cpu_s - cpu_s_) / passed_s : 0.0;
    cpu_s_ = cpu_s;
    state_.elapsed = elapsed;
    state_.in_flight = generator_.in_flight();
    state_.at_limit = generator_.at_limit();
    ++looks_;
    if (is_quiet_) return;
    if (is_terminal_) {
      static_cast<void>(print(erasure() + load::render_live(state_, tally_)));
      is_drawn_ = true;
    } else if (looks_ % kLooksALine == 0) {
      print_error_text(load::render_progress(state_, tally_));
    }
  }
  void erase() { static_cast<void>(print(std::exchange(is_drawn_, false) ? block_erasure() : std::string{})); }

 private:
  [[nodiscard]] static std::string block_erasure() { return fmt::format("\033[{}A\033[J", load::kLiveLines); }
  [[nodiscard]] std::string erasure() const { return is_drawn_ ? block_erasure() : std::string{}; }

  const load::Generator& generator_;
  const load::Tally& tally_;
  load::LiveState state_;
  double cpu_s_ = 0.0;
  int looks_ = 0;
  bool is_quiet_, is_terminal_, is_drawn_ = false;
};

load::RunSummary run_load(net::Loop& loop, load::LoadSetup& setup, load::Tally& tally) {
  load::RunSummary run;
  load::Generator generator{loop, setup.options.generator, setup.source, tally, [&] { loop.stop(); }};
  Watcher watcher{generator, tally, setup.planned, setup.options.quiet};
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT}, [&](int) {
                                   run.interrupted = true;
                                   generator.stop();
                                 }};
  const net::Loop::Timer looks = loop.every(kLookInterval, [&] { watcher.look(); });
  generator.start();
  loop.run();
  loop.cancel(looks);
  watcher.erase();
  run.elapsed = generator.elapsed();
  run.cpu_s = generator.cpu_s();
  return run;
}

// ---- after it ------------------------------------------------------------------------------------------------------

// Returns an error for each file that cannot be written.
options::Problems write_files(const load::LoadSetup& setup, const load::RunSummary& run, const load::Tally& tally) {
  options::Problems problems;
  const auto write = [&problems](const std::string& path, const std::string& text) {
    if (auto written = report::write_file(path, text); !written) problems.push_back(std::move(written.error()));
  };
  if (!setup.options.json.empty()) write(setup.options.json, load::to_json(run, tally));
  if (!setup.options.html.empty()) write(setup.options.html, load::to_page(run, tally));
  return problems;
}

// The table has them, too.
void report_missed(const load::RunSummary& run) {
  for (const load::Verdict& verdict : run.verdicts)
    if (!verdict.is_met)
      print_error_text(
          fmt::format("penstock: --expect {}={}: missed, is {}\n", verdict.name, verdict.limit, verdict.measured));
}

int exit_code(const load::RunSummary& run, const load::Tally& tally) {
  for (const load::Verdict& verdict : run.verdicts)
    if (!verdict.is_met) return kMissed;
  const load::Figures& all = tally.all();
  // Without any response there is no result. If all requests were refused, that may be the expected result.
  if (all.of(load::Outcome::kOk) > 0 || all.errors() == 0 || !run.verdicts.empty()) return kGood;
  return report_error({core::ErrorCode::kEnvironment, run.target, "no request succeeded",
                       tally.causes().empty() ? "" : tally.causes().begin()->first});
}

}  // namespace

int generate_load(const Arguments& arguments) {
  load::LoadOptions made;
  const options::Table table = load::load_table(made);
  const Usage usage = load::load_usage(table);
  const auto parsed = parse_arguments(usage, arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(table, *parsed); !read) return read.error();
  auto setup = load::make_load_setup(made, parsed->operands.front(), *parsed);
  if (!setup) return report_input_error(setup.error());
  if (const auto checked = check_files(setup->options); !checked) return report_error(checked.error());
  if (!setup->options.quiet) print_warnings(setup->warnings);
  load::GeneratorOptions& generator = setup->options.generator;
  if (const auto found = load::find_server(setup->url, setup->options.endpoint, generator); !found)
    return report_error(found.error());

  net::prepare_descriptors(1 << 14);
  net::Loop loop;
  generator.dialect.model = setup->options.endpoint.model;
  if (generator.dialect.model.empty()) {
    auto model = load::request_model(loop, generator, {});
    if (!model) return report_error(model.error());
    generator.dialect.model = std::move(model->id);
  }
  std::vector<std::string> tenants;
  for (const load::Sender& sender : generator.dialect.senders) tenants.push_back(sender.name);
  load::Tally tally{std::move(tenants)};
  load::RunSummary run = run_load(loop, *setup, tally);
  run.target = parsed->operands.front();
  run.model = generator.dialect.model;
  run.traffic = setup->traffic;
  run.command = command_line(usage, *parsed, {"--api-key", "--tenant"});
  run.max_in_flight = generator.max_in_flight;
  run.verdicts = load::check_expectations(setup->options.expectations, tally);
  const std::string page = setup->options.quiet ? std::string{} : load::render_table(run, tally);
  const int printed = print_page(page, {setup->options.json, setup->options.html});
  const int written = report_error(write_files(*setup, run, tally));
  if (setup->options.quiet) report_missed(run);
  const int failed = std::max(printed, written);
  return failed == kGood ? exit_code(run, tally) : failed;
}

}  // namespace penstock::cli
