// The subcommands of `penstock`. Each has a file of its own and returns the exit code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

using Arguments = std::vector<std::string>;  // without the names of the program and of the subcommand

// Exit codes, the same for every subcommand. 130 is what Ctrl-C ends with.
inline constexpr int kGood = 0;
inline constexpr int kEnvironment = 1;  // the machine's fault: a disk that is full, a folder that may not be written to
inline constexpr int kBadInput = 2;     // the user's: a flag, a configuration, a trace
inline constexpr int kMissed = 3;       // what `load --expect` asked for was not met

struct Command {
  std::string_view name;
  std::string_view summary;  // for the list in --help
  int (*run)(const Arguments& arguments);
};
[[nodiscard]] std::span<const Command> commands();

// The whole program: finds the subcommand and runs it. No exception leaves it.
[[nodiscard]] int run(const Arguments& arguments);

[[nodiscard]] int replay(const Arguments& arguments);
[[nodiscard]] int explain(const Arguments& arguments);
[[nodiscard]] int check(const Arguments& arguments);
[[nodiscard]] int up(const Arguments& arguments);
[[nodiscard]] int show_workload(const Arguments& arguments);
[[nodiscard]] int allocate(const Arguments& arguments);
[[nodiscard]] int profile(const Arguments& arguments);
[[nodiscard]] int serve_engine(const Arguments& arguments);
[[nodiscard]] int serve_gateway(const Arguments& arguments);
[[nodiscard]] int generate_load(const Arguments& arguments);
[[nodiscard]] int run_planner(const Arguments& arguments);

}  // namespace penstock::cli
