#include "gateway/pod_source.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <utility>

#include "connect/kubernetes/access.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/credentials.h"
#include "connect/kubernetes/pod_groups.h"
#include "connect/kubernetes/pod_labels.h"
#include "connect/kubernetes/watched.h"
#include "net/access.h"
#include "net/address.h"
#include "net/client.h"

namespace penstock::gateway {
namespace {

tl::unexpected<core::Error> of_options(core::Error error) {
  error.where = error.where.empty() ? "gateway.kubernetes" : "gateway.kubernetes: " + error.where;
  return tl::make_unexpected(std::move(error));
}

dispatch::ReplicaPhase phase_of(bool is_ready, bool is_leaving) {
  if (is_leaving) return dispatch::ReplicaPhase::kDraining;
  return is_ready ? dispatch::ReplicaPhase::kServing : dispatch::ReplicaPhase::kWarming;
}

// 0: the slice has no such port.
std::uint16_t port_of(const connect::EndpointSlice& slice, const PodOptions& options) {
  for (const connect::SlicePort& port : slice.ports)
    if (options.port_name.empty() ? port.port == options.port || slice.ports.size() == 1
                                  : port.name == options.port_name)
      return port.port;
  return 0;
}

signals::Role role_of(const connect::PodState& pod) {
  const auto label = pod.labels.find(connect::kRoleLabel);
  if (label == pod.labels.end()) return signals::Role::kAggregated;
  if (label->second == "prefill") return signals::Role::kPrefill;
  return label->second == "decode" ? signals::Role::kDecode : signals::Role::kAggregated;
}

std::string pool_of(const connect::PodState& pod, const PodOptions& options) {
  const auto label = pod.labels.find(options.pool_label);
  return label == pod.labels.end() ? "default" : label->second;
}

class Follower final : public PodSource {
 public:
  Follower(net::Loop& loop, const PodOptions& options, Listener listener)
      : loop_(loop), options_(options), listener_(std::move(listener)), http_(loop) {}

  core::Result<void> begin() {
    auto access = connect::find_kubernetes_access(options_.kubeconfig);
    if (!access) return of_options(access.error());
    connect::ReflectorOptions objects;
    objects.in_namespace = options_.in_namespace.empty() ? access->default_namespace : options_.in_namespace;
    connect::KubernetesOptions options;
    options.access = *std::move(access);
    // Gateways that lost the API server together return at different times.
    options.seed = std::hash<std::string>{}(net::make_token());
    auto client = connect::KubernetesClient::start(loop_, http_, std::move(options), listener_.failed);
    if (!client) return of_options(client.error());
    client_ = *std::move(client);
    in_namespace_ = objects.in_namespace;
    const auto failed = [this](const connect::ApiError& error) { listener_.failed(error.message()); };
    if (!options_.selector.empty()) follow_pods(options_.selector);
    if (!options_.inference_pool.empty()) {
      objects.resource = connect::inference_pools(options_.inference_pool_group);
      objects.field_selector = "metadata.name=" + options_.inference_pool;
      pool_.emplace(loop_, *client_, objects, connect::parse_inference_pool,
                    connect::Watched<connect::InferencePool>::Listener{
                        [this] { follow_inference_pool(); },
                        [this](const connect::ApiError& error) { report_pool_failure(error); }});
    }
    if (!options_.service.empty()) {
      objects.resource = connect::kEndpointSlices;
      objects.label_selector = std::string{connect::kServiceNameLabel} + "=" + options_.service;
      slices_.emplace(loop_, *client_, objects, connect::parse_endpoint_slice,
                      connect::Watched<connect::EndpointSlice>::Listener{[this] { report(); }, failed});
    }
    return {};
  }

 private:
  void follow_pods(const std::string& selector) {
    connect::ReflectorOptions objects;
    objects.resource = connect::kPods;
    objects.in_namespace = in_namespace_;
    objects.label_selector = selector;
    pods_.emplace(
        loop_, *client_, objects, connect::parse_pod,
        connect::Watched<connect::PodState>::Listener{
            [this] { report(); }, [this](const connect::ApiError& error) { listener_.failed(error.message()); }});
  }

