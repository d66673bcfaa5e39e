// From a configuration to what `penstock plan` runs, at its start and at each reload.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actuation/fleet_state.h"
#include "cli/autoscalers.h"
#include "cli/plan_cluster.h"
#include "configuration/configuration.h"
#include "controller/planner_daemon.h"
#include "core/result.h"
#include "decision/policy.h"
#include "net/host_names.h"
#include "options/table.h"

namespace penstock::cli {

// Who runs the engines.
enum class EngineHost : std::uint8_t {
  kOthers,      // They are observed.
  kLocal,       // They are processes of this machine, which the planner starts and stops.
  kKubernetes,  // They are pods of objects that the planner scales.
};

// The flags of `penstock plan` that no file contains.
struct PlanOptions {
  std::vector<std::string> gateways{"127.0.0.1:8081"};  // HOST:PORT each.
  std::string dashboard = "127.0.0.1:8080";
  std::string metrics_listen = "127.0.0.1:8080";  // Instead of the live page.
  std::string gateway_token_file, gateway_token_env, gateway_ca;
  configuration::AccessSetup access;  // Of the live page.
  AutoscalerOptions autoscalers;
  ClusterOptions cluster;
  EngineHost engines = EngineHost::kOthers;
  std::optional<bool> acts;  // Empty: it acts unless others run the engines.
  std::string state_folder;  // Empty: penstock-state, if it starts engines.
  actuation::PortRange ports{9000, 9899};
  bool keep_engines = false, bind_engines = false;
  bool wva_metrics = false;
  std::string policy{configuration::kPenstock};
};

[[nodiscard]] options::Table plan_table(PlanOptions& made);

// Words that end the line of a planner that is ready: what has the place of the environment variable of NVIDIA Dynamo's
// planner with the port of its metrics. `port` is its value; null or empty: no words.
[[nodiscard]] std::string note_on_prometheus_port(const PlanOptions& plan, const char* port);

// Returns a configuration with the defaults of a live planner: its engines use the block size of vLLM, where a replay
// uses that of traces.
[[nodiscard]] configuration::Configuration live_defaults();

// Reports what a planner cannot do with engines of this kind: pools without an object to scale, sleep and switches of
// roles.
void check_engine_host(const configuration::Configuration& made, EngineHost engines, options::Reading& reading);
// Returns an error for keys of TLS that have no effect without the others, so that the page would be open.
[[nodiscard]] core::Result<void> check_dashboard_tls(const configuration::AccessSetup& access);

// Errors: a policy that only a replay can run, and what is no policy, such as a list.
[[nodiscard]] core::Result<void> check_deployable(std::string_view policy);

[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_live_policy(const PlanOptions& plan,
                                                                               const configuration::Configuration& made,
                                                                               const simulation::RunOptions& run);

// The hosts of --gateway and their ports. An error names what is neither an address nor a name, or is there twice.
[[nodiscard]] core::Result<std::vector<net::HostNames::Host>> parse_gateways(const std::vector<std::string>& gateways);
// The same for a planner, which needs one.
[[nodiscard]] core::Result<std::vector<net::HostNames::Host>> gateways_of(const PlanOptions& plan);

// Sets the names of the series wva_*, if they are asked for.
void name_variants(const PlanOptions& plan, const configuration::Configuration& made, const simulation::RunOptions& run,
                   controller::DaemonOptions& options);

// Also reads the credentials for the gateways' admin addresses.
[[nodiscard]] core::Result<controller::DaemonOptions> make_daemon_options(const PlanOptions& plan,
                                                                          const simulation::RunOptions& run);

}  // namespace penstock::cli
