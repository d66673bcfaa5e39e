#include "load/answer_timer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/enum_names.h"

namespace penstock::load {
namespace {

constexpr bool is_good(int status) { return status >= 200 && status < 300; }

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
  if (stream_) take_body("\n", now);  // The last line may lack its end.
  if (watch_.error_status() != 0)
    return close(Outcome::kFailed, stream_ ? "error within the stream" : "error within the answer", now);
  if (stream_ && !watch_.whole()) return close(Outcome::kTruncated, "stream without [DONE] or finish_reason", now);
  if (watch_.malformed() && !stream_) return close(Outcome::kFailed, "answer is not JSON", now);
  if (!watch_.whole()) return close(Outcome::kTruncated, "answer is not a whole JSON document", now);
  const bool has_text = stream_ ? watch_.text_events() > 0 : watch_.text_bytes() > 0;
  if (!has_text && !watch_.usage()) return close(Outcome::kFailed, "answer without text or usage", now);
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
