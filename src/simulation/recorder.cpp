#include "simulation/recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"
#include "core/traffic_class.h"
#include "signals/bands.h"
#include "simulation/bursts.h"

namespace penstock::simulation {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOpen: return "open";
    case Outcome::kCompleted: return "completed";
    case Outcome::kTooLarge: return "prompt_exceeds_kv_cache";
    case Outcome::kReplicaCrashed: return "replica_crashed";
    case Outcome::kUnfinished: return "unfinished";
    case Outcome::kRefused: return "refused";
    case Outcome::kCancelled: return "cancelled";
    case Outcome::kTimedOut: return "time_budget_exceeded";
    case Outcome::kReplicaTimeout: return "replica_timeout";
    case Outcome::kGatewayRestarted: return "gateway_restarted";
    case Outcome::kTruncated: return "truncated";
  }
  return "unknown";
}

namespace {

// The target of each request; nothing if there is but the general one.
std::vector<std::uint8_t> targets_of(const workload::Workload& workload, const signals::SloPolicy& slo,
                                     std::string_view model) {
  std::vector<std::uint8_t> targets;
  if (slo.segments.empty()) return targets;
  targets.reserve(workload.requests.size());
  for (const workload::Request& request : workload.requests) {
    const bool batch = request.traffic_class == workload::TrafficClass::kBatch;
    targets.push_back(signals::target_index(
        slo.segments, {model, core::class_name(batch), workload.tenants[request.tenant], request.input_tokens}));
  }
  return targets;
}

}  // namespace

Recorder::Recorder(const workload::Workload& workload, const signals::SloPolicy& slo, std::string_view model,
                   core::Duration point_width)
    : workload_(workload),
      slo_(slo),
      targets_(targets_of(workload, slo, model)),
      point_width_(point_width),
      records_(workload.requests.size()) {
  for (std::size_t i = 0; i <= slo.segments.size(); ++i) {
    const signals::SloTarget& target = slo.target_at(i);
    limits_.push_back({core::to_milliseconds(target.ttft), core::to_milliseconds(target.itl),
                       target.e2e ? core::to_milliseconds(*target.e2e) : std::numeric_limits<double>::infinity()});
  }
}

void Recorder::judge_window(core::Instant from, core::Instant until) {
  window_from_ = from;
  window_until_ = until;
}

void Recorder::arrived(std::uint32_t request) {
  ++arrived_;
  records_[request].arrived = true;
  window_open_ += in_window(request) ? 1 : 0;
  ++point_arrivals_;
  point_input_tokens_ += workload_.requests[request].input_tokens;
}

void Recorder::first_token(std::uint32_t request, core::Instant at, std::uint32_t cached_tokens) {
  Record& record = records_[request];
  record.ttft_ms = static_cast<float>(core::to_milliseconds(at - workload_.requests[request].arrival));
  record.cache_hit = cached_tokens > 0;
  if (keeps_points_ && workload_.requests[request].streamed) point_ttft_ms_.add(static_cast<double>(record.ttft_ms));
}

void Recorder::completed(std::uint32_t request, core::Instant at, std::uint32_t output_tokens) {
  PENSTOCK_ASSERT(records_[request].outcome == Outcome::kOpen, "a request ends once");
  Record& record = records_[request];
  const workload::Request& shape = workload_.requests[request];
  const double e2e_ms = core::to_milliseconds(at - shape.arrival);
  record.e2e_ms = static_cast<float>(e2e_ms);
  if (output_tokens > 1) {
    record.itl_ms =
        static_cast<float>(std::max(0.0, e2e_ms - static_cast<double>(record.ttft_ms)) / (output_tokens - 1));
    if (keeps_points_ && shape.streamed) point_itl_ms_.add(static_cast<double>(record.itl_ms));
  }
  ++point_completed_;
  ended(request, at, Outcome::kCompleted);
  if (!in_window(request)) return;
  const decision::TokenCount own{shape.input_tokens, output_tokens};
  completed_tokens_ += own;
  if (met_all(request)) goodput_tokens_ += own;
}

