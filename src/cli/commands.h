// The subcommands of `penstock`. Each is implemented in one file and returns the exit code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

using Arguments = std::vector<std::string>;  // Without the names of the program and the subcommand.

// Exit codes of all subcommands. SIGINT ends the program with 130.
inline constexpr int kGood = 0;
inline constexpr int kEnvironment = 1;  // System error, such as a full disk or a folder without write permission.
inline constexpr int kBadInput = 2;     // Invalid input: a flag, a configuration or a trace.
inline constexpr int kMissed = 3;       // An expectation of `load --expect` was not met.

struct Command {
  std::string_view name;
  std::string_view summary;  // For the list in --help.
  int (*run)(const Arguments& arguments);
};
[[nodiscard]] std::span<const Command> commands();

// Runs the program: finds the subcommand and calls it. `commit` is that of its sources, for --version; empty: unknown.
// Does not throw.
[[nodiscard]] int run(const Arguments& arguments, std::string_view commit);

[[nodiscard]] int replay(const Arguments& arguments);
[[nodiscard]] int decide(const Arguments& arguments);
[[nodiscard]] int explain(const Arguments& arguments);
[[nodiscard]] int check(const Arguments& arguments);
[[nodiscard]] int up(const Arguments& arguments);
[[nodiscard]] int show_workload(const Arguments& arguments);
[[nodiscard]] int show_usage(const Arguments& arguments);
[[nodiscard]] int allocate(const Arguments& arguments);
[[nodiscard]] int profile(const Arguments& arguments);
[[nodiscard]] int size(const Arguments& arguments);
[[nodiscard]] int serve_engine(const Arguments& arguments);
[[nodiscard]] int serve_gateway(const Arguments& arguments);
[[nodiscard]] int serve_endpoint_picker(const Arguments& arguments);
[[nodiscard]] int generate_load(const Arguments& arguments);
[[nodiscard]] int print_completion(const Arguments& arguments);
[[nodiscard]] int run_doctor(const Arguments& arguments);
[[nodiscard]] int write_manifests(const Arguments& arguments);
[[nodiscard]] int run_planner(const Arguments& arguments);
[[nodiscard]] int observe_engines(const Arguments& arguments);

}  // namespace penstock::cli
