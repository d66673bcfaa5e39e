#include "gateway/refusal.h"

#include <iterator>
#include <utility>

#include "api/message_answer.h"
#include "core/result.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

using dispatch::RefusalReason;

struct Row {
  RefusalReason reason;
  int status;
  std::string_view type;
  const char* param;
};
// The error code is the name of the reason.
constexpr Row kRows[] = {
    {RefusalReason::kModelNotFound, 404, "invalid_request_error", "model"},
    {RefusalReason::kContextLengthExceeded, 400, "invalid_request_error", "messages"},
    {RefusalReason::kTokenBudgetExceeded, 429, "rate_limit_error", ""},
    {RefusalReason::kTooManyRequests, 429, "rate_limit_error", ""},
    {RefusalReason::kQueueFull, 503, "overloaded_error", ""},
    {RefusalReason::kQueueTimeout, 503, "overloaded_error", ""},
    {RefusalReason::kEnginesFull, 503, "overloaded_error", ""},
    {RefusalReason::kNoReplica, 503, "overloaded_error", ""},
    {RefusalReason::kDropped, 503, "overloaded_error", ""},
};
static_assert(std::size(kRows) == dispatch::kRefusalReasons);

}  // namespace

Refusal make_refusal(int status, std::string_view type, std::string_view code, std::string message, std::string param) {
  return {{status, type, code, std::move(message), std::move(param)}, 0, false};
}

Refusal unauthenticated() {
  return make_refusal(401, "authentication_error", "invalid_api_key",
                      "the request has no valid API key; send a key of this gateway as \"Authorization: Bearer KEY\" "
                      "or \"x-api-key: KEY\"");
}

Refusal retry_soon(Refusal refusal) {
  refusal.retry_after_s = 1;
  return refusal;
}

Refusal memory_refusal() {
  return retry_soon(make_refusal(503, "overloaded_error", "memory",
                                 "the memory of the gateway for requests is used up; retry later"));
}

Refusal stopping_refusal() {
  return retry_soon(make_refusal(503, "api_error", "gateway_stops", "the gateway stops; send the request again"));
}

Refusal make_refusal(dispatch::Refusal refusal) {
  const Row& row = kRows[static_cast<std::size_t>(refusal.reason)];
  PENSTOCK_ASSERT(row.reason == refusal.reason, "the rows are in the order of the reasons");
  Refusal made =
      make_refusal(row.status, row.type, dispatch::to_string(refusal.reason), std::move(refusal.message), row.param);
  made.retry_after_s = refusal.retry_after_s;
  made.counted = true;
  made.rate_limits = refusal.rate_limits;
  return made;
}

void RefusalCounts::count(const Refusal& refusal) {
  if (refusal.counted) return;
  const std::scoped_lock lock{mutex_};
  if (const auto known = counts_.find(refusal.error.code); known != counts_.end())
    ++known->second;
  else
    counts_.emplace(refusal.error.code, 1);
}

void RefusalCounts::add_to(std::map<std::string, std::uint64_t>& totals) const {
  const std::scoped_lock lock{mutex_};
  for (const auto& [code, count] : counts_) totals[code] += count;
}

std::vector<std::pair<std::string, std::string>> refusal_fields(const Refusal& refusal) {
  std::vector<std::pair<std::string, std::string>> fields;
  const bool is_429 = refusal.error.status == 429;
  if (refusal.retry_after_s > 0) fields.emplace_back("Retry-After", std::to_string(refusal.retry_after_s));
  // Without it, OpenAI's clients repeat a request that got 429.
  if (is_429 && refusal.retry_after_s == 0) fields.emplace_back("x-should-retry", "false");
  if (is_429) append_rate_limits(fields, refusal.rate_limits);
  return fields;
}

void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id) {
  const auto own = refusal_fields(refusal);
  std::vector<net::Field> fields{{"Content-Type", "application/json"}, {"x-request-id", request_id}};
  for (const auto& [name, value] : own) fields.push_back({name, value});
  if (refusal.error.status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  exchange.respond(refusal.error.status, fields, api::error_body_at(exchange.head().path(), refusal.error));
}

}  // namespace penstock::gateway