void Recorder::failed(std::uint32_t request, core::Instant at, Outcome outcome) {
  PENSTOCK_ASSERT(records_[request].outcome == Outcome::kOpen, "a request ends once");
  ended(request, at, outcome);
}

void Recorder::ended(std::uint32_t request, core::Instant at, Outcome outcome) {
  records_[request].outcome = outcome;
  ++by_outcome_[static_cast<std::size_t>(outcome)];
  ++ended_;
  window_open_ -= in_window(request) ? 1 : 0;
  last_end_ = std::max(last_end_, at);
  if (on_end_) on_end_(request, at);
}

bool Recorder::is_judged(std::size_t request) const {
  const Outcome outcome = records_[request].outcome;
  if (outcome == Outcome::kCompleted)
    return workload_.requests[request].streamed || std::isfinite(limits_of(request).e2e_ms);
  return outcome != Outcome::kCancelled;
}

bool Recorder::met_ttft(std::size_t request) const {
  const Record& record = records_[request];
  if (record.outcome != Outcome::kCompleted) return false;
  return !workload_.requests[request].streamed || static_cast<double>(record.ttft_ms) <= limits_of(request).ttft_ms;
}

bool Recorder::met_itl(std::size_t request) const {
  const Record& record = records_[request];
  if (record.outcome != Outcome::kCompleted) return false;
  return !workload_.requests[request].streamed || static_cast<double>(record.itl_ms) <= limits_of(request).itl_ms;
}

bool Recorder::met_all(std::size_t request) const {
  return met_ttft(request) && met_itl(request) &&
         static_cast<double>(records_[request].e2e_ms) <= limits_of(request).e2e_ms;
}

// ---- series ---------------------------------------------------------------------------------------------------------

void Recorder::close_point(core::Instant at, const FleetSnapshot& fleet) {
  const double seconds = core::to_seconds(at - point_start_);
  if (seconds <= 0.0) return;
  decision::SeriesPoint point;
  point.at = at;
  point.arrivals_per_s = static_cast<double>(point_arrivals_) / seconds;
  point.input_tokens_per_s = static_cast<double>(point_input_tokens_) / seconds;
  point.output_tokens_per_s = static_cast<double>(fleet.generated_tokens - generated_before_) / seconds;
  point.target = fleet.target;
  point.starting = fleet.starting;
  point.asleep = fleet.asleep;
  point.asleep_paid = fleet.asleep_paid;
  point.ready = fleet.ready;
  point.draining = fleet.draining;
  point.ready_by_pool = fleet.ready_by_pool;
  point.queued_requests = fleet.queued_requests;
  point.running_requests = fleet.running_requests;
  if (fleet.kv_capacity_tokens > 0)
    point.kv_usage = static_cast<double>(fleet.kv_used_tokens) / static_cast<double>(fleet.kv_capacity_tokens);
  point.first_tokens = point_ttft_ms_.count();
  point.ttft_p50_ms = point_ttft_ms_.quantile(0.50);
  point.ttft_p95_ms = point_ttft_ms_.quantile(0.95);
  point.completed = point_completed_;
  point.itl_p50_ms = point_itl_ms_.quantile(0.50);
  point.itl_p95_ms = point_itl_ms_.quantile(0.95);
  series_.push_back(point);

  point_start_ = at;
  point_arrivals_ = point_input_tokens_ = point_completed_ = 0;
  generated_before_ = fleet.generated_tokens;
  point_ttft_ms_.clear();
  point_itl_ms_.clear();
}

// ---- summaries ------------------------------------------------------------------------------------------------------

namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

constexpr std::size_t kTenantsShown = 10;

}  // namespace

