// One answer as it comes in: when what came, how much it was, and how it ended.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "core/time.h"
#include "load/request_shape.h"
#include "net/client.h"

namespace penstock::load {

enum class Outcome : std::uint8_t {
  kOk,
  kRefused,    // 429, or 503 with Retry-After: the server said that it is full
  kFailed,     // any other status but 2xx, no connection, no HTTP, an error within the stream
  kTruncated,  // ended without [DONE] and without a reason to finish, or before the body was whole
  kTimedOut,
  kCancelled,  // by us, because the run was ended
};
inline constexpr std::size_t kOutcomes = 6;
[[nodiscard]] std::string_view name_of(Outcome outcome);  // "ok", "timed out", …

// Times count from the start of the run.
struct RequestRecord {
  core::Duration intended{}, sent{}, end{};
  std::optional<core::Duration> first_byte, first_token, last_token;
  core::Duration max_gap{};
  std::uint32_t text_events = 0;
  std::uint32_t tokens = 0;  // of the usage where the server tells it, else the events that brought text
  std::uint32_t cached_tokens = 0;
  Outcome outcome = Outcome::kOk;
  std::string reason;  // why it is not ok, the same words for the same cause; empty if it is

  // From the intended start.
  [[nodiscard]] std::optional<core::Duration> ttft() const;
  // Mean gap between tokens; none with fewer than two.
  [[nodiscard]] std::optional<core::Duration> itl() const;
  [[nodiscard]] core::Duration latency() const { return end - intended; }
};

// Takes the payload of an answer in pieces of any size. Tokens that arrive in one piece have gaps of zero: that is what the
// client saw.
class AnswerTimer {
 public:
  AnswerTimer(bool stream, core::Duration intended, core::Duration sent);

  void take_head(int status, bool has_retry_after, core::Duration now);
  struct Tokens {
    std::uint32_t count = 0;              // text events that ended in this piece
    std::optional<core::Duration> gap{};  // since the one before it; none for the first. All others of the piece: zero
  };
  Tokens take_body(std::string_view payload, core::Duration now);
  void end(core::Duration now);  // the body was whole
  void fault(net::ClientFault fault, core::Duration now);
  void give_up(Outcome outcome, core::Duration now);

  [[nodiscard]] const RequestRecord& record() const { return record_; }  // whole after one of the last three

 private:
  void look_for_end(std::string_view payload);
  void close(Outcome outcome, std::string reason, core::Duration now);

  static constexpr std::size_t kTailBytes = 32;  // longer than each mark that is looked for

  bool stream_;
  bool has_finish_ = false, has_error_ = false, has_choices_ = false, has_retry_after_ = false;
  int status_ = 0;
  std::uint8_t tail_size_ = 0;
  std::array<char, kTailBytes> tail_{};  // the last bytes of what came, for marks that are cut in two
  api::AnswerWatch watch_;
  RequestRecord record_;
};

}  // namespace penstock::load
