// The services of `penstock plan` that other autoscalers ask for its targets: KEDA's external scaler, and the external
// metrics of Kubernetes.
#pragma once

#include <memory>
#include <string>

#include "connect/keda/external_scaler.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/external_metrics.h"
#include "connect/recommended_replicas.h"
#include "core/result.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"
#include "options/table.h"

namespace penstock::cli {

struct AutoscalerOptions {
  std::string external_scaler;  // Address; empty: none.
  std::string scaler_certificate, scaler_key, scaler_client_ca;
  std::string external_metrics;  // Address; empty: none.
  std::string metrics_certificate, metrics_key, kubeconfig;
};

void add_autoscalers(options::Table& table, AutoscalerOptions& made);

class Autoscalers {
 public:
  // Opens what the options ask for. All arguments must outlive it.
  [[nodiscard]] static core::Result<Autoscalers> open(const AutoscalerOptions& options, net::Loop& loop,
                                                      net::Client& client, connect::Recommended recommended,
                                                      logging::Log& log);
  // Ends streams and connections, so that their clients find the planner that leads.
  void disconnect();
  // Ends streams so that their clients connect again at once.
  void drain();

 private:
  std::unique_ptr<connect::ExternalScaler> scaler_;
  std::unique_ptr<connect::KubernetesClient> api_;
  std::unique_ptr<connect::ExternalMetrics> metrics_;
};

}  // namespace penstock::cli