  void follow_inference_pool() {
    const auto known = pool_->all().find(in_namespace_ + "/" + options_.inference_pool);
    const connect::InferencePool pool = known == pool_->all().end() ? connect::InferencePool{} : known->second;
    const std::string selector = pool.ports.empty() ? "" : pool.selector();
    options_.ports = pool.ports;
    if (options_.selector != selector) {
      options_.selector = selector;
      pods_.reset();
      if (!selector.empty()) follow_pods(selector);
    }
    report();
  }

  void report_pool_failure(const connect::ApiError& error) {
    const std::string hint = error.reason == connect::ApiReason::kNotFound
                                 ? "; install the definitions of the Gateway API Inference Extension, or name another "
                                   "gateway.kubernetes.inference_pool_group"
                                 : "";
    listener_.failed(error.message() + hint);
  }

  [[nodiscard]] std::string missing_pods() const {
    if (pool_ && !pool_->all().contains(in_namespace_ + "/" + options_.inference_pool))
      return fmt::format(
          "gateway.kubernetes.inference_pool: there is no InferencePool \"{}\" of {} in the namespace \"{}\"; "
          "the gateway waits for it",
          options_.inference_pool, options_.inference_pool_group, in_namespace_);
    if (pool_ && options_.selector.empty())
      return fmt::format(
          "gateway.kubernetes.inference_pool: the InferencePool \"{}\" needs labels in spec.selector and a port in "
          "spec.targetPorts",
          options_.inference_pool);
    if (!pods_->all().empty()) return {};
    return fmt::format(
        "{}: no pod in the namespace \"{}\" has the labels {}; compare with `kubectl get pods --show-labels`",
        pool_ ? "gateway.kubernetes.inference_pool" : "gateway.kubernetes.selector", in_namespace_, options_.selector);
  }

  void report() {
    // All are listed once before the first report, and again after a change of the selector.
    if ((pods_ && !pods_->confirmed_at()) || (slices_ && !slices_->confirmed_at()) || (pool_ && !pool_->confirmed_at()))
      return;
    static const std::map<std::string, connect::PodState> kNoPods;
    const std::map<std::string, connect::PodState>& pods = pods_ ? pods_->all() : kNoPods;
    std::vector<ReplicaEndpoint> found =
        slices_ ? replicas_of(slices_->all(), pods, options_) : replicas_of(pods, options_);
    const std::string missing = slices_ ? missing_replicas(slices_->all(), options_, in_namespace_) : missing_pods();
    if (std::exchange(missing_, missing) != missing && !missing.empty()) listener_.failed(missing);
    if (reported_ && *reported_ == found) return;
    reported_ = found;
    listener_.found(std::move(found));
  }

  net::Loop& loop_;
  PodOptions options_;  // `selector` and `ports` are those of the InferencePool, if one is followed.
  const Listener listener_;
  net::Client http_;
  std::unique_ptr<connect::KubernetesClient> client_;
  std::optional<std::vector<ReplicaEndpoint>> reported_;
  std::string in_namespace_, missing_;
  std::optional<connect::Watched<connect::PodState>> pods_;
  std::optional<connect::Watched<connect::EndpointSlice>> slices_;
  std::optional<connect::Watched<connect::InferencePool>> pool_;
};

}  // namespace

core::Result<void> check_pod_options(const PodOptions& options) {
  if (!options.follows_any() || options.kubeconfig.empty()) return {};
  auto access = connect::find_kubernetes_access(options.kubeconfig);
  if (!access) return of_options(access.error());
  if (auto loaded = connect::KubernetesCredentials::load(*std::move(access)); !loaded)
    return of_options(loaded.error());
  return {};
}

std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::PodState>& pods,
                                         const PodOptions& options) {
  std::vector<std::uint16_t> ports = options.ports;
  if (ports.empty()) ports.push_back(options.port);
  std::vector<ReplicaEndpoint> all;
  for (const auto& [name, group] : groups_of(pods, connect::PodSelection::kLeaders))
    for (const std::uint16_t port : ports) {
      const connect::PodState& pod = group.pod;
      const auto address = net::Address::parse(pod.address, port);
      if (!address || pod.has_ended) continue;
      ReplicaEndpoint& found = all.emplace_back();
      found.id = ports.size() == 1 ? pod.name : fmt::format("{}:{}", pod.name, port);
      found.url = "http://" + address->text();
      found.pool = pool_of(pod, options);
      found.role = role_of(pod);
      found.phase = phase_of(pod.is_ready, pod.is_terminating || pod.is_marked);
      found.addresses = {*address};
    }
  return all;
}

