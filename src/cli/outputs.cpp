#include "cli/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

#include "cli/console.h"
#include "connect/sqlite/decision_store.h"
#include "options/scalars.h"
#include "report/csv.h"
#include "report/cut.h"
#include "report/decision_log.h"
#include "report/decision_log_text.h"
#include "report/html.h"
#include "report/json.h"
#include "report/metrics.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

template <class Report>
struct Output {
  const std::string& path;
  const char* flag;
  core::Result<std::string> (*render)(const Report&);
};

template <class Report, std::string (*text_of)(const Report&)>
core::Result<std::string> rendered(const Report& report) {
  return text_of(report);
}

core::Result<std::string> metrics_as_text(const report::Report& report) {
  return report::to_prometheus_text(std::span{report.metrics});
}

std::vector<decision::DecisionRecord> records_of(const report::Report& report) {
  return report::decision_records(report.results, report.info.pools);
}

// The pools of all deployments have different names.
std::vector<decision::DecisionRecord> records_of(const report::DeploymentsReport& report) {
  std::vector<decision::DecisionRecord> all;
  for (const report::DeploymentReport& deployment : report.deployments)
    for (decision::DecisionRecord& record : records_of(deployment.report)) all.push_back(std::move(record));
  return all;
}

template <class Report>
core::Result<std::string> decisions_as_lines(const Report& report) {
  return report::to_decision_jsonl(records_of(report));
}

template <class Report>
core::Result<std::string> decisions_as_database(const Report& report) {
  auto store = connect::DecisionStore::in_memory();
  if (!store) return tl::make_unexpected(store.error());
  return store->append(records_of(report)).and_then([&] { return store->bytes(); });
}

constexpr std::string_view kDatabaseEnding = ".sqlite";

template <class Report>
std::vector<Output<Report>> outputs_of(const configuration::OutputOptions& options) {
  std::vector<Output<Report>> all{
      {options.json, "--json", rendered<Report, report::to_json>},
      {options.csv, "--csv", rendered<Report, report::to_csv>},
      {options.html, "--html", rendered<Report, report::to_html>},
      {options.decision_log, "--decision-log",
       options.decision_log.ends_with(kDatabaseEnding) ? decisions_as_database<Report> : decisions_as_lines<Report>}};
  if constexpr (std::is_same_v<Report, report::Report>) all.push_back({options.metrics, "--metrics", metrics_as_text});
  std::vector<Output<Report>> outputs;
  for (const Output<Report>& output : all)
    if (!output.path.empty()) outputs.push_back(output);
  return outputs;
}

template <class Report>
options::Problems write_all(const configuration::OutputOptions& options, const Report& report) {
  options::Problems problems;
  std::vector<std::pair<std::string, std::string>> files;
  for (const Output<Report>& each : outputs_of<Report>(options)) {
    if (auto text = each.render(report); text)
      files.emplace_back(each.path, *std::move(text));
    else
      problems.push_back(std::move(text.error()));
  }
  const InterruptLater all_files;
  for (const auto& [path, text] : files)
    if (auto written = report::write_file(path, text); !written) problems.push_back(std::move(written.error()));
  return problems;
}

tl::unexpected<core::Error> cannot_write(const std::string& path, int error, std::string hint) {
  return core::environment_error(path, fmt::format("cannot write: {}", std::strerror(error)), std::move(hint));
}

core::Result<void> check(const Output<report::Report>& output, const std::vector<std::string>& inputs) {
  if (output.path == report::kStandardOutput) return {};
  std::error_code error;
  for (const std::string& input : inputs)
    if (fs::equivalent(output.path, input, error) && !error)
      return core::invalid_input(output.flag, fmt::format("would overwrite {}, which is read", input),
                                 "name another file");
  const fs::file_status status = fs::status(output.path, error);
  if (fs::is_directory(status)) return cannot_write(output.path, EISDIR, "name a file in it");
  if (fs::exists(status) && !fs::is_regular_file(status))
    return ::access(output.path.c_str(), W_OK) == 0
               ? core::Result<void>{}
               : cannot_write(output.path, errno, "choose a path that you may write to");
  // A file is replaced, which needs write permission for the folder.
  fs::path folder = fs::path{output.path}.parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::exists(folder, error)) return cannot_write(output.path, ENOENT, "create the folder first");
  if (!fs::is_directory(folder, error)) return cannot_write(output.path, ENOTDIR, "choose another path");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_write(output.path, errno, "choose a path that you may write to");
  return {};
}

