// Connections of the commands to the API server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "connect/kubernetes/client.h"
#include "core/result.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::cli {

// A client with the access of `kubeconfig`, or of the pod if it is empty. It logs its failures as `failed`, and writes
// while `may_write` is empty or returns true.
[[nodiscard]] core::Result<std::unique_ptr<connect::KubernetesClient>> open_kubernetes_api(
    const std::string& kubeconfig, net::Loop& loop, net::Client& client, logging::Log& log, logging::Event failed,
    std::function<bool()> may_write = {});

}  // namespace penstock::cli
