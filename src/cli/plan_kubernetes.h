// From a configuration to a fleet in Kubernetes.
#pragma once

#include <functional>
#include <memory>

#include "cli/plan_setup.h"
#include "configuration/configuration.h"
#include "connect/kubernetes/event_writer.h"
#include "controller/engine_watch.h"
#include "controller/fleet.h"
#include "core/result.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::cli {

// Each pool needs a target. The namespace, the port of the engines and the kubeconfig are those by which the gateway
// finds its pods (gateway.kubernetes); --kubeconfig goes first. Nothing is changed while `may_act` returns false; it is
// empty without leader election.
[[nodiscard]] core::Result<std::unique_ptr<controller::Fleet>> open_kubernetes_fleet(
    const PlanOptions& plan, const configuration::Configuration& made, const simulation::RunOptions& run,
    controller::EngineWatchOptions watch, net::Loop& loop, net::Client& client, logging::Log& log,
    connect::EventWriter& events, std::function<bool()> may_act);

}  // namespace penstock::cli
