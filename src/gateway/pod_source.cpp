#include "gateway/pod_source.h"

#include <functional>
#include <optional>
#include <utility>

#include "connect/kubernetes/access.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/credentials.h"
#include "connect/kubernetes/watched.h"
#include "net/access.h"
#include "net/address.h"
#include "net/client.h"

namespace penstock::gateway {
namespace {

// llm-d's label for the role of a pod.
constexpr const char* kRoleLabel = "llm-d.ai/role";

tl::unexpected<core::Error> of_options(core::Error error) {
  error.where = error.where.empty() ? "gateway.kubernetes" : "gateway.kubernetes: " + error.where;
  return tl::make_unexpected(std::move(error));
}

signals::Role role_of(const connect::PodState& pod) {
  const auto label = pod.labels.find(kRoleLabel);
  if (label == pod.labels.end()) return signals::Role::kAggregated;
  if (label->second == "prefill") return signals::Role::kPrefill;
  return label->second == "decode" ? signals::Role::kDecode : signals::Role::kAggregated;
}

class Follower final : public PodSource {
 public:
  Follower(net::Loop& loop, const PodOptions& options, Listener listener)
      : loop_(loop), options_(options), listener_(std::move(listener)), http_(loop) {}

  core::Result<void> begin() {
    auto access = connect::find_kubernetes_access(options_.kubeconfig);
    if (!access) return of_options(access.error());
    connect::ReflectorOptions pods;
    pods.resource = connect::kPods;
    pods.in_namespace = options_.in_namespace.empty() ? access->default_namespace : options_.in_namespace;
    pods.label_selector = options_.selector;
    connect::KubernetesOptions options;
    options.access = *std::move(access);
    // Gateways that lost the API server together return at different times.
    options.seed = std::hash<std::string>{}(net::make_token());
    auto client = connect::KubernetesClient::start(loop_, http_, std::move(options), listener_.failed);
    if (!client) return of_options(client.error());
    client_ = *std::move(client);
    pods_.emplace(
        loop_, *client_, std::move(pods), connect::parse_pod,
        connect::Watched<connect::PodState>::Listener{
            [this] { report(); }, [this](const connect::ApiError& error) { listener_.failed(error.message()); }});
    return {};
  }

 private:
  void report() {
    std::vector<ReplicaEndpoint> found = replicas_of(pods_->all(), options_.port);
    if (reported_ && *reported_ == found) return;
    reported_ = found;
    listener_.found(std::move(found));
  }

  net::Loop& loop_;
  const PodOptions options_;
  const Listener listener_;
  net::Client http_;
  std::unique_ptr<connect::KubernetesClient> client_;
  std::optional<std::vector<ReplicaEndpoint>> reported_;
  std::optional<connect::Watched<connect::PodState>> pods_;
};

}  // namespace

core::Result<void> check_pod_options(const PodOptions& options) {
  if (options.selector.empty()) return {};
  auto access = connect::find_kubernetes_access(options.kubeconfig);
  if (!access) return of_options(access.error());
  if (auto loaded = connect::KubernetesCredentials::load(*std::move(access)); !loaded)
    return of_options(loaded.error());
  return {};
}

std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::PodState>& pods, std::uint16_t port) {
  std::vector<ReplicaEndpoint> all;
  for (const auto& [key, pod] : pods) {
    const auto address = net::Address::parse(pod.address, port);
    if (!address || pod.has_ended) continue;
    ReplicaEndpoint& found = all.emplace_back();
    found.id = pod.name;
    found.url = "http://" + address->text();
    found.pool = "default";
    found.role = role_of(pod);
    found.phase = pod.is_terminating || pod.is_marked ? dispatch::ReplicaPhase::kDraining
                  : pod.is_ready                      ? dispatch::ReplicaPhase::kServing
                                                      : dispatch::ReplicaPhase::kWarming;
    found.addresses = {*address};
  }
  return all;
}

core::Result<std::unique_ptr<PodSource>> PodSource::start(net::Loop& loop, const PodOptions& options,
                                                          Listener listener) {
  auto follower = std::make_unique<Follower>(loop, options, std::move(listener));
  if (auto begun = follower->begin(); !begun) return tl::make_unexpected(begun.error());
  return follower;
}

}  // namespace penstock::gateway
