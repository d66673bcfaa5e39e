// `penstock decide`: decisions of a policy on observations that another program writes.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/plan_setup.h"
#include "connect/observation_line.h"
#include "controller/decision_stream.h"
#include "options/values.h"
#include "planner/policy.h"
#include "replay/capacities.h"
#include "replay/planner_setup.h"
#include "replay/setup.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kWarningsMax = 20;  // Of one run, on standard error.

struct DecideOptions {
  std::string policy{configuration::kPenstock};
  std::string deployment;
};

options::Table decide_table(DecideOptions& made) {
  options::Table table;
  table.group("Policy");
  table.add({"", "--policy", "autoscaling policy, as `penstock replay` takes it"}, options::text(made.policy))
      .placeholder("NAME");
  table.add({"", "--deployment", "deployment to decide for, if the file has several"}, options::text(made.deployment))
      .placeholder("NAME");
  return table;
}

// Leaves the deployment of that name, whose pools have their names in logs then.
core::Result<void> choose_deployment(configuration::Configuration& made, const std::string& name) {
  if (made.deployments.empty() && name.empty()) return {};
  if (made.deployments.empty())
    return core::invalid_input("--deployment", "has no effect without deployments", "leave it out");
  std::vector<std::string_view> names;
  for (const configuration::DeploymentSetup& deployment : made.deployments) names.push_back(deployment.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return core::invalid_input(
        "--deployment", name.empty() ? "is needed, because the file has several" : options::quote(name) + " is none",
        "the deployments are " + options::choices(names));
  made = configuration::configurations_of(made)[static_cast<std::size_t>(found - names.begin())];
  return {};
}

Usage decide_usage(const options::Table& own, const options::Table& table) {
  Usage usage;
  usage.command = "decide";
  usage.summary =
      "Reads observations of a fleet, one JSON object on each line, and answers each with the decisions of a policy,\n"
      "one line for each pool, in the format of a decision log. The clock is that of the observations. Without FILE "
      "it\n"
      "reads standard input.";
  usage.operand = "[FILE]";
  usage.flags = flags_of(own);
  for (Flag& flag : flags_of(table, {"Fleet", "Engine", "Planner", "SLO", "Capacity"}))
    usage.flags.push_back(std::move(flag));
  // The planner's simulations route by it.
  for (Flag& flag : flags_of(table, {"What is compared"}))
    if (flag.name == "--router") usage.flags.push_back(std::move(flag));
  usage.flags.push_back({"Other", "--config", "FILE", "a YAML file with any of this; flags override it", {}, {}});
  usage.notes =
      "An observation needs at_s, pools[].ready and requests; docs/decide.md lists all keys:\n"
      "  {\"at_s\": 5, \"pools\": [{\"ready\": 2}], \"requests\": [{\"id\": 1, \"arrival_s\": 3.2, \"prompt_tokens\": "
      "900}]}\n"
      "A line that cannot be used is answered with {\"error\": \"…\", \"line\": N}; the next line is read.\n\n"
      "Examples:\n"
      "  penstock decide observations.jsonl --max-replicas 8 --start-up 120s > decisions.jsonl\n"
      "  my-simulator | penstock decide --policy llmd-slo --slo ttft=2s,itl=50ms\n\n"
      "Exit codes: 0 success, 1 the output failed, 2 invalid input or a line with an error, 130 Ctrl-C.\n";
  return usage;
}

// Lines of a file or a pipe, each as soon as it is complete. A line that is too long is left out, and counted.
class Lines {
 public:
  explicit Lines(int file) : file_(file) {}

  struct Line {
    std::string text;
    std::uint64_t number = 0;
    bool is_too_long = false;
  };
  // Nothing at the end.
  core::Result<std::optional<Line>> next() {
    Line line;
    while (true) {
      const std::size_t end = std::min(buffer_.find('\n', begin_), buffer_.size());
      const std::size_t room =
          connect::kObservationBytesMax - std::min(connect::kObservationBytesMax, line.text.size());
      line.is_too_long = line.is_too_long || end - begin_ > room;
      line.text.append(buffer_, begin_, std::min(end - begin_, room));
      const bool complete = end < buffer_.size();
      begin_ = complete ? end + 1 : 0;
      if (!complete) buffer_.clear();
      if (!complete && !ended_) {
        if (auto read = fill(); !read) return tl::make_unexpected(read.error());
        continue;
      }
      if (!complete && line.text.empty()) return std::optional<Line>{};
      line.number = ++number_;
      if (line.is_too_long || line.text.find_first_not_of(" \t\r") != std::string::npos) return std::optional{line};
      line = {};
    }
  }

 private:
  core::Result<void> fill() {
    buffer_.resize(std::size_t{64} << 10);
    ssize_t size = 0;
    do size = ::read(file_, buffer_.data(), buffer_.size());
    while (size < 0 && errno == EINTR);
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(0, size)));
    ended_ = size <= 0;
    if (size < 0) return core::environment_error({}, "cannot be read: " + std::system_category().message(errno));
    return {};
  }

  int file_;
  std::string buffer_;  // From begin_ on it was read and not returned yet.
  std::size_t begin_ = 0;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

