#include "dashboard/recorder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include "dashboard/dashboard_document.h"
#include "dashboard/page.h"
#include "net/unix_time.h"
#include "report/write_file.h"

namespace penstock::dashboard {
namespace {

constexpr core::Duration kLook = std::chrono::seconds{1};
// A day has 1,440 points; more are kept where no report is written.
constexpr std::size_t kPointsMax = 7 * 1440;

double system_unix_s() { return core::to_seconds(net::unix_time()); }

}  // namespace

Recorder::Recorder(net::Loop& loop, const controller::PlannerDaemon& daemon, std::string version,
                   RecorderOptions options, logging::Log& log)
    : loop_(loop),
      daemon_(daemon),
      version_(std::move(version)),
      options_(std::move(options)),
      log_(log),
      history_(options_.history_file, kPointsMax) {
  if (!options_.unix_s) options_.unix_s = system_unix_s;
  note(history_.load(options_.unix_s()), history_failure_);
  timer_ = loop_.every(std::min(kLook, options_.point_interval), [this] { look(); });
}

Recorder::~Recorder() { loop_.cancel(timer_); }

double Recorder::start_unix_s() const { return options_.unix_s() - core::to_seconds(loop_.now()); }

void Recorder::note(const core::Result<void>& done, std::string& failure) {
  const std::string now = done ? "" : done.error().message();
  if (now == failure) return;
  log_.write(now.empty() ? logging::Event::kFileWritable : logging::Event::kFileUnwritable,
             {{"error", now.empty() ? failure : now}});
  failure = now;
}

void Recorder::look() {
  if (daemon_.points().empty()) return;
  const core::Instant at = daemon_.points().back().at;
  if (!last_ || at - *last_ >= options_.point_interval) {
    last_ = at;
    note(history_.add(start_unix_s() + core::to_seconds(at), last_point_document(daemon_)), history_failure_);
  }
  const bool may_try = !tried_ || loop_.now() - *tried_ >= options_.point_interval;
  if (options_.report_interval > core::Duration::zero() && may_try && !history_.empty() &&
      options_.unix_s() - history_.begin_unix_s() >= core::to_seconds(options_.report_interval))
    write_report();
}

std::string Recorder::history_document() const { return history_.document(start_unix_s()); }

std::string Recorder::report() const {
  return report_page(state_document(daemon_, loop_.now(), version_, Decisions::kAll), history_document(),
                     points_document(daemon_), options_.unix_s());
}

std::optional<std::string> Recorder::write_report() {
  if (options_.report_folder.empty() || history_.empty()) return std::nullopt;
  std::error_code error;
  std::filesystem::create_directories(options_.report_folder, error);
  const auto now = static_cast<std::time_t>(options_.unix_s());
  std::string path = fmt::format("{}/penstock-{:%Y-%m-%dT%H%M%SZ}.html", options_.report_folder, fmt::gmtime(now));
  auto done = report::write_file(path, report());
  // Its name has the time, and the failure is the same each time.
  if (!done) done.error().where = options_.report_folder;
  note(done, report_failure_);
  tried_ = loop_.now();
  if (!done) return std::nullopt;
  note(history_.clear(), history_failure_);
  last_.reset();
  return path;
}

}  // namespace penstock::dashboard
