#include "engine_server/telemetry.h"

#include <algorithm>

#include "connect/zmq/publisher.h"
#include "telemetry/forward_pass.h"

namespace penstock::engine_server {
namespace {

core::Result<std::unique_ptr<connect::Publisher>> bind(const std::string& host, std::uint16_t port, const char* flag) {
  auto publisher = connect::Publisher::bind({.address = host, .port = port});
  if (publisher) return publisher;
  core::Error error = publisher.error();
  if (error.where.empty()) error.where = flag;
  return tl::make_unexpected(std::move(error));
}

// Standard deviation of n numbers from their sum and sum of squares.
double variance(double n, double sum, double squares) {
  return n == 0.0 ? 0.0 : std::max(squares / n - (sum / n) * (sum / n), 0.0);
}

telemetry::QueuedRequests queued_of(const engine::EngineState& state) {
  telemetry::QueuedRequests queued;
  queued.num_prefill_requests = state.waiting - state.preempted;
  queued.sum_prefill_tokens = state.waiting_prefill_tokens;
  queued.var_prefill_length = variance(queued.num_prefill_requests, static_cast<double>(state.waiting_prefill_tokens),
                                       state.waiting_prefill_squared);
  queued.num_decode_requests = state.preempted;
  queued.sum_decode_kv_tokens = state.preempted_kv_tokens;
  return queued;
}

telemetry::ScheduledRequests scheduled_of(const engine::IterationDetail& detail) {
  telemetry::ScheduledRequests scheduled;
  scheduled.num_prefill_requests = detail.shape.prefill_requests;
  scheduled.sum_prefill_tokens = detail.shape.prefill_new_tokens;
  scheduled.var_prefill_length =
      variance(detail.shape.prefill_requests, static_cast<double>(detail.prompt_tokens), detail.prompt_tokens_squared);
  scheduled.sum_prefill_kv_tokens = detail.shape.prefill_context_tokens;
  scheduled.num_decode_requests = detail.decoded;
  scheduled.sum_decode_kv_tokens = detail.decoded_context_tokens;
  scheduled.var_decode_kv_tokens =
      variance(detail.decoded, static_cast<double>(detail.decoded_context_tokens), detail.decoded_context_squared);
  return scheduled;
}

}  // namespace

Telemetry::Telemetry() = default;
Telemetry::Telemetry(Telemetry&&) noexcept = default;
Telemetry::~Telemetry() = default;

core::Result<Telemetry> Telemetry::open(const ServerOptions& options) {
  Telemetry telemetry;
  telemetry.worker_ = options.id;
  if (options.fpm_port) {
    auto bound = bind(options.host, *options.fpm_port, "--fpm-port");
    if (!bound) return tl::make_unexpected(bound.error());
    telemetry.iterations_ = *std::move(bound);
  }
  if (options.kv_events_port) {
    auto bound = bind(options.host, *options.kv_events_port, "--kv-events-port");
    if (!bound) return tl::make_unexpected(bound.error());
    telemetry.events_ = *std::move(bound);
  }
  return telemetry;
}

void Telemetry::iterations(std::span<const IterationRecord> records, double wall_per_time) {
  if (iterations_ == nullptr) return;
  for (const IterationRecord& record : records) {
    telemetry::ForwardPassMetrics message;
    message.worker_id = worker_;
    message.counter_id = ++counter_;
    message.wall_time = core::to_seconds(record.detail.time) * wall_per_time;
    message.scheduled_requests = scheduled_of(record.detail);
    message.queued_requests = queued_of(record.state);
    message.kv_used_tokens = record.detail.shape.active_kv_tokens;
    message.kv_capacity_tokens = record.detail.shape.total_kv_tokens;
    (void)iterations_->send({}, telemetry::encode(message));
  }
}

void Telemetry::heartbeat(const engine::EngineState& state) {
  if (iterations_ == nullptr) return;
  telemetry::ForwardPassMetrics message;
  message.worker_id = worker_;
  message.counter_id = ++counter_;
  message.queued_requests = queued_of(state);
  message.kv_used_tokens = state.active_kv_tokens;
  message.kv_capacity_tokens = state.total_kv_tokens;
  (void)iterations_->send({}, telemetry::encode(message));
}

void Telemetry::cache_events(std::vector<telemetry::KvEvent> events, double unix_seconds) {
  if (events_ == nullptr || events.empty()) return;
  telemetry::KvEventBatch batch;
  batch.ts = unix_seconds;
  batch.events = std::move(events);
  batch.data_parallel_rank = 0;
  (void)events_->send({}, telemetry::encode_batch(batch));
}

std::string Telemetry::fpm_endpoint() const { return iterations_ == nullptr ? std::string{} : iterations_->endpoint(); }
std::string Telemetry::kv_events_endpoint() const { return events_ == nullptr ? std::string{} : events_->endpoint(); }

}  // namespace penstock::engine_server
