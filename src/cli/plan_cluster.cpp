#include "cli/plan_cluster.h"

#include <utility>

#include "cli/kubernetes_api.h"
#include "connect/kubernetes/access.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

core::Result<connect::ObjectName> named(const std::string& text, const char* option) {
  auto name = connect::parse_object_name(text);
  if (!name) name.error().where = option;
  return name;
}

core::Result<core::Duration> parse_lease_duration(std::string_view text) {
  auto parsed = options::parse_duration(text);
  if (parsed && (*parsed < std::chrono::seconds{3} || *parsed > std::chrono::minutes{10}))
    return core::invalid_input({}, "must be from 3s to 10min, is " + options::quote(text));
  return parsed;
}

}  // namespace

void add_cluster(options::Table& table, ClusterOptions& made) {
  using namespace options;
  table.group("Several planners");
  table
      .add({"", "--leader-election", "Lease of Kubernetes that the planner which acts holds; the others follow it"},
           text(made.lease))
      .placeholder("NAMESPACE/NAME");
  table.add({"", "--lease-duration",
             "time after which another planner takes over from one that is gone; a planner that cannot renew stops "
             "acting after two thirds of it"},
            value("duration", made.lease_duration, parse_lease_duration, format_duration));
  table
      .add({"", "--state-config-map", "ConfigMap for the state of the policy, which the next leader reads"},
           text(made.state_config_map))
      .placeholder("NAMESPACE/NAME");
}

core::Result<std::unique_ptr<connect::EventWriter>> open_events(const std::string& identity,
                                                                const std::string& kubeconfig, net::Loop& loop,
                                                                net::Client& client, logging::Log& log) {
  auto started = open_kubernetes_api(kubeconfig, loop, client, log, logging::Event::kClusterEventsFailed);
  if (!started) return tl::make_unexpected(started.error());
  connect::EventWriter::Options options;
  options.instance = identity;
  return std::make_unique<connect::EventWriter>(loop, *std::move(started), std::move(options),
                                                [&log](const std::string& cause) {
                                                  log.write(logging::Event::kClusterEventsFailed, {{"error", cause}});
                                                });
}

core::Result<std::unique_ptr<controller::LeaderElection>> open_leader_election(
    const ClusterOptions& options, const std::string& identity, const std::string& kubeconfig, net::Loop& loop,
    net::Client& client, connect::EventWriter& events, logging::Log& log) {
  auto lease = named(options.lease, "--leader-election");
  if (!lease) return tl::make_unexpected(lease.error());
  auto access = connect::find_kubernetes_access(kubeconfig);
  if (!access) return tl::make_unexpected(access.error());
  return controller::LeaderElection::start(
      loop, client, {*std::move(access), *std::move(lease), identity, options.lease_duration}, events, log);
}

core::Result<std::shared_ptr<controller::PolicyStore>> open_state_config_map(
    const ClusterOptions& options, const std::string& deployment, const std::string& kubeconfig,
    const controller::Leadership* leadership, net::Loop& loop, net::Client& client, logging::Log& log) {
  if (options.state_config_map.empty()) return std::shared_ptr<controller::PolicyStore>{};
  auto name = named(options.state_config_map + (deployment.empty() ? "" : "-" + deployment), "--state-config-map");
  if (!name) return tl::make_unexpected(name.error());
  auto started = open_kubernetes_api(kubeconfig, loop, client, log, logging::Event::kFileUnwritable,
                                     [leadership] { return leadership == nullptr || leadership->may_act(); });
  if (!started) return tl::make_unexpected(started.error());
  return std::make_shared<controller::PolicyStateConfigMap>(*std::move(started), *name);
}

}  // namespace penstock::cli
