// Checks the health of replicas, and reads their models and metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/documents.h"
#include "gateway/replica_client.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "net/loop.h"
#include "telemetry/frontend_workers.h"

namespace penstock::gateway {

// Checks each replica's health and the models that it serves, and reads its metrics, at the configured intervals. It
// passes the results to the dispatcher, and logs changes and why a replica is not used. Runs on one loop.
class HealthChecker {
 public:
  HealthChecker(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher, ReplicaClient& client,
                logging::Log& log);

  // Replaces the list. `complete`: every source of replicas has been read.
  void set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete);

  // Returns true if the replica's metrics report no queued requests and no prompt of the gateway is in flight there.
  [[nodiscard]] bool is_idle(const std::string& id) const;
  // Requests the models of a replica that refused the credentials of a request.
  void check_credentials(const std::string& id);
  // Lets a replica of the model count the tokens of a prompt with POST /tokenize, and calls `done` with the number, or
  // without one if no replica can. `done` is not called if the replica is removed meanwhile.
  void count_prompt(std::string_view model, std::string body, std::function<void(std::optional<std::uint32_t>)> done);
  // Sends a prompt of the gateway; is_idle() is false until it is answered. Returns false if the replica is unknown.
  bool send_prompt(const std::string& id, std::string_view path, std::string body);

 private:
  struct Replica {
    ReplicaEndpoint endpoint;
    std::string configured_model;                      // Empty: the replica names it.
    std::uint64_t configured_kv_tokens = 0;            // 0: not configured.
    std::optional<telemetry::FrontendWorkers> behind;  // The workers that a front end reports.
    std::uint32_t failures = 0;                        // Consecutive failures of health checks.
    int refused_status = 0;         // 401 or 403: the last list of models was refused; 0: it was not.
    bool asleep = false;            // Its metrics report that it is in sleep mode.
    bool healthy = true;            // None of these.
    std::string health_failure;     // Of the last check; empty if it succeeded.
    int health_status = 0;          // Of the last check; 0 if the replica did not answer.
    int models_status = 0;          // Of the last list of models; 0 if the replica did not answer.
    std::string model_failure;      // Why its model is not known, or not served; empty if it is.
    std::string telemetry_failure;  // Of the last scrape; empty if it succeeded.
    bool counts_prompts = true;     // It has not answered /tokenize with 404 or 405.
    std::uint32_t counts_in_flight = 0;
    core::Instant listed_at{};  // When it came into the list.
    bool models_read = false;   // It has answered a request for its models.
    bool models_in_flight = false, health_in_flight = false, scrape_in_flight = false;
    std::size_t address = 0;                                     // Increases with each address that did not answer.
    std::uint64_t prompt_tokens_total = 0, queued_requests = 0;  // From the last scrape.
    std::uint32_t prompts_in_flight = 0;
    std::uint32_t telemetry_failures = 0;  // Consecutive ones.
    bool has_telemetry = false;            // Until the failures were reported.
    // A replica without metrics is scraped less and less often.
    core::Duration scrape_pause{};
    core::Instant scrape_at{};
  };
  // A replica's status and body, or the reason why it could not be reached.
  struct Response {
    int status = 0;
    std::string body;
    std::string failure;  // Empty if the status is 200.
  };
  using Done = std::function<void(Replica&, const Response&)>;

  void check_health();
  void request_models(Replica& replica);
  void scrape();
  void take_health(Replica& replica, const Response& response);
  void take_models(Replica& replica, const Response& response);
  void set_models(Replica& replica, const std::vector<ListedModel>& listed);
  void set_workers(Replica& replica, const telemetry::FrontendWorkers& behind);
  static void describe_workers(Replica& replica);
  void update_health(Replica& replica);
  [[nodiscard]] static std::string cause_of(const Replica& replica);
  [[nodiscard]] static std::string refusal_of(const Replica& replica);
  void update_problems();
  void update_models_complete();
  void update_counted_models();
  [[nodiscard]] static bool may_count(const Replica& replica, std::string_view model);
  void take_metrics(Replica& replica, const Response& response);
  void set_asleep(Replica& replica, bool asleep);
  void report_telemetry(Replica& replica, const std::string& failure);  // `failure` is empty after a success.
  void update_dispatcher();
  void log_changes(const std::map<std::string, Replica>& before) const;
  void send(const Replica& replica, const std::string& target, std::string body, core::Duration timeout, Done done);

  net::Loop& loop_;
  const GatewayOptions& options_;
  SharedDispatcher& dispatcher_;
  ReplicaClient& client_;
  logging::Log& log_;
  std::map<std::string, Replica> replicas_;  // Keyed by id.
  std::vector<ReplicaProblem> problems_;     // As last passed on.
  const core::Instant started_at_;
  bool list_complete_ = false;
};

}  // namespace penstock::gateway
