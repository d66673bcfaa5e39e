#include "cli/autoscalers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "cli/arguments.h"
#include "cli/gateway_setup.h"
#include "cli/kubernetes_api.h"
#include "net/address.h"
#include "net/tls.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

core::Result<int> listen_for(logging::Log& log, const std::string& address, const char* option, const char* purpose,
                             const char* scheme) {
  const auto listen = parse_listen(address, option);
  if (!listen) return tl::make_unexpected(listen.error());
  const auto socket = net::listen_on(*listen, false);
  if (!socket) return tl::make_unexpected(socket.error());
  const std::string url = fmt::format("{}://{}", scheme, net::local_address(*socket).text());
  log.write(logging::Event::kListening, {{"purpose", std::string_view{purpose}}, {"url", url}});
  return *socket;
}

core::Result<std::unique_ptr<connect::ExternalScaler>> open_scaler(const AutoscalerOptions& options, net::Loop& loop,
                                                                   connect::Recommended recommended,
                                                                   logging::Log& log) {
  std::shared_ptr<net::TlsContext> tls;
  if (!options.scaler_certificate.empty()) {
    auto made = net::TlsContext::server(
        options.scaler_certificate, options.scaler_key, options.scaler_client_ca,
        options.scaler_client_ca.empty() ? net::ClientCertificates::kOptional : net::ClientCertificates::kRequired);
    if (!made) return tl::make_unexpected(made.error());
    tls = *std::move(made);
    tls->use_http2();
  } else if (!options.scaler_key.empty() || !options.scaler_client_ca.empty()) {
    return core::invalid_input("--external-scaler-certificate", "is missing", "name the PEM file of the certificate");
  }
  const auto socket = listen_for(log, options.external_scaler, "--external-scaler", "external scaler", "grpc");
  if (!socket) return tl::make_unexpected(socket.error());
  return std::make_unique<connect::ExternalScaler>(loop, *socket, std::move(recommended), std::move(tls));
}

core::Result<std::unique_ptr<connect::ExternalMetrics>> open_metrics(const AutoscalerOptions& options, net::Loop& loop,
                                                                     connect::KubernetesClient& api,
                                                                     connect::Recommended recommended,
                                                                     logging::Log& log) {
  if (options.metrics_certificate.empty() || options.metrics_key.empty())
    return core::invalid_input("--external-metrics", "needs a certificate, because the API server calls it by TLS",
                               "name --external-metrics-certificate and --external-metrics-key");
  auto tls = net::TlsContext::server(options.metrics_certificate, options.metrics_key);
  if (!tls) return tl::make_unexpected(tls.error());
  const auto socket = listen_for(log, options.external_metrics, "--external-metrics", "external metrics", "https");
  if (!socket) return tl::make_unexpected(socket.error());
  connect::ExternalMetrics::Options made;
  made.certificate = options.metrics_certificate;
  made.key = options.metrics_key;
  made.timestamp = [] { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); };
  made.on_failure = [&log](const std::string& cause) {
    log.write(logging::Event::kExternalMetricsFailed, {{"error", cause}});
  };
  return std::make_unique<connect::ExternalMetrics>(loop, *socket, *std::move(tls), api, std::move(recommended),
                                                    std::move(made));
}

}  // namespace

void add_autoscalers(options::Table& table, AutoscalerOptions& made) {
  using namespace options;
  table.group("Other autoscalers");
  table
      .add({"", "--external-scaler", "address of the gRPC service that KEDA's triggers of type external-push call"},
           text(made.external_scaler))
      .placeholder("ADDRESS");
  table.add({"", "--external-scaler-certificate", "PEM file with its certificate chain; without it, plain text"},
            text(made.scaler_certificate));
  table.add({"", "--external-scaler-key", "PEM file with the key of that certificate"}, text(made.scaler_key));
  table.add({"", "--external-scaler-client-ca", "PEM file that verifies the certificate that each client must show"},
            text(made.scaler_client_ca));
  table
      .add({"", "--external-metrics", "address of the API external.metrics.k8s.io for HorizontalPodAutoscalers"},
           text(made.external_metrics))
      .placeholder("ADDRESS");
  table.add({"", "--external-metrics-certificate", "PEM file with its certificate chain"},
            text(made.metrics_certificate));
  table.add({"", "--external-metrics-key", "PEM file with the key of that certificate"}, text(made.metrics_key));
  table
      .add({"", "--kubeconfig",
            "how the API server is reached; without it: KUBECONFIG, the pod's service account, or "
            "~/.kube/config"},
           text(made.kubeconfig))
      .placeholder("FILE");
}

core::Result<Autoscalers> Autoscalers::open(const AutoscalerOptions& options, net::Loop& loop, net::Client& client,
                                            connect::Recommended recommended, logging::Log& log) {
  Autoscalers made;
  if (!options.external_scaler.empty()) {
    auto opened = open_scaler(options, loop, recommended, log);
    if (!opened) return tl::make_unexpected(opened.error());
    made.scaler_ = *std::move(opened);
  }
  if (!options.external_metrics.empty()) {
    auto api = open_kubernetes_api(options.kubeconfig, loop, client, log, logging::Event::kExternalMetricsFailed);
    if (!api) return tl::make_unexpected(api.error());
    made.api_ = *std::move(api);
    auto opened = open_metrics(options, loop, *made.api_, std::move(recommended), log);
    if (!opened) return tl::make_unexpected(opened.error());
    made.metrics_ = *std::move(opened);
  }
  return made;
}

void Autoscalers::disconnect() {
  if (scaler_) scaler_->disconnect();
}

void Autoscalers::drain() {
  if (scaler_) scaler_->drain();
}

}  // namespace penstock::cli
