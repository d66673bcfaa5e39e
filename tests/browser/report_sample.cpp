// Writes the pages that report_test.py opens: report_sample FOLDER.
#include <cstdio>
#include <string>
#include <utility>

#include "report/html.h"
#include "report/report_testing.h"
#include "report/write_file.h"

int main(int argc, char** argv) {
  using namespace penstock;
  if (argc != 2) {
    std::fputs("report_sample: needs the folder to write to\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  report::Report empty;
  empty.info = report::testing::sample_report(1).info;
  const std::pair<const char*, report::Report> pages[] = {{"sample", report::testing::sample_report(120)},
                                                          {"hostile", report::testing::hostile_report()},
                                                          {"diagnosed", report::testing::diagnosed_report()},
                                                          {"targeted", report::testing::targeted_report()},
                                                          {"empty", empty}};
  for (const auto& [name, value] : pages) {
    const auto written = report::write_file(folder + "/" + name + ".html", report::to_html(value));
    if (!written) {
      std::fprintf(stderr, "report_sample: %s\n", written.error().message().c_str());
      return 1;
    }
  }
  return 0;
}