void Recorder::summarize(decision::RunResult& result, core::Instant end) const {
  std::vector<float> ttft, tpot, e2e;
  ttft.reserve(records_.size());
  e2e.reserve(records_.size());
  decision::TargetResult all;
  std::uint64_t good = 0;
  std::array<std::uint64_t, kOutcomes> outcomes{};
  result.series = series_;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_[i];
    const workload::Request& request = workload_.requests[i];
    const bool met = met_all(i);
    if (in_window(i)) {
      ++outcomes[static_cast<std::size_t>(record.outcome)];
      if (has_ttft(i)) ttft.push_back(record.ttft_ms);
      if (record.outcome == Outcome::kCompleted) e2e.push_back(record.e2e_ms);
      if (has_itl(i)) tpot.push_back(record.itl_ms);
      ++result.requests;
      good += met ? 1 : 0;
      count(i, all);
    }
    if (!result.series.empty()) {
      const auto point = std::min(static_cast<std::size_t>(request.arrival.time_since_epoch() / point_width_),
                                  result.series.size() - 1);
      ++result.series[point].arrived;
      result.series[point].judged += is_judged(i) ? 1 : 0;
      result.series[point].met_slo += is_judged(i) && met ? 1 : 0;
    }
  }
  const auto ended_by = [&](Outcome outcome) { return outcomes[static_cast<std::size_t>(outcome)]; };
  result.completed = ended_by(Outcome::kCompleted);
  result.failed = result.requests - result.completed;
  for (const Outcome outcome :
       {Outcome::kTooLarge, Outcome::kReplicaCrashed, Outcome::kUnfinished, Outcome::kCancelled, Outcome::kTimedOut,
        Outcome::kReplicaTimeout, Outcome::kGatewayRestarted, Outcome::kTruncated})
    if (ended_by(outcome) > 0) result.failures.push_back({to_string(outcome), ended_by(outcome)});
  set_attainment(all, result);
  result.bursts = in_bursts();
  result.duration_s = core::to_seconds(std::max(end - window_from_, core::Duration{}));
  if (result.duration_s > 0.0) result.goodput_rps = static_cast<double>(good) / result.duration_s;
  result.ttft_ms = core::summarize(ttft);
  result.tpot_ms = core::summarize(tpot);
  result.e2e_ms = core::summarize(e2e);
  result.completed_tokens = completed_tokens_;
  result.goodput_tokens = goodput_tokens_;
  add_segments(result);
}

void Recorder::judge(decision::RunResult& result) const {
  decision::TargetResult all;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!in_window(i)) continue;
    const Record& record = records_[i];
    ++result.requests;
    result.completed += record.outcome == Outcome::kCompleted ? 1 : 0;
    count(i, all);
  }
  result.failed = result.requests - result.completed;
  set_attainment(all, result);
}

void Recorder::count(std::size_t request, decision::TargetResult& into) const {
  if (!is_judged(request)) return;
  ++into.requests;
  into.met += met_all(request) ? 1 : 0;
  into.ttft_met += met_ttft(request) ? 1 : 0;
  into.itl_met += met_itl(request) ? 1 : 0;
}

void Recorder::set_attainment(const decision::TargetResult& all, decision::RunResult& result) const {
  result.slo_attainment = share(all.met, all.requests);
  result.ttft_attainment = share(all.ttft_met, all.requests);
  result.itl_attainment = share(all.itl_met, all.requests);
  result.targets = by_target(all);
}

std::vector<decision::TargetResult> Recorder::by_target(const decision::TargetResult& all) const {
  std::vector<decision::TargetResult> results(limits_.size());
  if (targets_.empty()) results.front() = all;
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (in_window(i)) count(i, results[targets_[i]]);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].name = i == 0 ? std::string{signals::kGeneralTarget} : slo_.segments[i - 1].name;
    results[i].target = slo_.target_at(i);
    results[i].goal = slo_.goal_at(i);
  }
  return results;
}

