// Writes the pages that report_test.py opens: report_sample FOLDER.
#include <cstdio>
#include <string>
#include <utility>

#include "load/reports.h"
#include "report/html.h"
#include "report/report_testing.h"
#include "report/write_file.h"

using namespace penstock;
using namespace std::chrono_literals;

namespace {

// A load run with a failure and with names that contain markup.
std::string load_page() {
  const std::string hostile = "<img src=x onerror=alert(1)></script>";
  load::Tally tally{{hostile}};
  for (int i = 0; i < 30; ++i) {
    load::RequestRecord record;
    record.intended = i * 1s;
    record.first_byte = record.first_token = i * 1s + 200ms;
    record.last_token = record.end = i * 1s + 400ms;
    record.tokens = record.text_events = 11;
    tally.record_sent({record.intended, record.intended + 1ms, false});
    tally.record_tokens({.count = 10, .gap = 20ms}, record.end);
    tally.record_end(record, {.output_tokens = 11}, {});
  }
  load::RequestRecord failed;
  failed.outcome = load::Outcome::kFailed;
  failed.reason = "status 500";
  tally.record_end(failed, {}, hostile);
  load::RunSummary run;
  run.target = "http://127.0.0.1:1";
  run.model = hostile;
  run.elapsed = 30s;
  run.verdicts = {{"ttft_p95", "2s", "200 ms", true}, {"errors", "0", "1", false}};
  return load::to_page(run, tally);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("report_sample: needs the folder to write to\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  report::Report empty;
  empty.info = report::testing::sample_report(1).info;
  const std::pair<const char*, std::string> pages[] = {
      {"sample", report::to_html(report::testing::sample_report(120))},
      {"hostile", report::to_html(report::testing::hostile_report())},
      {"diagnosed", report::to_html(report::testing::diagnosed_report())},
      {"targeted", report::to_html(report::testing::targeted_report())},
      {"empty", report::to_html(empty)},
      {"deployments", report::to_html(report::testing::two_deployments())},
      {"load", load_page()}};
  for (const auto& [name, page] : pages) {
    const auto written = report::write_file(folder + "/" + name + ".html", page);
    if (!written) {
      std::fprintf(stderr, "report_sample: %s\n", written.error().message().c_str());
      return 1;
    }
  }
  return 0;
}