constexpr core::Duration::rep kReportsMax = 500;  // Per policy; a page has 1.3 MB.

core::Result<void> check_report_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!folder.empty() && fs::exists(status) && !fs::is_directory(status))
    return core::environment_error(folder, "is not a folder", "choose another path for --report-dir");
  if (!folder.empty() && fs::exists(status) && ::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_write(folder, errno, "choose a path that you may write to");
  return {};
}

// Settings and files in the name of a policy may have characters that no file name has.
std::string file_name_of(std::string policy) {
  std::replace_if(
      policy.begin(), policy.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '-');
  return policy;
}

core::Result<void> write_reports(const configuration::OutputOptions& output, const report::Report& report) {
  std::error_code error;
  fs::create_directories(output.report_dir, error);
  if (error) return cannot_write(output.report_dir, error.value(), "choose another path for --report-dir");
  for (const decision::RunResult& result : report.results) {
    std::size_t number = 0;
    for (const report::Interval& interval : report::intervals_of(result, output.report_interval)) {
      const std::string name = fmt::format("{}-{:03}-{}-{}.html", file_name_of(result.policy), ++number,
                                           report::format_moment(interval.from), report::format_moment(interval.to));
      const std::string page = report::to_html(report::cut(report.info, result, interval));
      const InterruptLater whole_page;
      if (auto written = report::write_file((fs::path{output.report_dir} / name).string(), page); !written)
        return written;
    }
  }
  return {};
}

core::Result<void> check_decision_log(const std::string& path) {
  std::error_code error;
  const bool is_stream =
      fs::exists(path, error) && !fs::is_regular_file(path, error);  // /dev/stdout is written as JSON lines.
  if (path.empty() || path == report::kStandardOutput || is_stream || path.ends_with(".jsonl") ||
      path.ends_with(kDatabaseEnding))
    return {};
  return core::invalid_input("--decision-log", "must end in .jsonl or .sqlite, is " + options::quote(path));
}

}  // namespace

core::Result<void> check_output_folder(const char* flag, const std::string& path) {
  const fs::path folder = fs::path{path}.parent_path();
  std::error_code error;
  if (path.empty() || folder.empty() || fs::is_directory(folder, error)) return {};
  return core::environment_error(flag, "there is no folder " + folder.string());
}

core::Result<void> check_outputs(const configuration::OutputOptions& output, const std::vector<std::string>& inputs) {
  for (const auto& each : outputs_of<report::Report>(output))
    if (auto checked = check(each, inputs); !checked) return checked;
  return check_decision_log(output.decision_log).and_then([&] { return check_report_folder(output.report_dir); });
}

core::Result<void> check_report_interval(const configuration::OutputOptions& output, core::Duration run) {
  if (output.report_dir.empty()) return {};
  if (output.report_interval <= core::Duration{})
    return core::invalid_input("--report-interval", "must be longer than 0");
  if (run / output.report_interval < kReportsMax) return {};
  return core::invalid_input("--report-interval",
                             fmt::format("would make {} reports of each policy, at most {} are allowed",
                                         run / output.report_interval + 1, kReportsMax),
                             "choose a longer one");
}

options::Problems write_outputs(const configuration::OutputOptions& output, const report::Report& report) {
  options::Problems problems = write_all(output, report);
  if (!output.report_dir.empty())
    if (auto written = write_reports(output, report); !written) problems.push_back(std::move(written.error()));
  return problems;
}

options::Problems write_outputs(const configuration::OutputOptions& output, const report::DeploymentsReport& report) {
  return write_all(output, report);
}

}  // namespace penstock::cli
