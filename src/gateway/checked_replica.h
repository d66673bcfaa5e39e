// What the checks of a replica have shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/time.h"
#include "gateway/options.h"
#include "telemetry/frontend_workers.h"

namespace penstock::gateway {

struct CheckedReplica {
  ReplicaEndpoint endpoint;
  std::string configured_model;                      // Empty: the replica names it.
  std::uint64_t configured_kv_tokens = 0;            // 0: not configured.
  std::optional<telemetry::FrontendWorkers> behind;  // The workers that a front end reports.
  std::uint32_t failures = 0;                        // Consecutive failures of health checks.
  int refused_status = 0;                            // 401 or 403: the last list of models was refused; 0: it was not.
  bool asleep = false;                               // Its metrics report that it is in sleep mode.
  bool timed_out = false;  // The last health check failed because the answer did not come in time.
  dispatch::ReplicaHealth health = dispatch::ReplicaHealth::kHealthy;  // What follows from these.
  // Consecutive failed checks since the first of which the replica has answered nothing at all.
  std::uint32_t silent_checks = 0;
  core::Instant silent_since{};   // When the first of them was sent.
  core::Instant answered_at{};    // The last answer of any status to the gateway itself.
  bool unresponsive = false;      // What follows from these.
  std::string health_failure;     // Of the last check; empty if it succeeded.
  int health_status = 0;          // Of the last check; 0 if the replica did not answer.
  core::Instant checked_at{};     // When the last check was sent.
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
  std::uint32_t restarts = 0;            // Of its engine, as its counters show.
  std::uint32_t telemetry_failures = 0;  // Consecutive ones.
  bool has_telemetry = false;            // Until the failures were reported.
  // A replica without metrics is scraped less and less often.
  core::Duration scrape_pause{};
  core::Instant scrape_at{};

  // Takes the counter of a scrape. Returns true if it decreased: the engine restarted, with an empty cache.
  [[nodiscard]] bool take_prompt_tokens(std::optional<std::uint64_t> total) {
    const std::uint64_t before = std::exchange(prompt_tokens_total, total.value_or(prompt_tokens_total));
    if (prompt_tokens_total < before) ++restarts;
    return prompt_tokens_total < before;
  }
  // Its metrics report no queued requests, and no prompt of the gateway is in flight there.
  [[nodiscard]] bool is_idle() const { return queued_requests == 0 && prompts_in_flight == 0; }
  [[nodiscard]] bool is_healthy() const { return health == dispatch::ReplicaHealth::kHealthy; }
  // Counts the last health check. `was_answered(since)`: a part of an answer to a request has come since then. Returns
  // true if `unresponsive` has changed.
  template <class WasAnswered>
  [[nodiscard]] bool count_silence(bool good, const WasAnswered& was_answered) {
    constexpr std::uint32_t kSilentChecksMax = 3;
    if (silent_checks == 0) silent_since = checked_at;
    const bool silent = !good && answered_at < silent_since && !was_answered(silent_since);
    silent_checks = silent ? silent_checks + 1 : 0;
    return std::exchange(unresponsive, silent_checks >= kSilentChecksMax) != unresponsive;
  }
  [[nodiscard]] bool has_address() const { return !endpoint.addresses.empty(); }
};

}  // namespace penstock::gateway
