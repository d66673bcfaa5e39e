#include "cli/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cli/console.h"
#include "report/csv.h"
#include "report/html.h"
#include "report/json.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

struct Output {
  const std::string& path;
  const char* flag;
  std::string (*render)(const report::Report&);
};

std::vector<Output> outputs_of(const config::ReplaySettings& settings) {
  std::vector<Output> outputs;
  for (const Output& output :
       {Output{settings.json, "--json", report::to_json}, Output{settings.csv, "--csv", report::to_csv},
        Output{settings.html, "--html", report::to_html}})
    if (!output.path.empty()) outputs.push_back(output);
  return outputs;
}

tl::unexpected<core::Error> cannot_write(const std::string& path, int error, std::string hint) {
  return core::environment_error(path, fmt::format("cannot write: {}", std::strerror(error)), std::move(hint));
}

core::Result<void> check(const Output& output, const std::vector<std::string>& inputs) {
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
  // A file is replaced, so it is the folder that must let us.
  fs::path folder = fs::path{output.path}.parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::exists(folder, error)) return cannot_write(output.path, ENOENT, "create the folder first");
  if (!fs::is_directory(folder, error)) return cannot_write(output.path, ENOTDIR, "choose another path");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_write(output.path, errno, "choose a path that you may write to");
  return {};
}

}  // namespace

core::Result<void> check_outputs(const config::ReplaySettings& settings, const std::vector<std::string>& inputs) {
  for (const Output& output : outputs_of(settings))
    if (auto checked = check(output, inputs); !checked) return checked;
  return {};
}

core::Result<void> write_outputs(const config::ReplaySettings& settings, const report::Report& report) {
  std::vector<std::pair<const std::string*, std::string>> rendered;
  for (const Output& output : outputs_of(settings)) rendered.emplace_back(&output.path, output.render(report));
  const InterruptLater all_or_nothing;
  for (const auto& [path, text] : rendered)
    if (auto written = report::write_file(*path, text); !written) return written;
  return {};
}

}  // namespace penstock::cli