decision::BurstResult Recorder::in_bursts() const {
  const auto minute_of = [this](std::size_t request) {
    return static_cast<std::size_t>(workload_.requests[request].arrival.time_since_epoch() / std::chrono::minutes{1});
  };
  std::vector<std::uint64_t> arrivals;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].arrived) continue;
    if (minute_of(i) >= arrivals.size()) arrivals.resize(minute_of(i) + 1, 0);
    ++arrivals[minute_of(i)];
  }
  const std::vector<bool> bursts = burst_minutes(arrivals);
  decision::BurstResult result;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].arrived || !in_window(i) || !is_judged(i) || !bursts[minute_of(i)]) continue;
    ++result.requests;
    result.met += met_all(i) ? 1 : 0;
  }
  return result;
}

void Recorder::add_segments(decision::RunResult& result) const {
  // The tenants with most requests by name, the others together.
  std::vector<std::uint64_t> by_tenant(workload_.tenants.size());
  for (const workload::Request& request : workload_.requests) ++by_tenant[request.tenant];
  std::vector<std::uint32_t> ranked(by_tenant.size());
  for (std::uint32_t i = 0; i < ranked.size(); ++i) ranked[i] = i;
  std::stable_sort(ranked.begin(), ranked.end(), [&](auto a, auto b) { return by_tenant[a] > by_tenant[b]; });
  const std::size_t shown = ranked.size() <= kTenantsShown + 1 ? ranked.size() : kTenantsShown;
  std::vector<std::size_t> tenant_segment(ranked.size(), shown);
  for (std::size_t rank = 0; rank < shown; ++rank) tenant_segment[ranked[rank]] = rank;

  struct Accumulator {
    std::string dimension, label;
    std::uint64_t requests = 0, failed = 0;
    decision::TargetResult judged;
    core::QuantileSketch ttft_ms, itl_ms;
  };
  std::vector<Accumulator> all;
  const auto add = [&](const char* dimension, std::string label) {
    all.push_back({dimension, std::move(label), 0, 0, {}, {}, {}});
  };
  for (const signals::Band& band : signals::kPromptBands) add("prompt tokens", band.label);
  for (const signals::Band& band : signals::kOutputBands) add("output tokens", band.label);
  const std::size_t classes = all.size();
  add("traffic class", core::kInteractiveClass);
  add("traffic class", core::kBatchClass);
  const std::size_t cache = all.size();
  add("prefix cache", "miss");
  add("prefix cache", "hit");
  const std::size_t tenants = all.size();
  for (std::size_t rank = 0; rank < shown; ++rank) add("tenant", workload_.tenants[ranked[rank]]);
  if (shown < ranked.size()) add("tenant", "all others");

  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!in_window(i)) continue;
    const Record& record = records_[i];
    const workload::Request& request = workload_.requests[i];
    const std::array<std::size_t, 5> segments = {
        signals::band_of(signals::kPromptBands, request.input_tokens),
        signals::kPromptBands.size() + signals::band_of(signals::kOutputBands, request.output_tokens),
        classes + static_cast<std::size_t>(request.traffic_class), cache + (record.cache_hit ? 1U : 0U),
        tenants + tenant_segment[request.tenant]};
    for (const std::size_t segment : segments) {
      Accumulator& into = all[segment];
      ++into.requests;
      count(i, into.judged);
      into.failed += record.outcome == Outcome::kCompleted ? 0 : 1;
      if (has_ttft(i)) into.ttft_ms.add(static_cast<double>(record.ttft_ms));
      if (has_itl(i)) into.itl_ms.add(static_cast<double>(record.itl_ms));
    }
  }
  for (const Accumulator& from : all) {
    if (from.requests == 0) continue;
    result.segments.push_back({from.dimension, from.label, from.requests, from.failed, from.judged.attainment(),
                               core::summarize(from.ttft_ms), core::summarize(from.itl_ms)});
  }
}

}  // namespace penstock::simulation
