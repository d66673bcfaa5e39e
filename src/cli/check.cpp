// `penstock check`: reports all errors of a configuration file.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "allocation/options.h"
#include "cli/arguments.h"
#include "cli/check_planner.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/file_kind.h"
#include "cli/gateway_setup.h"
#include "cli/overload_page.h"
#include "configuration/traces.h"
#include "engine/step_time_models.h"
#include "options/reference.h"
#include "replay/planner_setup.h"
#include "replay/setup.h"
#include "report/format.h"
#include "workload/synthetic.h"

namespace penstock::cli {
namespace {

Usage check_usage() {
  Usage usage;
  usage.command = "check";
  usage.summary =
      "Checks a YAML configuration of the planner (`penstock replay`, `plan`, `up`), of the gateway, or of both in "
      "one\n"
      "file, without running anything: keys and values, and the files and environment variables that they name. Every\n"
      "problem is a line `file:line:column: what; hint` on standard error. A value that cannot be read is not "
      "compared\n"
      "with others; a last line reports that. Exit codes: 0 success, 2 invalid input.";
  usage.operand = "[FILE]";
  usage.flags = {{"Output", "--schema", {}, "print the JSON schema of the file, for editors, and end", {}},
                 {"Output",
                  "--overload",
                  {},
                  "also print which SLO is protected for which requests, which pool is scaled when "
                  "it is missed, and what happens under overload",
                  {}}};
  usage.notes =
      "Keys and defaults: docs/reference/replay-options.md and docs/reference/gateway-options.md, or\n"
      "`penstock replay --options-markdown` and `penstock gateway --options-markdown`.\n";
  return usage;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string summary_of_planner(const configuration::Configuration& made) {
  std::string pools;
  for (const simulation::PoolSpec& pool : made.run.pools)
    pools += fmt::format("{}{} {}..{} from {}", pools.empty() ? "" : ", ", pool.name, pool.min_replicas,
                         pool.max_replicas, pool.replicas);
  if (!made.deployments.empty()) {
    std::string all;
    for (const configuration::DeploymentSetup& deployment : made.deployments) {
      all += fmt::format("{}{} (", all.empty() ? "" : ", ", deployment.name);
      for (const simulation::PoolSpec& pool : deployment.run.pools)
        all += fmt::format("{}{} {}..{} from {}", &pool == &deployment.run.pools.front() ? "" : ", ", pool.name,
                           pool.min_replicas, pool.max_replicas, pool.replicas);
      all += ")";
    }
    const auto& gpus = made.budget.budget.gpus;
    return fmt::format("{}: {}{}", counted(made.deployments.size(), "deployment", "deployments"), all,
                       gpus ? fmt::format(", {} GPUs", *gpus) : "");
  }
  // Without a trace no policies are compared, as in the configuration of a live planner.
  if (made.traces.names.empty()) return "replicas " + pools;
  return fmt::format("{}, {}, replicas {}", counted(made.traces.names.size(), "trace", "traces"),
                     counted(made.policies.size(), "policy", "policies"), pools);
}

std::string summary_of_gateway(const configuration::GatewaySetup& setup) {
  return fmt::format("gateway on {}, {}, {}, {}", setup.listen,
                     counted(setup.discovery.replicas.size(), "replica", "replicas"),
                     counted(setup.tenants.size(), "tenant", "tenants"),
                     counted(setup.options.dispatch.models.size(), "model", "models"));
}

// Returns which of the two a file configures. Both use the SLO; a file with only an SLO configures the planner.
struct Parts {
  bool planner = true, gateway = false;
};
Parts parts_of(const options::Source& source) {
  constexpr std::array<std::string_view, 4> kOfGateway = {"gateway", "tenants", "models", "classes"};
  const auto root = options::parse_yaml(source.file, source.yaml);
  if (!root) return {};
  std::size_t of_gateway = 0, of_both = 0;
  for (const options::YamlNode::Key& key : root->keys) {
    of_gateway += std::find(kOfGateway.begin(), kOfGateway.end(), key.text) != kOfGateway.end() ? 1 : 0;
    of_both += key.text == "slo" ? 1 : 0;
  }
  return {of_gateway == 0 || root->keys.size() > of_gateway + of_both, of_gateway > 0};
}

// Checks schedules one by one, so that each error is reported.
void check_planner(const configuration::Configuration& made, options::Reading& reading) {
  for (std::size_t i = 0; i < made.traces.names.size(); ++i) {
    const std::string& trace = made.traces.names[i];
    if (!trace.starts_with(configuration::kSyntheticTrace)) continue;
    if (const auto spec = workload::parse_synthetic(trace); !spec)
      reading.report(reading.first_given({fmt::format("trace[{}]", i), "trace"}), spec.error().message());
  }
  if (const auto model = engine::make_step_time_model(made.pool.step_time_model); !model)
    reading.report("engine.model", model.error().message());
  if (const auto options = replay::make_run_options(made.run); !options)
    reading.report("engine.model", options.error().message());
  configuration::Configuration part = made;
  part.planner.warm_trace.clear();
  for (std::size_t i = 0; i < made.planner.schedules.size(); ++i) {
    part.planner.schedules = {made.planner.schedules[i]};
    if (const auto options = replay::make_planner_options(part); !options)
      reading.report(fmt::format("planner.schedules[{}].cron", i), options.error().what, options.error().hint);
  }
  part.planner.schedules.clear();
  part.planner.warm_trace = made.planner.warm_trace;
  if (const auto options = replay::make_planner_options(part); !options)
    reading.report("planner.warm_trace", options.error().message());
  check_planner_sources(made, reading);
}

// Reads keys, tokens and certificates from files and from the environment, as the gateway does at its start.
void check_gateway(const configuration::GatewaySetup& setup, options::Reading& reading) {
  check_addresses(setup, reading);
  for (std::size_t i = 0; i < setup.discovery.replicas.size(); ++i) {
    const std::string path = fmt::format("gateway.replicas[{}].url", i);
    const auto url = net::parse_url(setup.discovery.replicas[i].url);
    if (!url) reading.report(path, url.error().message());
  }
  if (const auto credentials = gateway::load_credentials(setup.discovery);
      !credentials && reading.is_valid("gateway.replicas"))
    reading.report(credentials.error().where, credentials.error().what, credentials.error().hint);
  if (const auto pods = gateway::check_pod_options(setup.discovery.pods); !pods)
    reading.report(pods.error().where, pods.error().what, pods.error().hint);
  static_cast<void>(make_gateway_options(setup, reading));
}

// Calls `check` with the only configuration, or with that of each deployment.
template <class Check>
void check_each(const configuration::Configuration& made, options::Reading& reading, Check check) {
  check(made, reading);
  for (std::size_t i = 0; i < made.deployments.size(); ++i) {
    reading.set_scope(fmt::format("deployments[{}]", i));
    check(configuration::of_deployment(made, i), reading);
    reading.set_scope({});
  }
}

// Prints one line per error without the name of the program, as editors expect.
void print_problems(const options::Problems& problems) {
  for (const core::Error& problem : problems) print_error_text(report::printable(problem.message()) + "\n");
}

}  // namespace

int check(const Arguments& arguments) {
  const auto parsed = parse_arguments(check_usage(), arguments);
  if (!parsed) return parsed.error();
  configuration::Configuration made;
  const options::Table table = configuration::configuration_table(made);
  if (parsed->has("--schema")) return print(options::to_json_schema(table, "penstock.yaml"));
  if (parsed->operands.size() != 1)
    return report_error({core::ErrorCode::kInvalidInput,
                         {},
                         fmt::format("`penstock check` takes one FILE, there are {}", parsed->operands.size()),
                         {}});
  options::Source source{parsed->operands.front(), {}, {}};
  auto text = options::read_text_file(source.file, options::YamlLimits{}.bytes_max);
  if (!text) return report_input_error(text.error());
  source.yaml = *std::move(text);

  allocation::AllocationOptions other;
  if (const auto kind = check_file_kind(source, table, allocation::allocation_table(other),
                                        "is the input of `penstock allocate`, which checks it itself",
                                        "run `penstock allocate FILE`");
      !kind) {
    print_problems(options::Problems{kind.error()});
    return kBadInput;
  }
  auto reading = configuration::load_as_far_as_read(made, table, source);
  check_each(made, reading, check_planner);
  check_gateway(made.gateway, reading);
  print_problems(reading.problems());
  if (!reading.is_read({}))
    print_error_text(report::printable(source.file) + ": values that cannot be read were not compared with others\n");
  if (!reading.good()) return kBadInput;
  const Parts parts = parts_of(source);
  std::string summary;
  if (parts.planner) summary = summary_of_planner(made);
  if (parts.gateway) summary += (summary.empty() ? "" : "; ") + summary_of_gateway(made.gateway);
  const std::string page = parsed->has("--overload") ? "\n" + overload_page(made) : std::string{};
  return print(report::printable(fmt::format("{}: ok, {}", source.file, summary)) + "\n" + page);
}

}  // namespace penstock::cli
