// Judges how the answer of a replica ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "api/answer_watch.h"
#include "api/endpoints.h"
#include "dispatch/request.h"
#include "net/http.h"

namespace penstock::gateway {

enum class AnswerKind : std::uint8_t { kOther, kEvents, kJson };

// `stream` is whether the client requested a stream, `collects` whether the gateway did.
[[nodiscard]] AnswerKind kind_of(const net::ResponseHead& head, bool stream, bool collects);

struct AnswerEnd {
  ledger::Outcome outcome = ledger::Outcome::kCompleted;
  dispatch::Attempt attempt = dispatch::Attempt::kAnswered;
  std::string_view cause{};
};

// Whether an error of this status is the replica's fault: 5xx other than 501 and 505. Those two refuse the request, as
// 4xx do: vLLM answers 501 to a request for something that it does not implement.
[[nodiscard]] constexpr bool is_replica_failure(int status) { return status >= 500 && status != 501 && status != 505; }

// Whether an error of this status says that the request is invalid, so that no replica can answer it and more replicas
// do not help. A replica that wants other credentials, or that waited for the rest of the request, says nothing of it.
[[nodiscard]] constexpr bool is_rejection(int status) {
  if (status == 401 || status == 403 || status == 407 || status == 408 || status == 429) return false;
  return (status >= 400 && status < 500) || status == 501 || status == 505;
}

// Of an answer that is an error of this status, or ended with one: kRejected, or kFailed.
[[nodiscard]] ledger::Outcome outcome_of_error(int status, const api::AnswerWatch& watch);

// Of an answer whose framing is whole.
[[nodiscard]] AnswerEnd end_of_answer(int status, AnswerKind kind, const api::AnswerWatch& watch);

// Events that end a stream which the gateway cuts behind an event: a finish reason for each of its `choices` that has
// none, and [DONE]; of a message the end of its block, its stop reason and message_stop. `frame` serves where no event
// with text has one. Nothing if a valid end cannot be made up: for /v1/responses, and for more than api::kChoicesKnown
// choices.
[[nodiscard]] std::optional<std::string> cut_end(const api::AnswerWatch& watch, api::Endpoint endpoint,
                                                 api::AnswerFrame frame, std::uint64_t choices);
// The event that tells the client of a stream that the rest of it is missing; empty for /v1/responses.
[[nodiscard]] std::string truncated_event(api::Endpoint endpoint);

[[nodiscard]] std::optional<dispatch::TokenUsage> usage_of(const api::AnswerWatch& watch);
[[nodiscard]] dispatch::SeenOutput seen_output(const api::AnswerWatch& watch);
// Without what only the caller knows: attempt and times.
[[nodiscard]] dispatch::RequestOutcome outcome_of(ledger::Outcome outcome, const api::AnswerWatch& watch);

// The client of a stream knows that nothing follows.
[[nodiscard]] inline bool has_end(const api::AnswerWatch& watch) { return watch.whole() || watch.error_status() != 0; }

}  // namespace penstock::gateway
