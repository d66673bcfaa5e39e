#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "cli/arguments.h"
#include "cli/console.h"
#include "options/scalars.h"

namespace penstock::cli {
namespace {

constexpr std::array kCommands{
    Command{"replay", "compare autoscaling policies on recorded or synthetic traffic", replay},
    Command{"explain", "print the decisions of a policy and their reasons from a decision log", explain},
    Command{"decide", "decide on observations that another program writes, one JSON object on each line", decide},
    Command{"up", "run engines, gateway, planner, load and the live page on this machine", up},
    Command{"workload", "describe traces: rates, lengths, bursts, shared prefixes", show_workload},
    Command{"usage", "sum what ledgers charge by tenant, model and time: tokens and their cost", show_usage},
    Command{"check", "validate a configuration file and report every problem", check},
    Command{"allocate", "divide one budget of GPUs or money between deployments", allocate},
    Command{"profile",
            "measure a live endpoint, or show an engine model: step times, and the load of a replica within the SLO",
            profile},
    Command{"size",
            "compare MIG instances, MPS and whole GPUs for a load, or the cheapest fleet of each engine for a trace",
            size},
    Command{"engine", "serve the OpenAI API from the engine model, in real time", serve_engine},
    Command{"gateway", "serve the OpenAI API in front of many replicas", serve_gateway},
    Command{"epp", "pick replicas for Envoy: an endpoint picker of the Gateway API Inference Extension",
            serve_endpoint_picker},
    Command{"load", "send requests to an OpenAI-compatible server and measure latency and errors", generate_load},
    Command{"doctor", "check what a configuration needs from Kubernetes and other servers", run_doctor},
    Command{"manifests", "write the objects of Kubernetes that run a gateway, a planner, engines or autoscalers",
            write_manifests},
    Command{"plan", "run the planner: observe a gateway and its engines, set replicas, serve a live page", run_planner},
    Command{"observe", "make the traffic of engines behind any router from their metrics, for `penstock plan`",
            observe_engines},
    Command{"completion", "print the completion of commands and flags for bash or zsh", print_completion},
};

std::string help() {
  std::string text =
      "Penstock, a control plane for LLM inference.\n\n"
      "Usage: penstock COMMAND [FLAG…]\n\n"
      "Commands:\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<11} {}\n", command.name, command.summary);
  return text +
         "\n"
         "  --help     show this help, or the help of a command\n"
         "  --version  show the version\n\n"
         "Try: penstock up\n"
         "     penstock replay TRACE --policy all --frontier 1..8 --html report.html\n\n"
         "Exit codes: 0 success, 1 system error (for example a full disk), 2 invalid input, 3 an expectation was not "
         "met,\n130 Ctrl-C. up, gateway, epp, plan and engine exit with 0 after Ctrl-C.\n";
}

// A line for each command, for the completion of shells.
std::string completion_lines() {
  std::string lines;
  for (const Command& command : kCommands) lines += fmt::format("{}\t{}\n", command.name, command.summary);
  return lines;
}

core::Error unknown(const std::string& word) {
  if (word == "evaluate" || word == "fidelity")
    return {core::ErrorCode::kInvalidInput,
            {},
            "there is no command " + options::quote(word),
            "run `make " + word + "` in a checkout of Penstock"};
  std::vector<std::string_view> names;
  names.reserve(std::size(kCommands));
  for (const Command& command : kCommands) names.push_back(command.name);
  const std::string close = options::suggestion(word, names);
  const std::string known = "the commands are " + options::choices(names);
  return {core::ErrorCode::kInvalidInput,
          {},
          "unknown command " + options::quote(word),
          close.empty() ? known : close + " " + known};
}

std::string version(std::string_view commit) {
  return commit.empty() ? "penstock " PENSTOCK_VERSION "\n"
                        : fmt::format("penstock " PENSTOCK_VERSION " ({})\n", commit);
}

int dispatch(const Arguments& arguments, std::string_view commit) {
  if (arguments.empty()) {
    print_error_text(help());
    return kBadInput;
  }
  const std::string& word = arguments.front();
  if (word == "--version") return print(version(commit));
  if (word == "--help" || word == "-h" || (word == "help" && arguments.size() == 1)) return print(help());
  if (word == kComplete) return print(completion_lines());
  const bool wants_help = word == "help";
  const std::string& name = wants_help ? arguments[1] : word;
  const auto command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.name == name; });
  if (command == kCommands.end()) return report_error(unknown(name));
  return command->run(wants_help ? Arguments{"--help"} : Arguments(arguments.begin() + 1, arguments.end()));
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

int run(const Arguments& arguments, std::string_view commit) {
  hold_standard_descriptors();
  end_on_interrupt();
  try {
    return dispatch(arguments, commit);
  } catch (const std::bad_alloc&) {
    return report_error({core::ErrorCode::kEnvironment, {}, "out of memory", "replay a part with --from and --to"});
  } catch (const std::exception& error) {
    return report_error({core::ErrorCode::kEnvironment, {}, fmt::format("stopped by a fault: {}", error.what()), {}});
  }
}

}  // namespace penstock::cli