std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::EndpointSlice>& slices,
                                         const std::map<std::string, connect::PodState>& pods,
                                         const PodOptions& options) {
  std::map<std::string, const connect::PodState*> by_name;
  for (const auto& [key, pod] : pods) by_name[pod.name] = &pod;
  std::map<std::string, ReplicaEndpoint> all;
  for (const auto& [key, slice] : slices) {
    const std::uint16_t port = port_of(slice, options);
    for (const connect::SliceEndpoint& endpoint : slice.endpoints) {
      const auto address = net::Address::parse(endpoint.address, port);
      if (!address || port == 0) continue;
      const auto pod = by_name.find(endpoint.pod);
      const bool is_marked = pod != by_name.end() && pod->second->is_marked;
      ReplicaEndpoint made;
      made.id = endpoint.pod.empty() ? address->text() : endpoint.pod;
      made.url = "http://" + address->text();
      made.pool = "default";
      if (pod != by_name.end()) {
        made.role = role_of(*pod->second);
        made.pool = pool_of(*pod->second, options);
      }
      made.phase = phase_of(endpoint.is_ready, endpoint.is_terminating || is_marked);
      made.addresses = {*address};
      const auto known = all.find(made.id);
      // While an endpoint moves to another slice, one of the two may be older. IPv4 goes before IPv6.
      if (known == all.end() ||
          (known->second.url.find('[') != std::string::npos && made.url.find('[') == std::string::npos))
        all.insert_or_assign(made.id, std::move(made));
      else if (made.phase == dispatch::ReplicaPhase::kDraining)
        known->second.phase = made.phase;
    }
  }
  std::vector<ReplicaEndpoint> replicas;
  for (auto& [id, replica] : all) replicas.push_back(std::move(replica));
  return replicas;
}

std::string missing_replicas(const std::map<std::string, connect::EndpointSlice>& slices, const PodOptions& options,
                             const std::string& in_namespace) {
  bool has_endpoints = false;
  std::string ports;
  for (const auto& [key, slice] : slices) {
    if (slice.endpoints.empty()) continue;
    has_endpoints = true;
    if (port_of(slice, options) != 0) return {};
    for (const connect::SlicePort& port : slice.ports)
      ports += fmt::format("{}{} ({})", ports.empty() ? "" : ", ", port.name, port.port);
  }
  if (has_endpoints)
    return fmt::format(
        "gateway.kubernetes: the Service \"{}\" has no port {}; it has {}; set "
        "gateway.kubernetes.port_name",
        options.service, options.port_name.empty() ? std::to_string(options.port) : "\"" + options.port_name + "\"",
        ports.empty() ? "none" : ports);
  return fmt::format(
      "gateway.kubernetes.service: the Service \"{}\" in the namespace \"{}\" has no endpoints; check its "
      "name, and that its selector matches pods",
      options.service, in_namespace);
}

core::Result<std::unique_ptr<PodSource>> PodSource::start(net::Loop& loop, const PodOptions& options,
                                                          Listener listener) {
  auto follower = std::make_unique<Follower>(loop, options, std::move(listener));
  if (auto begun = follower->begin(); !begun) return tl::make_unexpected(begun.error());
  return follower;
}

}  // namespace penstock::gateway
