// Answers that are not streamed, under a time budget: the replica's stream becomes one document, complete or cut.
#include <algorithm>
#include <utility>

#include "gateway/request_handler.h"

namespace penstock::gateway {

void RequestHandler::collect(std::string_view bytes) {
  const bool first = watch_.text_events() == 0;
  if (watch_.take(bytes) > 0) {
    last_token_at_ = context_.loop.now();
    if (first) {
      enter(Phase::kCollecting);
      call_.begun();
      report_.first_token();
      context_.dispatcher.answered(ticket_, last_token_at_);
    }
  }
  collector_->take(bytes);
  if (collector_->full()) out_of_time();
}

void RequestHandler::end_collected() {
  const std::string error = collector_->error();
  if (!collector_->whole() && error.empty()) return fail("the answer ended before it was whole");
  const int status = error.empty() ? 200 : collector_->error_status();
  const auto attempt = is_replica_failure(status) ? dispatch::Attempt::kFaulted : dispatch::Attempt::kAnswered;
  if (attempt == dispatch::Attempt::kFaulted && retry(attempt, "server error")) return;
  end_attempt(attempt, Phase::kFinishing);
  if (error.empty()) return answer_collected(ledger::Outcome::kCompleted);
  report_.answered(status);
  end(outcome_of_error(status, watch_));
  const std::string id = ids_.own;
  const std::vector<net::Field> fields{{"Content-Type", "application/json"}, {"x-request-id", id}};
  release().respond(status, fields, error);
}

void RequestHandler::answer_collected(ledger::Outcome outcome) {
  const std::string body =
      collector_->document(ids_.own, grant_.target->model, {grant_.prompt_tokens, watch_.text_events(), 0});
  const AnswerRelay relay = std::move(relay_);
  const std::vector<net::Field> fields = relay.json_fields();
  report_.answered(200);
  end(outcome);
  release().respond(200, fields, body);
}

}  // namespace penstock::gateway
