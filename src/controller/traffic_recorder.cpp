#include "controller/traffic_recorder.h"

#include <algorithm>
#include <utility>

#include "core/traffic_class.h"

namespace penstock::controller {
namespace {

constexpr std::size_t kBlocksMax = 4'000'000;
constexpr std::size_t kTenantsMax = 4096;
constexpr std::size_t kRoutesMax = 64;
constexpr std::size_t kModelsMax = 1000;
constexpr std::size_t kGatewaysMax = 256;
constexpr double kWindowMaxS = 86'400.0;
constexpr double kAgeMaxS = 86'400.0;
constexpr std::size_t kReplicasMax = 10'000;
constexpr core::Duration kMeterMemory = std::chrono::seconds{50};

bool counts(core::Instant at) { return at >= core::kStart; }

bool has_failed(const TrafficItem& end) {
  return end.outcome == "failed" || end.outcome == "truncated" || end.outcome == "lost";
}

}  // namespace

TrafficRecorder::TrafficRecorder(const TrafficOptions& options) : options_(options), decode_(options.slo.target.ttft) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options.pools.size()); ++i)
    entries_.emplace_back(options.slo.target.ttft);
}

TrafficRecorder::PoolTraffic& TrafficRecorder::traffic_of(const Remembered* request) {
  return request == nullptr ? entries_.back() : entries_[request->shape.pool];
}

void TrafficRecorder::take(const TrafficPage& page, core::Instant received_at) {
  if (knows_gateway(page.boot)) lost_ += page.lost;
  received_at_ = received_at;
  for (const TrafficItem& item : page.items) {
    // An event is never later than its page. What a gateway tells of the time before our start is remembered, so that
    // plans are made for it, but not counted: it would be the traffic of one moment.
    const core::Instant at = received_at - core::from_seconds(std::clamp(page.now_s - item.at_s, 0.0, kAgeMaxS));
    switch (item.kind) {
      case TrafficItem::Kind::kArrival: arrived(item, at); break;
      case TrafficItem::Kind::kFirstToken: first_token(item, at); break;
      case TrafficItem::Kind::kEnd: ended(item, at); break;
    }
  }
  forget(received_at);
}

bool TrafficRecorder::knows_gateway(const std::string& boot) {
  const auto known = std::find(boots_.begin(), boots_.end(), boot);
  const bool is_known = known != boots_.end();
  boot_ = first_boot_ + static_cast<std::uint32_t>(known - boots_.begin());
  if (is_known) return true;
  boots_.push_back(boot);
  if (boots_.size() > kGatewaysMax) {
    boots_.pop_front();
    ++first_boot_;
  }
  return false;
}

// A meter overwrites slices that are older than its window. An older time would overwrite a newer slice.
core::Instant TrafficRecorder::metered(core::Instant at) {
  newest_ = std::max(newest_, at);
  return std::max(at, newest_ - kMeterMemory);
}

TrafficRecorder::Remembered* TrafficRecorder::find(std::uint64_t request) {
  const auto found = serials_.find({boot_, request});
  if (found == serials_.end() || found->second < first_serial_) return nullptr;
  return &requests_[static_cast<std::size_t>(found->second - first_serial_)];
}

std::uint32_t TrafficRecorder::tenant_number(const std::string& tenant) {
  const auto known = std::find(tenants_.begin(), tenants_.end(), tenant);
  if (known == tenants_.end() && tenants_.size() < kTenantsMax) {
    tenants_.push_back(tenant);
    return static_cast<std::uint32_t>(tenants_.size() - 1);
  }
  return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(known - tenants_.begin(), kTenantsMax - 1));
}

std::string_view TrafficRecorder::route_named(const std::string& route) {
  if (const auto known = routes_.find(route); known != routes_.end()) return *known;
  return routes_.size() < kRoutesMax ? std::string_view{*routes_.insert(route).first} : std::string_view{};
}

std::string_view TrafficRecorder::model_named(const std::string& model) {
  if (const auto known = models_.find(model); known != models_.end()) return *known;
  return models_.size() < kModelsMax ? std::string_view{*models_.insert(model).first} : std::string_view{"other"};
}

std::vector<decision::TenantTokens> TrafficRecorder::take_tokens() {
  std::vector<decision::TenantTokens> taken;
  for (auto& [name, tokens] : std::exchange(tokens_, {})) taken.push_back(tokens);
  return taken;
}

std::uint32_t TrafficRecorder::block_number(std::uint64_t key) {
  // Earlier numbers may then mean other prefixes: a trial has a few hits less.
  if (blocks_.size() >= kBlocksMax) blocks_.clear();
  const auto [at, fresh] = blocks_.try_emplace(key, next_block_);
  if (fresh) ++next_block_;
  return at->second;
}

