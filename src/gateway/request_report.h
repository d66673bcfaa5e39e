// What a request reports on its way: phases, retries, refusals, and its line in the access log.
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

// In the order of a request that succeeds. A retry goes back to kRouting.
enum class Phase : std::uint8_t {
  kIdle,               // the handler has no request
  kReading,            // authenticates, classifies, parses, hashes
  kAdmitting,          // the dispatcher decides
  kQueued,             // waits for a grant
  kRouting,            // an attempt is over, and another replica is chosen
  kPrefilling,         // the prefill leg of a disaggregated request
  kConnecting,         // no head of the answer yet
  kAwaitingFirstByte,  // no byte of its body yet; a failure can still be retried
  kRelaying,           // bytes go to the client
  kCollecting,         // text is collected into one document
  kFinishingEvent,     // the time budget is used up, and the end of an event is awaited
  kFinishing,
};
[[nodiscard]] std::string_view to_string(Phase phase);  // "awaiting_first_byte"

// An attempt at a replica is open: the dispatcher is told how it ended.
[[nodiscard]] constexpr bool is_attempt(Phase phase) {
  return phase == Phase::kPrefilling || phase == Phase::kConnecting || phase == Phase::kAwaitingFirstByte;
}
// The client got a part of the answer.
[[nodiscard]] constexpr bool has_begun(Phase phase) {
  return phase == Phase::kRelaying || phase == Phase::kFinishingEvent;
}

class RequestReport {
 public:
  explicit RequestReport(WorkerContext& context) : context_(context) {}

  void begin(std::string_view request_id, core::Instant received_at);
  void read(const ReadRequest& request);
  void granted(const RoutedGrant& grant);
  void first_token() {
    if (first_token_at_ == core::kNever) first_token_at_ = context_.loop.now();
  }
  void phase(Phase from, Phase to) const;
  void retried(const Target& failed, std::string_view cause, const Target& next) const;
  void refused(const Refusal& refusal);
  void broke_off(const Target& replica, std::string_view cause) const;
  // The status that the client got.
  void answered(int status) { status_ = status; }
  void ended(std::string_view outcome) { outcome_ = outcome; }
  // The last call: the line of the access log.
  void close(const std::optional<api::Usage>& usage, std::uint32_t output_events) const;

 private:
  [[nodiscard]] std::string_view tenant() const;

  WorkerContext& context_;
  std::string_view request_id_, route_;
  std::string model_, replica_;  // kept only for the access log
  std::string_view outcome_;
  std::optional<std::uint32_t> tenant_;
  admission::Class traffic_class_ = admission::Class::kInteractive;
  core::Instant received_at_, granted_at_ = core::kNever, first_token_at_ = core::kNever;
  std::uint32_t attempts_ = 0, prompt_tokens_ = 0;
  int status_ = 0;
};

}  // namespace penstock::gateway
