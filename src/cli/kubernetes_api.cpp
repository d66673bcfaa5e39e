#include "cli/kubernetes_api.h"

#include <utility>

#include "connect/kubernetes/access.h"

namespace penstock::cli {

core::Result<std::unique_ptr<connect::KubernetesClient>> open_kubernetes_api(const std::string& kubeconfig,
                                                                             net::Loop& loop, net::Client& client,
                                                                             logging::Log& log, logging::Event failed,
                                                                             std::function<bool()> may_write) {
  auto access = connect::find_kubernetes_access(kubeconfig);
  if (!access) return tl::make_unexpected(access.error());
  connect::KubernetesOptions api;
  api.access = *std::move(access);
  api.may_write = std::move(may_write);
  return connect::KubernetesClient::start(loop, client, std::move(api), [&log, failed](const std::string& cause) {
    log.write(failed, {{"error", cause}});
  });
}

}  // namespace penstock::cli
