// The API external.metrics.k8s.io/v1beta1: a HorizontalPodAutoscaler follows the planner's target for a pool.
// Source: https://github.com/kubernetes/metrics/tree/master/pkg/apis/external_metrics/v1beta1
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/label_selector.h"
#include "connect/recommended_replicas.h"
#include "core/result.h"
#include "core/time.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/tls.h"

namespace penstock::connect {

// Who may speak for users: the API server, which has authenticated them.
struct FrontProxy {
  std::string ca;               // PEM that verifies its certificate.
  std::set<std::string> names;  // Common names of the certificate; empty: any.
  std::vector<std::string> user_fields, group_fields;
};
// Reads the ConfigMap extension-apiserver-authentication of kube-system.
[[nodiscard]] core::Result<FrontProxy> parse_front_proxy(const nlohmann::json& config_map);

// Offers the metric penstock_target_replicas in every namespace, one item for each pool with the labels "pool" and, if
// it has one, "model". Characters that Kubernetes refuses in a label, such as a slash, are dots, because an HPA could
// not select them; names are cut after 63 bytes. While a selected target is unknown, the
// answer is 503, which changes no replicas. A caller without the front proxy's certificate is refused with 401, and the
// API server is asked whether the user may list the metric (a SubjectAccessReview, kept for 10 s).
class ExternalMetrics final : private net::ExchangeHandler {
 public:
  static constexpr std::string_view kGroup = "external.metrics.k8s.io", kVersion = "v1beta1";
  static constexpr std::string_view kMetric = "penstock_target_replicas";

  struct Options {
    net::Pem certificate, key;  // Of the service; read again with the ConfigMap.
    core::Duration refresh = std::chrono::seconds{60};
    core::Duration review_time = std::chrono::seconds{10};
    std::function<std::string()> timestamp;              // RFC 3339, of now.
    std::function<void(const std::string&)> on_failure;  // Why nothing can be served; once until it is another cause.
  };

  // Owns the listening socket; `tls` has the certificate of the options. Until the ConfigMap is read, no caller is
  // accepted.
  ExternalMetrics(net::Loop& loop, int listening, std::shared_ptr<net::TlsContext> tls, KubernetesClient& api,
                  Recommended recommended, Options options);
  ~ExternalMetrics();

 private:
  struct Caller {
    std::string user;
    std::vector<std::string> groups;
  };
  struct Review {
    bool allowed = false;
    core::Instant until;
  };
  class Waiting;
  using ReviewKey = std::tuple<std::string, std::vector<std::string>, std::string, std::string>;

  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void refresh();
  void take(const FrontProxy& proxy);
  void fail(const std::string& cause);
  [[nodiscard]] bool is_front_proxy(const net::Exchange& exchange) const;
  [[nodiscard]] Caller caller_of(const net::RequestHead& head) const;
  void authorize(net::Exchange& exchange, std::string in_namespace, std::string metric);
  void answer(net::Exchange& exchange, bool allowed, const std::string& in_namespace, const std::string& metric);
  void answer_metric(net::Exchange& exchange, const std::string& metric);

  net::Loop& loop_;
  KubernetesClient& api_;
  Recommended recommended_;
  const Options options_;
  FrontProxy proxy_;
  bool has_proxy_ = false;
  std::string failure_;
  std::map<ReviewKey, Review> reviews_;
  net::Loop::Timer timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // Answers may come after the end.
  net::Server server_;
};

}  // namespace penstock::connect
