// Times one response: when its parts arrived, how many tokens it had, and how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_watch.h"
#include "core/time.h"
#include "load/request_shape.h"
#include "net/client.h"

namespace penstock::load {

enum class Outcome : std::uint8_t {
  kOk,
  kRefused,    // 429, or 503 with Retry-After: the server is overloaded.
  kFailed,     // Any other status except 2xx, no connection, invalid HTTP, or an error within the stream.
  kTruncated,  // The stream ended without [DONE] and without a finish reason, or the body was incomplete.
  kTimedOut,
  kCancelled,  // Cancelled by the generator because the run ended.
};
inline constexpr std::size_t kOutcomes = 6;
[[nodiscard]] std::string_view name_of(Outcome outcome);  // Returns "ok", "timed out", ….

// Times are relative to the start of the run.
struct RequestRecord {
  core::Duration intended{}, sent{}, end{};
  std::optional<core::Duration> first_byte, first_token, last_token;
  core::Duration max_gap{};
  std::uint32_t text_events = 0;
  // From the usage if the server reports it, otherwise the number of events with text.
  std::uint32_t tokens = 0;
  std::uint32_t prompt_tokens = 0, cached_tokens = 0;  // From the usage; 0 without it.
  Outcome outcome = Outcome::kOk;
  std::string reason;  // Reason of a failure, identical for the same cause; empty for kOk.

  // Relative to the intended start.
  [[nodiscard]] std::optional<core::Duration> ttft() const;
  // Mean gap between tokens; empty with fewer than two.
  [[nodiscard]] std::optional<core::Duration> itl() const;
  [[nodiscard]] core::Duration latency() const { return end - intended; }
};

// Consumes the payload of a response in pieces of any size. Tokens that arrive in one piece have gaps of zero, as the
// client observed them.
class AnswerTimer {
 public:
  AnswerTimer(bool stream, core::Duration intended, core::Duration sent);

  void take_head(int status, bool has_retry_after, core::Duration now);
  struct Tokens {
    std::uint32_t count = 0;  // Text events that ended in this piece.
    // Gap since the previous token; empty for the first one. The other tokens of the piece have a gap of zero.
    std::optional<core::Duration> gap{};
  };
  Tokens take_body(std::string_view payload, core::Duration now);
  void end(core::Duration now);  // The body is complete.
  void fault(net::ClientFault fault, core::Duration now);
  void give_up(Outcome outcome, core::Duration now);

  // Final after end(), fault() or give_up().
  [[nodiscard]] const RequestRecord& record() const { return record_; }

 private:
  void close(Outcome outcome, std::string reason, core::Duration now);

  bool stream_;
  bool has_retry_after_ = false;
  int status_ = 0;
  api::AnswerWatch watch_;
  RequestRecord record_;
};

}  // namespace penstock::load
