// `penstock check`: everything that is wrong with a configuration file, at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/planner_setup.h"
#include "cli/replay_setup.h"
#include "cli/traces.h"
#include "config/reader.h"
#include "forecast/predictor.h"
#include "gateway/keys.h"
#include "report/format.h"
#include "workload/reader.h"
#include "workload/synthetic.h"

namespace penstock::cli {
namespace {

Usage usage() {
  Usage usage;
  usage.command = "check";
  usage.summary =
      "Checks a YAML configuration of the planner (`penstock replay`, `plan`, `up`), of the gateway, or of both in "
      "one\n"
      "file, without running anything: keys and values, and the files and environment variables that they name. Every\n"
      "problem is a line `file:line:column: what; hint` on standard error. Exit codes: 0 good, 2 not.";
  usage.operand = "FILE";
  usage.notes =
      "Keys and defaults: docs/reference/replay-options.md and docs/reference/gateway-options.md, or\n"
      "`penstock replay --options-markdown` and `penstock gateway --options-markdown`.\n";
  return usage;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string summary(const config::ReplaySettings& settings) {
  std::string pools;
  for (const config::PoolSettings& pool : settings.pools)
    pools += fmt::format("{}{} {}..{} from {}", pools.empty() ? "" : ", ", pool.name, pool.min_replicas,
                         pool.max_replicas, pool.replicas);
  return fmt::format("{}, {}, replicas {}", counted(settings.traces.size(), "trace", "traces"),
                     counted(settings.policies.size(), "policy", "policies"), pools);
}

// What two readers of one file both complain of is said once.
class Findings {
 public:
  void add(const std::string& line) {
    if (said_.insert(line).second) print_error_text(report::printable(line) + "\n");
  }
  void add(std::string_view place, const core::Error& error) { add(fmt::format("{}: {}", place, error.message())); }
  [[nodiscard]] bool empty() const { return said_.empty(); }

 private:
  std::set<std::string> said_;
};

// Which of the two a file speaks to. The SLO is for both, and alone it is the planner's.
struct Parts {
  bool planner = true, gateway = false;
};
Parts parts_of(const std::string& file, const std::string& text) {
  constexpr std::array<std::string_view, 4> kOfGateway = {"gateway", "tenants", "models", "classes"};
  const auto root = config::parse_yaml(file, text);
  if (!root) return {};
  std::size_t of_gateway = 0, of_both = 0;
  for (const config::YamlNode::Key& key : root->keys) {
    of_gateway += std::find(kOfGateway.begin(), kOfGateway.end(), key.text) != kOfGateway.end() ? 1 : 0;
    of_both += key.text == "slo" ? 1 : 0;
  }
  return {of_gateway == 0 || root->keys.size() > of_gateway + of_both, of_gateway > 0};
}

// Schedules one by one, so that each says what is wrong with it.
void check_schedules(const std::string& file, const config::ReplaySettings& settings, Findings& findings) {
  config::ReplaySettings part = settings;
  part.planner.warm_trace.clear();
  for (const config::ScheduleSettings& schedule : settings.planner.schedules) {
    part.planner.schedules = {schedule};
    if (const auto options = make_planner_options(part); !options) findings.add(options.error().message());
  }
  part.planner.schedules.clear();
  part.planner.warm_trace = settings.planner.warm_trace;
  if (const auto options = make_planner_options(part); !options)
    findings.add(file + ": planner.warm_trace", options.error());
}

// The summary of what is right with it.
std::string check_planner(const std::string& file, const std::string& text, Findings& findings) {
  config::ReplaySources sources;
  sources.file = file;
  sources.yaml = text;
  sources.policies = all_policies();
  sources.predictors = forecast::predictor_names();
  const auto settings = config::load_replay(sources);
  if (!settings) {
    for (const core::Error& problem : settings.error()) findings.add(problem.message());
    return {};
  }
  if (const auto format = workload::parse_format(settings->format); !format)
    findings.add(file + ": format", format.error());
  for (const std::string& trace : settings->traces)
    if (const auto spec = workload::parse_synthetic(trace); trace.starts_with(kSyntheticTrace) && !spec)
      findings.add(file + ": trace", spec.error());
  if (const auto options = make_run_options(*settings); !options)
    findings.add(file + ": engine.model", options.error());
  check_schedules(file, *settings, findings);
  return summary(*settings);
}

// Keys are looked up in files and in the environment, as the gateway does when it starts.
void check_keys(const std::string& file, const gateway::GatewayOptions& options, Findings& findings) {
  gateway::KeyRing ring;
  for (const gateway::ApiKey& key : options.api_keys)
    if (const auto added = ring.add(key.key, key.tenant); !added)
      findings.add(fmt::format("{}: tenants[{}]", file, key.tenant), added.error());
}

std::string check_gateway(const std::string& file, const std::string& text, Findings& findings) {
  config::GatewaySources sources;
  sources.file = file;
  sources.yaml = text;
  const auto settings = config::load_gateway(sources);
  if (!settings) {
    for (const core::Error& problem : settings.error()) findings.add(problem.message());
    return {};
  }
  for (const auto& [key, address] :
       {std::pair{"gateway.listen", settings->listen}, {"gateway.admin_listen", settings->admin_listen}})
    if (const auto parsed = parse_listen(address, key); !parsed) findings.add(file, parsed.error());
  for (std::size_t i = 0; i < settings->replicas.size(); ++i)
    if (const auto url = net::parse_url(settings->replicas[i].url); !url)
      findings.add(fmt::format("{}: gateway.replicas[{}].url", file, i), url.error());
  if (const auto options = make_gateway_options(*settings); !options)
    findings.add(file, options.error());
  else
    check_keys(file, *options, findings);
  return fmt::format(
      "gateway on {}, {}, {}, {}", settings->listen, counted(settings->replicas.size(), "replica", "replicas"),
      counted(settings->tenants.size(), "tenant", "tenants"), counted(settings->models.size(), "model", "models"));
}

}  // namespace

int check(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  const std::string& file = parsed->operands.front();
  const auto text = config::read_text_file(file, config::YamlLimits{}.bytes_max);
  if (!text) return complain_of_input(text.error());

  const Parts parts = parts_of(file, *text);
  Findings findings;
  std::string said;
  // A key of neither is unknown to both, and each has more to say on its own.
  const std::string planner = check_planner(file, *text, findings);
  const std::string gateway = check_gateway(file, *text, findings);
  if (!findings.empty()) return kBadInput;
  if (parts.planner) said = planner;
  if (parts.gateway) said += (said.empty() ? "" : "; ") + gateway;
  return print(report::printable(fmt::format("{}: ok, {}", file, said)) + "\n");
}

}  // namespace penstock::cli
