#include "gateway/answer_end.h"

namespace penstock::gateway {

AnswerKind kind_of(const net::ResponseHead& head, bool stream, bool collects) {
  const std::string_view type = head.field("content-type");
  if (head.status < 200 || head.status >= 300) return AnswerKind::kOther;
  if (type.find("json") != std::string_view::npos) return AnswerKind::kJson;
  // Some engines do not name the type of their streams.
  const bool is_events = collects ? type.starts_with("text/event-stream") : stream;
  return is_events ? AnswerKind::kEvents : AnswerKind::kOther;
}

AnswerEnd end_of_answer(int status, AnswerKind kind, const api::AnswerWatch& watch) {
  using dispatch::Attempt;
  using ledger::Outcome;
  if (status == 429 || status == 503) return {Outcome::kFailed, Attempt::kBusy, "busy"};
  if (is_replica_failure(status)) return {Outcome::kFailed, Attempt::kFaulted, "server error"};
  if (status >= 400) return {Outcome::kFailed};
  if (kind == AnswerKind::kOther) return {};
  if (is_replica_failure(watch.error_status())) return {Outcome::kFailed, Attempt::kFaulted, "error within the answer"};
  if (watch.error_status() != 0) return {Outcome::kFailed};
  if (watch.malformed()) return {Outcome::kFailed, Attempt::kFaulted, "invalid JSON in the answer"};
  if (!watch.whole()) return {Outcome::kTruncated, Attempt::kFaulted, "the answer ended before it was whole"};
  return {};
}

std::optional<dispatch::TokenUsage> usage_of(const api::AnswerWatch& watch) {
  const std::optional<api::Usage>& usage = watch.usage();
  if (!usage) return std::nullopt;
  return dispatch::TokenUsage{usage->prompt_tokens, usage->completion_tokens, usage->cached_tokens, usage->cached_known,
                              usage->reasoning_tokens};
}

dispatch::SeenOutput seen_output(const api::AnswerWatch& watch) {
  return {watch.text_events(), watch.choice_events(), watch.text_bytes(), watch.whole()};
}

}  // namespace penstock::gateway
