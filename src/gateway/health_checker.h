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

#include "gateway/checked_replica.h"
#include "gateway/documents.h"
#include "gateway/replica_client.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "net/loop.h"

namespace penstock::gateway {

// Checks each replica's health and the models that it serves, and reads its metrics, at the configured intervals. It
// passes the results to the dispatcher, and logs changes and why a replica is not used. Runs on one loop.
//
// A replica is unresponsive once three health checks in a row have failed and, since the first of them was
// sent, nothing has come from it: no answer of any status to a request of the gateway, and no part of an answer to a
// client. A replica that is only slow, or that answers its checks with an error, is not.
class HealthChecker {
 public:
  HealthChecker(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher, ReplicaClient& client,
                logging::Log& log);

  // Replaces the list. `complete`: every source of replicas has been read.
  void set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete);

  [[nodiscard]] const CheckedReplica* find(const std::string& id) const;  // Null: the replica is unknown.
  // Requests the models of a replica that refused the credentials of a request.
  void check_credentials(const std::string& id);
  // Lets a replica of the model count the tokens of a prompt with POST /tokenize, and calls `done` with the number, or
  // without one if no replica can. `done` is not called if the replica is removed meanwhile.
  void count_prompt(std::string_view model, std::string body, std::function<void(std::optional<std::uint32_t>)> done);
  // Sends a prompt of the gateway, until whose answer CheckedReplica::is_idle() is false. Returns false if the replica
  // is unknown.
  bool send_prompt(const std::string& id, std::string_view path, std::string body);

 private:
  using Replica = CheckedReplica;
  // A replica's status and body, or the reason why it could not be reached.
  struct Response {
    int status = 0;
    std::string body;
    std::string failure;     // Empty if the status is 200.
    bool timed_out = false;  // The replica was reached and did not answer in time.
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