void TrafficRecorder::arrived(const TrafficItem& item, core::Instant at) {
  if (!options_.model.empty() && item.model != options_.model) return;
  Remembered request;
  request.shape.arrival = at;
  request.shape.input_tokens = std::max(1U, item.input_tokens);
  request.shape.streamed = item.streamed;
  request.shape.expected_output_tokens = item.expected_output_tokens;
  request.shape.completion_window = core::from_seconds(std::clamp(item.completion_window_s, 0.0, kWindowMaxS));
  const signals::SloTraits traits{item.model, item.traffic_class, item.tenant, item.input_tokens};
  request.shape.target = signals::target_index(options_.slo.segments, traits);
  request.shape.pool = static_cast<std::uint8_t>(
      std::min<std::size_t>(signals::first_match(options_.pools, traits), entries_.size() - 1));
  for (const std::uint64_t key : item.keys) request.blocks.push_back(block_number(key));
  request.shape.tenant = tenant_number(item.tenant);
  request.batch = item.traffic_class == core::kBatchClass;
  request.route = route_named(item.route);
  request.model = model_named(item.model);
  serials_[{boot_, item.request}] = first_serial_ + requests_.size();
  numbers_.emplace_back(boot_, item.request);
  requests_.push_back(std::move(request));
  if (counts(at)) traffic_of(&requests_.back()).meter.arrived(metered(at), item.input_tokens);
}

void TrafficRecorder::first_token(const TrafficItem& item, core::Instant at) {
  Remembered* known = find(item.request);
  if (known == nullptr) return;
  known->answered = true;
  known->cached_tokens = item.cached_tokens;
  known->shape.ttft_ms = static_cast<float>(item.ttft_ms);
  const bool may_defer = known->shape.completion_window > core::Duration{};
  if (may_defer) known->shape.deferred_ms = static_cast<float>(item.own_limit_ms);
  if (!counts(at)) return;
  at = metered(at);
  signals::FirstTokenTimes times;
  if (!may_defer) times.admission = core::from_milliseconds(item.own_limit_ms);
  times.replica_wait = core::from_milliseconds(item.admission_ms);
  const double at_replicas_ms = std::max(0.0, item.ttft_ms - item.admission_ms);
  const double transfer_ms = std::clamp(item.transfer_ms, 0.0, at_replicas_ms);
  times.transfer = core::from_milliseconds(transfer_ms);
  // The gateway does not see when an engine schedules a request.
  times.prefill = core::from_milliseconds(at_replicas_ms - transfer_ms);
  times.limit = options_.slo.target_at(known->shape.target).ttft;
  traffic_of(known).meter.first_token(at, item.ttft_ms, known->traits(), times);
  if (options_.disaggregated) decode_.arrived(at, known->shape.input_tokens);
}

void TrafficRecorder::ended(const TrafficItem& item, core::Instant at) {
  Remembered* known = find(item.request);
  // The request was for another model, or arrived before the first page.
  if (!options_.model.empty() && known == nullptr) return;
  PoolTraffic& traffic = traffic_of(known);
  const auto counted_at = counts(at) ? std::optional{metered(at)} : std::nullopt;
  if (item.outcome == "refused" && counted_at) traffic.shed.arrived(*counted_at, 0);
  // An invalid request is no load and says nothing about the fleet.
  if (item.outcome == "rejected") {
    if (known == nullptr || std::exchange(known->rejected, true)) return;
    if (counts(known->shape.arrival)) traffic.meter.withdrawn(metered(known->shape.arrival), known->shape.input_tokens);
    return;
  }
  if (item.outcome == "completed") ++ends_.completed;
  if (item.outcome == "cancelled") ++ends_.cancelled;
  if (item.outcome == "timed_out") ++ends_.timed_out;
  if (has_failed(item)) ++(item.outcome == "truncated" || item.output_tokens > 0 ? ends_.truncated : ends_.failed);
  if (known != nullptr) remember_end(item, at, *known);
  if (counted_at) count_end(item, *counted_at, traffic, known);
  if (counted_at && known != nullptr) judge(item, at, *known);
}

void TrafficRecorder::remember_end(const TrafficItem& item, core::Instant at, Remembered& known) {
  signals::RecentRequest& shape = known.shape;
  const bool left = item.outcome == "cancelled" || item.outcome == "timed_out";
  if (item.outcome != "completed") {
    shape.end = left ? signals::RequestEnd::kCancelled : signals::RequestEnd::kFailed;
    return;
  }
  shape.output_tokens = std::max(1U, item.output_tokens);
  shape.itl_ms = static_cast<float>(item.itl_ms);
  shape.e2e_ms = static_cast<float>(core::to_milliseconds(at - shape.arrival)) - shape.deferred_ms;
  if (item.prompt_tokens > 0) shape.input_tokens = item.prompt_tokens;
}

