// `penstock up`: what Penstock does, shown without any preparation.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/replay_command.h"
#include "cli/replay_setup.h"
#include "forecast/predictor.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

constexpr const char* kPage = "report/penstock-report.html";

struct Setting {
  const char* flag;
  const char* text;
};
constexpr std::array kShow = {Setting{"--policy", "all"}, Setting{"--replicas", "2"}, Setting{"--max-replicas", "8"},
                              Setting{"--frontier", "1..8"}};

Usage usage() {
  Usage usage;
  usage.command = "up";
  usage.summary =
      "Replays the workload that comes with Penstock, an hour of a small service, with every policy; writes the\n"
      "report with charts, prints the table, and opens the report where there is a display.";
  usage.flags.push_back({"Flags", "--html", "FILE", "where the report goes", kPage, {}});
  for (Flag& flag : replay_flags())
    if (flag.name == "--seed" || flag.name == "--jobs") {
      flag.group = "Flags";
      usage.flags.push_back(std::move(flag));
    }
  usage.flags.push_back({"Flags", "--no-open", {}, "do not open the report", {}});
  usage.flags.push_back({"Flags", "--progress", {}, "show how far it is even where standard error is no terminal", {}});
  usage.notes = "The same by hand: penstock replay built-in";
  for (const Setting& setting : kShow) usage.notes += fmt::format(" {} {}", setting.flag, setting.text);
  usage.notes += fmt::format(" --html {}\n", kPage);
  return usage;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Leaves it to the desktop; a report that does not open is there all the same.
void open_page(const std::string& path) {
  if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY")) return;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&files) != 0) return;
  if (::posix_spawnattr_init(&attributes) == 0) {
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
    std::string program = "xdg-open";
    std::string page = std::filesystem::absolute(path).string();
    char* const words[] = {program.data(), page.data(), nullptr};
    ::pid_t child = 0;
    static_cast<void>(::posix_spawnp(&child, program.c_str(), &files, &attributes, words, environ));
    ::posix_spawnattr_destroy(&attributes);
  }
  ::posix_spawn_file_actions_destroy(&files);
}

}  // namespace

int up(const Arguments& arguments) {
  const Usage page = usage();
  auto parsed = parse_arguments(page, arguments);
  if (!parsed) return parsed.error();

  config::ReplaySources sources;
  sources.traces = {"built-in"};
  sources.policies = all_policies();
  sources.predictors = forecast::predictor_names();
  for (const Setting& setting : kShow) sources.flags.push_back({setting.flag, setting.text});
  sources.flags.push_back({"--html", kPage});
  for (config::FlagValue& flag : replay_flag_values(*parsed)) sources.flags.push_back(std::move(flag));
  auto settings = load_settings(sources);
  if (!settings) return settings.error();
  if (!parsed->has("--html")) {
    std::error_code error;
    const auto folder = std::filesystem::path{kPage}.parent_path();
    std::filesystem::create_directories(folder, error);
    if (error)
      return complain({core::ErrorCode::kEnvironment, folder.string(), "cannot be made: " + error.message(),
                       "go to a folder that you may write to, or use --html"});
  }

  const std::string html = settings->html;
  ReplayRequest request;
  request.settings = *std::move(settings);
  request.command = command_line(page, *parsed, {"--jobs", "--progress", "--html", "--no-open"});
  request.progress = parsed->has("--progress");
  if (const int code = carry_out(std::move(request)); code != kGood) return code;
  if (const int code = print("\nreport: " + report::printable(html) + "\n"); code != kGood) return code;
  if (!parsed->has("--no-open")) open_page(html);
  return kGood;
}

}  // namespace penstock::cli
