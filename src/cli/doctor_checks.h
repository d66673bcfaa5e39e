// What `penstock doctor` finds out about a cluster: it only reads, and asks which requests would be allowed.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/scale_target.h"
#include "core/result.h"
#include "deployment/access_rules.h"
#include "gateway/discovery.h"
#include "gateway/pod_source.h"
#include "net/address.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"

namespace penstock::cli {

// A line of the table.
struct Finding {
  enum class State { kPresent, kMissing, kUnknown };  // Unknown: it could not be found out.
  std::string what;
  State state = State::kPresent;
  std::string detail{};  // What to do, or what was found.
};

// Calls that wait for their answer.
class BlockingClient {
 public:
  BlockingClient() : client_{loop_} {}

  // Reads the files of the credentials.
  [[nodiscard]] core::Result<void> connect(connect::KubernetesAccess access);
  [[nodiscard]] connect::ApiAnswer request(connect::ApiCall call);
  // Resolves a host name and sends a GET request. Without `tls`, https trusts the certificates of the system.
  [[nodiscard]] core::Result<net::FetchAnswer> get(const net::Url& url, const std::string& path,
                                                   const std::string& field_lines = {},
                                                   std::shared_ptr<net::TlsContext> tls = {});

 private:
  net::Loop loop_;
  net::Client client_;
  std::unique_ptr<connect::KubernetesClient> api_;
};

// Why the API server answers nothing; nothing: it answers. `account` as below.
[[nodiscard]] std::optional<std::string> check_reachable(BlockingClient& client, const std::string& in_namespace,
                                                         const std::string& account);
// Whether the identity may do what a rule contains. `account` is "NAMESPACE:NAME" of another service account; empty:
// the identity of the client.
[[nodiscard]] std::vector<Finding> check_access(BlockingClient& client, const deployment::AccessRule& rule,
                                                const std::string& account);
// Whether a label selector matches pods.
[[nodiscard]] Finding check_selector(BlockingClient& client, const std::string& in_namespace,
                                     const std::string& selector);
// Whether a Service has endpoints with the port that the gateway uses.
[[nodiscard]] Finding check_service(BlockingClient& client, const std::string& in_namespace,
                                    const gateway::PodOptions& options);
// Whether an InferencePool exists, and selects pods.
[[nodiscard]] std::vector<Finding> check_inference_pool(BlockingClient& client, const std::string& in_namespace,
                                                        const gateway::PodOptions& options);
// Whether an object exists that has /scale and selects pods.
[[nodiscard]] std::vector<Finding> check_target(BlockingClient& client, const std::string& in_namespace,
                                                connect::ScaleTarget target);
// The autoscalers that act on the object, too.
[[nodiscard]] std::vector<Finding> check_other_autoscalers(BlockingClient& client, const std::string& in_namespace,
                                                           const connect::ScaleTarget& target);
// Whether the API server would scale the object, by a dry run that sets the number of replicas that it has. Nothing, if
// the identity may not even try, which check_access() reports.
[[nodiscard]] std::optional<Finding> check_scaling(BlockingClient& client, const std::string& in_namespace,
                                                   const connect::ScaleTarget& target);
// Whether HorizontalPodAutoscalers can select the metric of the pool by its name; nothing: they can.
[[nodiscard]] std::optional<Finding> check_pool_label(const std::string& pool);
// Whether each replica that the configuration lists answers GET /v1/models, from which the gateway learns its models,
// and serves the model that it is configured with. Errors: credentials that cannot be read.
[[nodiscard]] core::Result<std::vector<Finding>> check_replicas(BlockingClient& client,
                                                                const gateway::DiscoveryOptions& discovery);
// Until when the credentials are valid, where they contain that.
[[nodiscard]] std::vector<Finding> check_expiry(const connect::KubernetesAccess& access, std::int64_t unix_s);

[[nodiscard]] std::string table_of(const std::vector<Finding>& findings);

}  // namespace penstock::cli