void TrafficRecorder::count_end(const TrafficItem& item, core::Instant at, PoolTraffic& traffic,
                                const Remembered* known) {
  traffic.output.ended(item.output_tokens, at);
  if (options_.disaggregated) decode_output_.ended(item.output_tokens, at);
  if (has_failed(item)) {
    traffic.meter.failed(at);
    if (options_.disaggregated) decode_.failed(at);
  }
  if (known == nullptr || item.outcome != "completed") return;
  signals::CompletionTimes times{.e2e_ms = static_cast<double>(known->shape.e2e_ms)};
  if (known->answered) times.ttft_ms = static_cast<double>(known->shape.ttft_ms);
  if (item.itl_ms >= 0.0) {
    times.itl_ms = item.itl_ms;
    add_gaps(item);
  }
  times.slow_client = item.itl_ms < 0.0 && item.client_ms > 0.0;
  traffic.meter.completed(at, known->traits(), item.output_tokens, times);
  if (options_.disaggregated) decode_.completed(at, known->traits(), item.output_tokens, times);
}

void TrafficRecorder::judge(const TrafficItem& item, core::Instant at, const Remembered& known) {
  // An answer that is not streamed has no TTFT and no ITL: only its end can be judged. Requests of clients that left
  // are not judged.
  const signals::SloTarget& target = options_.slo.target_at(known.shape.target);
  const bool failed = has_failed(item);
  bool missed = false;
  if (failed || (item.outcome == "completed" && (known.answered || target.e2e))) {
    ++judged_;
    const bool first_in_time =
        !known.answered || static_cast<double>(known.shape.ttft_ms) <= core::to_milliseconds(target.ttft);
    const bool gaps_in_time = !known.answered || item.itl_ms <= core::to_milliseconds(target.itl);
    const bool end_in_time =
        !target.e2e || static_cast<double>(known.shape.e2e_ms) <= core::to_milliseconds(*target.e2e);
    missed = failed || !first_in_time || !gaps_in_time || !end_in_time;
    if (!missed) ++met_;
    if (!failed && first_in_time) ++ttft_met_;
    if (!failed && gaps_in_time) ++itl_met_;
  }
  if (item.outcome != "completed" || at <= options_.tokens_from) return;
  const std::string &tenant = tenants_[known.shape.tenant], model{known.model};
  decision::TenantTokens& tokens =
      tokens_.try_emplace({tenant, model}, decision::TenantTokens{tenant, model}).first->second;
  const decision::TokenCount own{known.shape.input_tokens, item.output_tokens};
  tokens.completed += own;
  if (!missed) tokens.within_slo += own;
}

void TrafficRecorder::add_gaps(const TrafficItem& item) {
  if (item.output_tokens < 2 || item.replica.empty()) return;
  if (gaps_.size() >= kReplicasMax && !gaps_.contains(item.replica)) gaps_.clear();  // Their counters begin again.
  telemetry::HistogramTotals& gaps = gaps_[item.replica];
  gaps.count += item.output_tokens - 1;
  gaps.sum += item.itl_ms / 1000.0 * (item.output_tokens - 1);
}

telemetry::HistogramTotals TrafficRecorder::gaps_of(const std::string& replica) const {
  const auto found = gaps_.find(replica);
  return found == gaps_.end() ? telemetry::HistogramTotals{} : found->second;
}

void TrafficRecorder::forget(core::Instant now) {
  while (!requests_.empty() &&
         (requests_.size() > options_.requests_max || requests_.front().shape.arrival + options_.memory < now)) {
    const auto known = serials_.find(numbers_.front());
    if (known != serials_.end() && known->second == first_serial_) serials_.erase(known);
    requests_.pop_front();
    numbers_.pop_front();
    ++first_serial_;
  }
}

void TrafficRecorder::fill(signals::PoolObservation& pool, const signals::RequestMeter& meter, OutputTokens& output,
                           const std::vector<std::string>& tenants, core::Instant now) {
  meter.read(pool, now, tenants);
  output.observe(pool, now);
  pool.output_tokens_total = output.total();
  pool.last_minute.output_tokens = output.within(pool.last_minute.length, now);
}

void TrafficRecorder::fill(std::vector<signals::PoolObservation>& pools, core::Instant now) {
  std::size_t next = 0;
  for (signals::PoolObservation& pool : pools) {
    if (pool.role == signals::Role::kDecode) {
      fill(pool, decode_, decode_output_, tenants_, now);
      continue;
    }
    if (next == entries_.size()) continue;
    PoolTraffic& traffic = entries_[next++];
    fill(pool, traffic.meter, traffic.output, tenants_, now);
    pool.detail->shed = traffic.shed.window(now).arrivals;
    pool.detail->first_tokens.queue_in_prefill = true;
  }
}

std::span<const signals::RecentRequest> TrafficRecorder::recent(core::Instant from) {
  recent_.clear();
  for (const Remembered& each : requests_) {
    if (each.shape.arrival < from || each.rejected) continue;
    recent_.push_back(each.shape);
    recent_.back().block_ids = each.blocks;
  }
  // Pages list arrivals in the order in which the requests were read; planners rely on the order of time.
  std::stable_sort(recent_.begin(), recent_.end(), [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  return recent_;
}

}  // namespace penstock::controller
