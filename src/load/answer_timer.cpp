#include "load/answer_timer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/enum_names.h"

namespace penstock::load {
namespace {

constexpr bool is_good(int status) { return status >= 200 && status < 300; }

// A quote within generated text is escaped, so generated text never matches these markers.
bool has_finish_reason(std::string_view bytes) {
  return bytes.find(R"("finish_reason":")") != std::string_view::npos ||
         bytes.find(R"("finish_reason": ")") != std::string_view::npos;
}
bool has_error_event(std::string_view bytes) {
  return bytes.find(R"(data: {"error":)") != std::string_view::npos ||
         bytes.find(R"(data:{"error":)") != std::string_view::npos;
}
bool names_choices(std::string_view bytes) { return bytes.find(R"("choices")") != std::string_view::npos; }

}  // namespace

std::string_view name_of(Outcome outcome) {
  return core::name_of<Outcome::kCancelled>(outcome,
                                            {"ok", "refused", "failed", "truncated", "timed out", "cancelled"});
}

std::optional<core::Duration> RequestRecord::ttft() const {
  if (!first_token) return std::nullopt;
  return *first_token - intended;
}

std::optional<core::Duration> RequestRecord::itl() const {
  if (tokens < 2 || !first_token || text_events < 2) return std::nullopt;
  return (*last_token - *first_token) / (tokens - 1);
}

AnswerTimer::AnswerTimer(bool stream, core::Duration intended, core::Duration sent) : stream_{stream} {
  watch_.reset(stream);
  record_.intended = intended;
  record_.sent = sent;
}

void AnswerTimer::take_head(int status, bool has_retry_after, core::Duration now) {
  status_ = status;
  has_retry_after_ = has_retry_after;
  record_.first_byte = now;
}

AnswerTimer::Tokens AnswerTimer::take_body(std::string_view payload, core::Duration now) {
  look_for_end(payload);
  Tokens tokens;
  tokens.count = watch_.take(payload);
  if (tokens.count == 0) return tokens;
  if (record_.last_token) {
    tokens.gap = now - *record_.last_token;
    record_.max_gap = std::max(record_.max_gap, *tokens.gap);
  } else {
    record_.first_token = now;
  }
  record_.last_token = now;
  return tokens;
}

void AnswerTimer::look_for_end(std::string_view payload) {
  const auto look = [this](std::string_view bytes) {
    if (stream_) {
      has_finish_ = has_finish_ || has_finish_reason(bytes);
      has_error_ = has_error_ || has_error_event(bytes);
    } else {
      has_choices_ = has_choices_ || names_choices(bytes);
    }
  };
  std::array<char, 2 * kTailBytes> seam;
  const std::size_t head_size = std::min(payload.size(), kTailBytes);
  std::copy_n(tail_.begin(), tail_size_, seam.begin());
  std::copy_n(payload.begin(), head_size, seam.begin() + tail_size_);
  const std::size_t seam_size = tail_size_ + head_size;
  look({seam.data(), seam_size});
  if (payload.size() >= kTailBytes) {
    look(payload);
    std::copy_n(payload.end() - kTailBytes, kTailBytes, tail_.begin());
    tail_size_ = kTailBytes;
    return;
  }
  tail_size_ = static_cast<std::uint8_t>(std::min(seam_size, kTailBytes));
  std::copy_n(seam.data() + seam_size - tail_size_, tail_size_, tail_.begin());
}

void AnswerTimer::close(Outcome outcome, std::string reason, core::Duration now) {
  record_.outcome = outcome;
  record_.reason = std::move(reason);
  record_.end = now;
  record_.text_events = watch_.text_events();
  record_.tokens = watch_.text_events();
  if (const auto& usage = watch_.usage()) {
    record_.tokens = usage->completion_tokens;
    record_.prompt_tokens = usage->prompt_tokens;
    record_.cached_tokens = usage->cached_tokens;
  }
}

void AnswerTimer::end(core::Duration now) {
  if (!is_good(status_)) {
    const bool refused = status_ == 429 || (status_ == 503 && has_retry_after_);
    return close(refused ? Outcome::kRefused : Outcome::kFailed, fmt::format("status {}", status_), now);
  }
  if (has_error_) return close(Outcome::kFailed, "error within the stream", now);
  if (stream_ && !watch_.done() && !has_finish_)
    return close(Outcome::kTruncated, "stream without [DONE] or finish_reason", now);
  const bool has_answer = stream_ ? watch_.text_events() > 0 : has_choices_;
  if (!has_answer && !watch_.usage()) return close(Outcome::kFailed, "answer without text or usage", now);
  close(Outcome::kOk, {}, now);
}

void AnswerTimer::fault(net::ClientFault fault, core::Duration now) {
  // A stream that ended with [DONE] is complete, even if the connection fails afterwards.
  if (fault == net::ClientFault::kClosed && stream_ && is_good(status_) && watch_.done()) return end(now);
  const bool cut = fault == net::ClientFault::kClosed && is_good(status_);
  if (cut) return close(Outcome::kTruncated, "connection closed within the answer", now);
  close(fault == net::ClientFault::kTimeout ? Outcome::kTimedOut : Outcome::kFailed, net::to_string(fault), now);
}

void AnswerTimer::give_up(Outcome outcome, core::Duration now) {
  std::string reason;
  if (outcome == Outcome::kTimedOut)
    reason = !record_.first_byte    ? "no answer in time"
             : !record_.first_token ? "no token in time"
                                    : "answer not whole in time";
  close(outcome, std::move(reason), now);
}

}  // namespace penstock::load