core::Result<std::unique_ptr<decision::Policy>> make_policy(const std::string& name,
                                                            const configuration::Configuration& made,
                                                            simulation::RunOptions run) {
  if (auto checked = check_deployable(name); !checked) return tl::make_unexpected(checked.error());
  const auto settings = planner::settings_of(name);
  if (!settings) return tl::make_unexpected(settings.error());
  if (decision::name_without_settings(name) == configuration::kPenstock) {
    auto planner = replay::make_planner_options(made);
    if (!planner) return tl::make_unexpected(planner.error());
    run.slo_goal = settings->get("goal", run.slo_goal);
    return replay::make_penstock(*std::move(planner), run);
  }
  const auto capacity = replay::known_capacity(made.capacity, name);
  if (!capacity) return tl::make_unexpected(capacity.error());
  return replay::make_policy_with(std::vector(run.pools.size(), *capacity), name, run);
}

controller::DecisionStreamOptions stream_options(const configuration::Configuration& made,
                                                 const simulation::RunOptions& run) {
  controller::DecisionStreamOptions options;
  options.pools.assign(run.pools.begin(), run.pools.end());
  options.slo = {run.slo, run.slo_goal, run.slo_segments};
  options.model = run.model;
  options.interval = made.planner.options.interval;
  options.block_tokens = run.pools.front().engine.block_tokens;
  return options;
}

// Answers all lines and returns the exit code.
int answer_lines(Lines lines, controller::DecisionStream& stream, const std::string& name) {
  bool has_error = false;
  std::size_t warnings = 0;
  while (true) {
    auto line = lines.next();
    if (!line) {
      line.error().where = name;
      return report_input_error(line.error());
    }
    if (!*line) return has_error ? kBadInput : kGood;
    const controller::DecisionStream::Answer answer =
        (*line)->is_too_long
            ? controller::DecisionStream::refuse({core::ErrorCode::kInvalidInput,
                                                  "observation",
                                                  fmt::format("is longer than {} bytes", connect::kObservationBytesMax),
                                                  {}},
                                                 (*line)->number)
            : stream.answer((*line)->text, (*line)->number);
    has_error = has_error || answer.is_error;
    for (const std::string& warning : answer.warnings)
      if (warnings++ < kWarningsMax)
        print_error_text(fmt::format("penstock: {}:{}: {}; the figures are ignored\n", name, (*line)->number, warning));
    if (const int code = print(answer.text); code != kGood) return code;
  }
}

}  // namespace

int decide(const Arguments& arguments) {
  DecideOptions decide;
  configuration::Configuration made;
  const options::Table own = decide_table(decide);
  const options::Table table = configuration::configuration_table(made);
  const auto parsed = parse_arguments(decide_usage(own, table), arguments);
  if (!parsed) return parsed.error();
  const auto source = source_of(*parsed);
  if (!source) return source.error();
  if (const auto flags = read_flags(own, *parsed); !flags) return flags.error();
  auto loaded = configuration::load(made, table, *source);
  if (!loaded) return report_error(loaded.error());
  if (!loaded->good()) return report_error(loaded->problems());
  if (const auto chosen = choose_deployment(made, decide.deployment); !chosen) return report_error(chosen.error());
  const auto run = replay::make_run_options(made.run);
  if (!run) return report_input_error(run.error());
  const auto policy = make_policy(decide.policy, made, *run);
  if (!policy) return report_input_error(policy.error());

  const std::string name = parsed->operands.empty() ? "stdin" : parsed->operands.front();
  int file = STDIN_FILENO;
  if (!parsed->operands.empty()) {
    file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return report_error({core::ErrorCode::kInvalidInput, name,
                           "cannot be opened: " + std::system_category().message(errno), "is the name right?"});
  }
  controller::DecisionStream stream{**policy, stream_options(made, *run)};
  const int code = answer_lines(Lines{file}, stream, name);
  if (file != STDIN_FILENO) ::close(file);
  return code;
}

}  // namespace penstock::cli
