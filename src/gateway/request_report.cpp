#include "gateway/request_report.h"

#include <limits>

#include "core/enum_names.h"

namespace penstock::gateway {
namespace {

double ms_between(core::Instant from, core::Instant to) {
  return to == core::kNever ? std::numeric_limits<double>::quiet_NaN() : core::to_milliseconds(to - from);
}

}  // namespace

std::string_view to_string(Phase phase) {
  return core::name_of<Phase::kFinishing>(
      phase, {"idle", "reading", "admitting", "truncating", "counting", "queued", "routing", "prefilling", "connecting",
              "awaiting_first_byte", "relaying", "collecting", "finishing_event", "finishing"});
}

void RequestReport::begin(std::string_view request_id, core::Instant received_at) {
  request_id_ = request_id;
  route_ = outcome_ = {};
  tenant_.reset();
  received_at_ = received_at;
  latencies_ = nullptr;
  granted_at_ = first_token_at_ = last_token_at_ = core::kNever;
  attempts_ = prompt_tokens_ = truncated_tokens_ = 0;
  status_ = 0;
  if (context_.logs.access == nullptr) return;
  model_.clear();
  replica_.clear();
}

void RequestReport::read(const ReadRequest& request) {
  tenant_ = request.tenant;
  traffic_class_ = request.info.traffic_class;
  route_ = request.info.route;
  if (context_.logs.access != nullptr) model_ = request.info.model;
}

void RequestReport::admitted(const dispatch::RequestInfo& info, bool moved_to_batch) {
  if (moved_to_batch) traffic_class_ = admission::Class::kBatch;
  latencies_ = &context_.latencies.row(info.model, admission::to_string(traffic_class_));
}

void RequestReport::stream_tokens(std::uint32_t count) {
  const core::Instant now = context_.loop.now();
  first_token();
  if (last_token_at_ == core::kNever)
    latencies_->add(Latency::kTtft, now - received_at_);
  else
    latencies_->add(Latency::kItl, now - last_token_at_);
  if (count > 1) latencies_->add(Latency::kItl, core::Duration{}, count - 1);
  last_token_at_ = now;
}

void RequestReport::granted(const RoutedGrant& grant) {
  ++attempts_;
  prompt_tokens_ = grant.prompt_tokens;
  truncated_tokens_ = grant.truncated_prompt_tokens;
  if (granted_at_ == core::kNever) {
    granted_at_ = context_.loop.now();
    latencies_->add(Latency::kQueue, granted_at_ - received_at_);
  }
  if (context_.logs.access != nullptr) replica_ = grant.target->id;
}

std::string_view RequestReport::tenant() const {
  return tenant_ ? std::string_view{context_.settings->options.dispatch.tenants[*tenant_].name} : std::string_view{};
}

void RequestReport::phase(Phase from, Phase to) const {
  context_.logs.log.write(logging::Event::kRequestPhase,
                          {{"request_id", request_id_}, {"from", to_string(from)}, {"to", to_string(to)}});
}

void RequestReport::retried(const Target& failed, std::string_view cause, const Target& next) const {
  context_.logs.log.write(logging::Event::kRetry, {{"request_id", request_id_},
                                                   {"replica", failed.id},
                                                   {"cause", cause},
                                                   {"attempt", attempts_},
                                                   {"next_replica", next.id}});
}

void RequestReport::refused(const Refusal& refusal) {
  if (outcome_.empty()) {
    outcome_ = "refused";
    context_.refusal_counts.count(refusal);
  }
  status_ = refusal.error.status;
  logging::Log& log = context_.logs.log;
  if (!log.takes(logging::Event::kRefusal)) return;
  const auto suppressed = context_.refusals.pass(refusal.error.code, tenant(), context_.loop.now());
  if (!suppressed) return;
  log.write(logging::Event::kRefusal, {{"code", refusal.error.code},
                                       {"status", refusal.error.status},
                                       {"tenant", tenant()},
                                       {"request_id", request_id_},
                                       {"suppressed", *suppressed}});
}

void RequestReport::broke_off(const Target& replica, std::string_view cause) const {
  context_.logs.log.write(
      logging::Event::kRequestFailed,
      {{"request_id", request_id_}, {"tenant", tenant()}, {"replica", replica.id}, {"cause", cause}});
}

void RequestReport::close(const std::optional<api::Usage>& usage, std::uint32_t output_events) const {
  if (latencies_ != nullptr && outcome_ == ledger::to_string(ledger::Outcome::kCompleted)) {
    latencies_->add(Latency::kE2e, context_.loop.now() - received_at_);
    const std::uint32_t tokens = usage ? usage->completion_tokens : output_events;
    if (last_token_at_ != core::kNever && tokens > 1)
      latencies_->add(Latency::kTpot, (last_token_at_ - first_token_at_) / (tokens - 1));
  }
  logging::Log* const log = context_.logs.access;
  if (log == nullptr) return;
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  log->write(logging::Event::kAccess,
             {{"request_id", request_id_},
              {"tenant", tenant()},
              {"model", model_},
              {"class", tenant_ ? admission::to_string(traffic_class_) : ""},
              {"path", route_},
              {"status", status_},
              {"outcome", outcome_},
              {"replica", replica_},
              {"attempts", attempts_},
              {"queue_ms", ms_between(received_at_, granted_at_)},
              {"ttft_ms", ms_between(received_at_, first_token_at_)},
              {"tokens_in", usage ? usage->prompt_tokens : prompt_tokens_},
              {"tokens_cached", usage && usage->cached_known ? static_cast<double>(usage->cached_tokens) : unknown},
              {"tokens_truncated", truncated_tokens_},
              {"tokens_out", usage ? usage->completion_tokens : output_events},
              {"duration_ms", ms_between(received_at_, context_.loop.now())}});
}

}  // namespace penstock::gateway
