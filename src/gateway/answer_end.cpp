#include "gateway/answer_end.h"

#include <algorithm>
#include <utility>

#include "api/message_answer.h"

namespace penstock::gateway {

AnswerKind kind_of(const net::ResponseHead& head, bool stream, bool collects) {
  const std::string_view type = head.field("content-type");
  if (head.status < 200 || head.status >= 300) return AnswerKind::kOther;
  if (type.find("json") != std::string_view::npos) return AnswerKind::kJson;
  // Some engines do not name the type of their streams.
  const bool is_events = collects ? type.starts_with("text/event-stream") : stream;
  return is_events ? AnswerKind::kEvents : AnswerKind::kOther;
}

ledger::Outcome outcome_of_error(int status, const api::AnswerWatch& watch) {
  return is_rejection(status) && watch.text_events() == 0 ? ledger::Outcome::kRejected : ledger::Outcome::kFailed;
}

AnswerEnd end_of_answer(int status, AnswerKind kind, const api::AnswerWatch& watch) {
  using dispatch::Attempt;
  using ledger::Outcome;
  if (status == 429 || status == 503) return {Outcome::kFailed, Attempt::kBusy, "busy"};
  if (is_replica_failure(status)) return {Outcome::kFailed, Attempt::kFaulted, "server error"};
  if (status >= 400) return {outcome_of_error(status, watch)};
  if (kind == AnswerKind::kOther) return {};
  if (is_replica_failure(watch.error_status())) return {Outcome::kFailed, Attempt::kFaulted, "error within the answer"};
  if (watch.error_status() != 0) return {outcome_of_error(watch.error_status(), watch)};
  if (watch.malformed()) return {Outcome::kFailed, Attempt::kFaulted, "invalid JSON in the answer"};
  if (!watch.whole()) return {Outcome::kTruncated, Attempt::kFaulted, "the answer ended before it was whole"};
  return {};
}

namespace {

std::string cut_message(const api::AnswerWatch& watch) {
  std::string events;
  if (const auto block = watch.open_block()) api::append_block_stop(events, *block);
  // An event has at least one token, and the engine counts only at the end.
  const std::uint32_t reported = watch.usage() ? watch.usage()->completion_tokens : 0;
  if (!watch.has_stop_reason())
    api::append_message_delta(events, {api::FinishReason::kLength}, std::max(reported, watch.text_events()),
                              watch.usage());
  return events.append(api::kMessageStopEvent);
}

}  // namespace

std::optional<std::string> cut_end(const api::AnswerWatch& watch, api::Endpoint endpoint, api::AnswerFrame frame,
                                   std::uint64_t choices) {
  if (endpoint == api::Endpoint::kResponses) return std::nullopt;
  std::string events;
  if (watch.done()) return events;
  if (endpoint == api::Endpoint::kMessages) return cut_message(watch);
  if (choices > api::kChoicesKnown) return std::nullopt;
  frame = watch.frame(std::move(frame));
  frame.chat = endpoint == api::Endpoint::kChatCompletions;
  for (std::uint32_t choice = 0; choice < choices; ++choice)
    if (!watch.has_finished(choice)) api::append_finish_event(events, frame, api::FinishReason::kLength, choice);
  return events.append(api::kDoneEvent);
}

std::string truncated_event(api::Endpoint endpoint) {
  const api::ApiError error{502, "api_error", "truncated", "the replica ended the answer before it was whole", {}};
  if (endpoint == api::Endpoint::kResponses) return {};
  if (endpoint == api::Endpoint::kMessages) return api::message_error_event(error);
  return "data: " + api::error_body(error) + "\n\n";
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

dispatch::RequestOutcome outcome_of(ledger::Outcome outcome, const api::AnswerWatch& watch) {
  dispatch::RequestOutcome ending;
  ending.outcome = outcome;
  ending.usage = usage_of(watch);
  ending.output = seen_output(watch);
  return ending;
}

}  // namespace penstock::gateway
