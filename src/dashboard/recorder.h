// What the live page shows beyond the last hour, and reports: the page with its data as one file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "controller/planner_daemon.h"
#include "dashboard/history.h"
#include "logging/log.h"
#include "net/loop.h"

namespace penstock::dashboard {

struct RecorderOptions {
  std::string history_file;                                 // Empty: the history ends with the planner.
  std::string report_folder;                                // Empty: no reports are written.
  core::Duration report_interval = std::chrono::hours{24};  // Zero: only the end writes one.
  core::Duration point_interval = std::chrono::minutes{1};
  std::function<double()> unix_s{};  // Seconds since 1970; empty: the clock of the system.
};

// Adds a point to the history each minute. Writes a report when the interval since the last one is over, also across
// restarts, and at the end; the history starts anew with each report. A failure is logged once, and tried again.
class Recorder {
 public:
  Recorder(net::Loop& loop, const controller::PlannerDaemon& daemon, std::string version, RecorderOptions options,
           logging::Log& log);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The points since the last report, and those of the last hour that are younger, as points_document() has them.
  [[nodiscard]] std::string history_document() const;
  // The page with the data since the last report. It loads nothing else.
  [[nodiscard]] std::string report() const;
  // Writes a report now, if there is a folder and data; returns its path, or nothing.
  std::optional<std::string> write_report();

 private:
  void look();
  [[nodiscard]] double start_unix_s() const;
  void note(const core::Result<void>& done, std::string& failure);

  net::Loop& loop_;
  const controller::PlannerDaemon& daemon_;
  std::string version_;
  RecorderOptions options_;
  logging::Log& log_;
  History history_;
  std::optional<core::Instant> last_;   // The last point that was added.
  std::optional<core::Instant> tried_;  // The last attempt to write a report.
  std::string history_failure_, report_failure_;
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::dashboard
