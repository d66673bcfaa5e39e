// Logs and counts the progress of a request: phases, retries, refusals, and its line in the access log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "core/time.h"
#include "gateway/request_reading.h"
#include "gateway/worker_context.h"

namespace penstock::gateway {

// Phases in the order of a successful request. A retry returns to kRouting.
enum class Phase : std::uint8_t {
  kIdle,               // The handler has no request.
  kReading,            // Authenticates, classifies, parses and hashes the request.
  kAdmitting,          // The dispatcher decides.
  kTruncating,         // The prompt exceeds the context, and its oldest part is dropped.
  kCounting,           // An engine counts the tokens of the prompt, because they may exceed the context.
  kQueued,             // Waits for a grant.
  kRouting,            // An attempt has ended, and another replica is chosen.
  kPrefilling,         // The prefill leg of a disaggregated request.
  kConnecting,         // Waits for the head of the answer.
  kAwaitingFirstByte,  // Waits for the body, of a stream for its first content; a failure can still be retried.
  kRelaying,           // Sends bytes to the client.
  kCollecting,         // Collects text into one document.
  kFinishingEvent,     // The time budget is used up, and the gateway waits for the end of an event.
  kFinishing,
};
[[nodiscard]] std::string_view to_string(Phase phase);  // Returns, for example, "awaiting_first_byte".

// Returns true while an attempt at a replica is open and no part of an answer has come from it.
[[nodiscard]] constexpr bool is_attempt(Phase phase) {
  return phase == Phase::kPrefilling || phase == Phase::kConnecting || phase == Phase::kAwaitingFirstByte;
}
// Returns true while the request is at a replica that may answer the client, who has received nothing.
[[nodiscard]] constexpr bool awaits_answer(Phase phase) {
  return phase == Phase::kConnecting || phase == Phase::kAwaitingFirstByte || phase == Phase::kCollecting;
}
// Returns true once the client has received a part of the answer.
[[nodiscard]] constexpr bool has_begun(Phase phase) {
  return phase == Phase::kRelaying || phase == Phase::kFinishingEvent;
}

class RequestReport {
 public:
  explicit RequestReport(WorkerContext& context) : context_(context) {}

  void begin(std::string_view request_id, core::Instant received_at);
  void read(const ReadRequest& request);
  // The dispatcher has accepted the request, which may wait, and may have lowered its class.
  void admitted(const dispatch::RequestInfo& info, bool moved_to_batch);
  void granted(const RoutedGrant& grant);
  void first_token() {
    if (first_token_at_ == core::kNever) first_token_at_ = context_.loop.now();
  }
  void stream_tokens(std::uint32_t count);  // Tokens of a stream that the client reads, at least one.
  void phase(Phase from, Phase to) const;
  void retried(const Target& failed, std::string_view cause, const Target& next) const;
  void refused(const Refusal& refusal);
  void broke_off(const Target& replica, std::string_view cause) const;
  // The status sent to the client.
  void answered(int status) { status_ = status; }
  void ended(std::string_view outcome) { outcome_ = outcome; }
  // Called last: records the latencies of the request and writes the line of the access log.
  void close(const std::optional<api::Usage>& usage, std::uint32_t output_events) const;

 private:
  [[nodiscard]] std::string_view tenant() const;

  WorkerContext& context_;
  std::string_view request_id_, route_;
  std::string model_, replica_;  // Set only for the access log.
  std::string_view outcome_;
  std::optional<std::uint32_t> tenant_;
  admission::Class traffic_class_ = admission::Class::kInteractive;
  LatencyHistograms::Row* latencies_ = nullptr;  // Null: the request is not admitted.
  core::Instant received_at_, granted_at_ = core::kNever, first_token_at_ = core::kNever, last_token_at_ = core::kNever;
  std::uint32_t attempts_ = 0, prompt_tokens_ = 0, truncated_tokens_ = 0;
  int status_ = 0;
};

}  // namespace penstock::gateway
