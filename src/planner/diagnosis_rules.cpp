#include "planner/diagnosis_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "planner/samples.h"

namespace penstock::planner {
namespace {

using signals::LatencyWindow;
using signals::PoolObservation;
using signals::ReplicaState;
using signals::Role;
using signals::SegmentWindow;

bool believable(const LatencyWindow& window) {
  if (window.count == 0) return true;
  const auto fine = [](double ms) { return std::isfinite(ms) && ms >= 0.0; };
  return fine(window.mean_ms) && fine(window.p50_ms) && fine(window.p90_ms) && fine(window.p95_ms) &&
         fine(window.p99_ms);
}

// Returns why the engines' figures are not usable now; empty if they are. A replica that has just become ready may
// report with the next sample.
const char* distrust(const PoolView& view) {
  bool reporting = false;
  for (const signals::ReplicaObservation& replica : view.pool.replicas) {
    if (replica.state != ReplicaState::kReady) continue;
    if (!replica.sample && replica.state_since > view.observation.now - view.options.sample_age) continue;
    if (!replica.sample) return "a ready replica has never reported telemetry";
    if (replica.sample->sampled_at <= view.observation.now - view.options.sample_age)
      return "a ready replica has no recent telemetry";
    if (contradicts_itself(*replica.sample)) return "the telemetry of an engine contradicts itself";
    reporting = true;
  }
  return reporting ? "" : "no ready replica reports telemetry";
}

// ---- for whom -------------------------------------------------------------------------------------------------------

struct Affected {
  bool bad = false;
  std::string segment = "all";
  Percentile latency;     // Of the segment, or of all requests.
  double limit_ms = 0.0;  // Of its latency.
};

Percentile percentile_of(const LatencyWindow& window) { return {window.count, window.p95_ms}; }

using Latency = LatencyWindow SegmentWindow::*;
using TargetLimit = core::Duration signals::SloTarget::*;

// The objective that is missed most, and the part of its requests that is late. Without a miss: the longest limit of
// the requests of the last minute.
Affected affected_objective(const PoolView& view, const LatencyWindow& all, Percentile ObjectiveLatency::*latency,
                            TargetLimit limit) {
  Affected found{false, "all", percentile_of(all)};
  std::size_t missed = 0;
  double worst = 1.0;
  for (std::size_t i = 0; i < view.by_objective.size(); ++i) {
    const ObjectiveLatency& each = view.by_objective[i];
    const Percentile& measured = each.*latency;
    const double limit_ms = core::to_milliseconds(view.slo.target_at(i).*limit);
    if (!found.bad && (each.waits || measured.count > 0)) found.limit_ms = std::max(found.limit_ms, limit_ms);
    if (measured.count < view.options.samples_min || !(measured.p95_ms > worst * limit_ms)) continue;
    worst = measured.p95_ms / limit_ms;
    const std::string name = i == 0 ? std::string{signals::kGeneralTarget} : view.slo.segments[i - 1].name;
    found = {true, "SLO segment " + name, measured, limit_ms};
    missed = i;
  }
  if (found.bad) {
    const bool is_itl = latency == &ObjectiveLatency::itl;
    if (const auto part = latest_part(
            view.observation, {missed, view.own_requests, is_itl, found.limit_ms, view.options.segment_samples_min})) {
      found.segment += ", " + part->name;
      found.latency = part->latency;
    }
  }
  if (found.limit_ms == 0.0)  // The requests are unknown.
    for (std::size_t i = 0; i < view.by_objective.size(); ++i)
      found.limit_ms = std::max(found.limit_ms, core::to_milliseconds(view.slo.target_at(i).*limit));
  return found;
}

// The segment is named by the dimension that separates bad from good latency best: the one with the largest ratio
// between its worst p95 and the worst p95 within the limit. If the overall latency is good, a tenth of a segment must
// be late before it counts: there are two dozen segments, and one of their p95 values is often late by chance.
Affected affected_segment(const PoolView& view, const LatencyWindow& all, Latency latency, double limit_ms) {
  const bool all_bad = all.count >= view.options.samples_min && all.p95_ms > limit_ms;
  Affected found{all_bad, "all", percentile_of(all), limit_ms};
  if (!view.pool.detail) return found;
  const auto& segments = view.pool.detail->segments;
  double best_contrast = 0.0;
  for (auto from = segments.begin(); from != segments.end();) {
    const auto to =
        std::find_if(from, segments.end(), [&](const auto& next) { return next.dimension != from->dimension; });
    const SegmentWindow* worst = nullptr;
    double fine_ms = -1.0;
    for (auto segment = from; segment != to; ++segment) {
      const LatencyWindow& window = (*segment).*latency;
      if (window.count < view.options.segment_samples_min || !believable(window)) continue;
      if (window.p95_ms <= limit_ms) fine_ms = std::max(fine_ms, window.p95_ms);
      const bool bad = (all_bad ? window.p95_ms : window.p90_ms) > limit_ms;
      if (bad && (worst == nullptr || window.p95_ms > ((*worst).*latency).p95_ms)) worst = &*segment;
    }
    const double contrast = worst == nullptr ? 0.0
                            : fine_ms >= 0.0 ? ((*worst).*latency).p95_ms / std::max(1.0, fine_ms)
                            : all_bad        ? 0.0
                                             : 1.0;  // Bad, with too few other requests for a comparison.
    if (contrast > best_contrast) {
      best_contrast = contrast;
      found = {true, worst->dimension + " " + worst->label, percentile_of((*worst).*latency), limit_ms};
    }
    from = to;
  }
  return found;
}

Affected affected_by_ttft(const PoolView& view) {
  const LatencyWindow& all = view.pool.last_minute.ttft;
  if (!view.by_objective.empty())
    return affected_objective(view, all, &ObjectiveLatency::ttft, &signals::SloTarget::ttft);
  return affected_segment(view, all, &SegmentWindow::ttft, core::to_milliseconds(view.slo.target.ttft));
}

Affected affected_by_itl(const PoolView& view) {
  const LatencyWindow& all = view.pool.last_minute.itl;
  if (!view.by_objective.empty())
    return affected_objective(view, all, &ObjectiveLatency::itl, &signals::SloTarget::itl);
  return affected_segment(view, all, &SegmentWindow::itl, core::to_milliseconds(view.slo.target.itl));
}

// ---- why ------------------------------------------------------------------------------------------------------------

Finding unknown(const PoolView& view, Symptom symptom, const char* because) {
  Finding finding;
  finding.symptom = symptom;
  finding.pool = view.index;
  finding.pool_name = view.pool.name;
  finding.segment = "all";
  finding.unknown_because = because;
  return finding;
}

// A finding with the bad latency, without its cause.
Finding begin(const PoolView& view, Symptom symptom, const Affected& whom) {
  const double limit_ms = whom.limit_ms;
  Finding finding = unknown(view, symptom, "");
  finding.segment = whom.segment;
  const bool ttft = symptom == Symptom::kTtft;
  if (whom.latency.count > 0) {
    finding.severity = whom.latency.p95_ms / limit_ms;
    finding.evidence.push_back({ttft ? "ttft_p95" : "itl_p95", whom.latency.p95_ms, "ms"});
  }
  finding.evidence.push_back({ttft ? "ttft_limit" : "itl_limit", limit_ms, "ms"});
  return finding;
}

void blame(Finding& finding, Cause cause, std::initializer_list<Evidence> evidence) {
  finding.cause = cause;
  finding.evidence.insert(finding.evidence.end(), evidence);
}

bool preempts(const PoolView& view, const EngineMinute& minute) {
  return minute.preemptions > 0 && minute.preemptions_per_request() >= view.options.preemptions_per_request;
}

void blame_preemption(Finding& finding, const EngineMinute& minute) {
  blame(finding, Cause::kPreemption,
        {{"preemptions", minute.per_minute(minute.preemptions), "1/min"},
         {"preemptions_per_request", minute.preemptions_per_request(), "1"},
         {"kv_usage", minute.kv_usage, "share"}});
}

void blame_kv(Finding& finding, const EngineMinute& minute) {
  blame(finding, Cause::kKvPressure,
        {{"kv_usage", minute.kv_usage, "share"},
         {"kv_blocked_engines", minute.kv_blocked_share, "share"},
         {"evictions", minute.per_minute(minute.evictions), "1/min"}});
}

bool cache_went_cold(const PoolView& view, const EngineMinute& minute) {
  if (view.history.long_term_prompt_tokens() < static_cast<double>(view.options.long_term_tokens_min)) return false;
  if (minute.prompt_tokens == 0) return false;
  const double before = view.history.long_term_hit_share();
  return minute.hit_share() <= before - view.options.hit_share_drop &&
         minute.hit_share() < before * view.options.hit_share_kept;
}

void blame_cache(Finding& finding, const PoolView& view, const EngineMinute& minute) {
  blame(finding, Cause::kRoutingCache,
        {{"hit_share", minute.hit_share(), "share"},
         {"hit_share_long_term", view.history.long_term_hit_share(), "share"},
         {"evictions", minute.per_minute(minute.evictions), "1/min"}});
}

// Requests wait in the engines. The most specific cause is checked first: replicas are starting, the KV cache is full,
// prefix hits have dropped, other replicas are idle; otherwise the load is too high.
void explain_queue(Finding& finding, const PoolView& view, const EngineMinute& minute) {
  if (minute.starting_share >= view.options.starting_share) {
    blame(finding, Cause::kColdStart,
          {{"starting", static_cast<double>(view.pool.starting), "replicas"},
           {"ready", static_cast<double>(view.pool.ready), "replicas"},
           {"starting_share", minute.starting_share, "share"},
           {"start_up", core::to_seconds(view.pool.start_up), "s"}});
  } else if (preempts(view, minute)) {
    blame_preemption(finding, minute);
  } else if (minute.kv_blocked_share >= view.options.kv_blocked_share) {
    blame_kv(finding, minute);
  } else if (cache_went_cold(view, minute)) {
    blame_cache(finding, view, minute);
  } else if (minute.idle_share >= view.options.idle_share) {
    blame(
        finding, Cause::kRoutingCache,
        {{"idle_engines", minute.idle_share, "share"}, {"queued_per_replica", minute.queued_per_replica, "requests"}});
  } else {
    blame(finding, Cause::kQueue,
          {{"queued_per_replica", minute.queued_per_replica, "requests"},
           {"running_per_replica", minute.running_per_replica, "requests"},
           {"ready", static_cast<double>(view.pool.ready), "replicas"}});
    if (minute.deferred_per_replica > 0.0)
      finding.evidence.push_back({"deferred_per_replica", minute.deferred_per_replica, "requests"});
  }
}

void explain_prefill(Finding& finding, const PoolView& view, const EngineMinute& minute) {
  if (preempts(view, minute)) {
    blame_preemption(finding, minute);
  } else if (cache_went_cold(view, minute)) {
    blame_cache(finding, view, minute);
  } else {
    blame(finding, Cause::kPrefill,
          {{"prompt_mean", mean_prompt_tokens(view.pool), "tokens"}, {"hit_share", minute.hit_share(), "share"}});
  }
}

// Requests wait in front of the replicas, or are refused there: replicas are starting, or the ready ones are full.
void explain_replica_wait(Finding& finding, const PoolView& view) {
  const EngineMinute minute = view.history.last_minute();
  const bool cold =
      view.pool.ready == 0 || view.pool.starting > 0 || minute.starting_share >= view.options.starting_share;
  if (!cold && preempts(view, minute)) return blame_preemption(finding, minute);
  if (!cold && minute.kv_full_share >= view.options.kv_blocked_share) {
    blame_kv(finding, minute);
    finding.evidence.push_back({"kv_full_engines", minute.kv_full_share, "share"});
    return;
  }
  blame(finding, cold ? Cause::kColdStart : Cause::kQueue,
        {{"waiting", static_cast<double>(view.pool.unrouted_requests), "requests"},
         {"starting", static_cast<double>(view.pool.starting), "replicas"},
         {"ready", static_cast<double>(view.pool.ready), "replicas"},
         {"start_up", core::to_seconds(view.pool.start_up), "s"}});
}

// ---- the time to the first token ------------------------------------------------------------------------------------

// The longest wait for a first token. A preempted sequence has had its first token, so the oldest age is not usable if
// some are preempted.
struct Waiting {
  double unrouted_ms = 0.0, queued_ms = 0.0;
};
Waiting waiting(const PoolView& view) {
  Waiting longest;
  if (view.pool.detail) longest.unrouted_ms = core::to_milliseconds(view.pool.detail->oldest_unrouted_age);
  for (const signals::ReplicaObservation& replica : view.pool.replicas) {
    if (!replica.sample || replica.sample->queued_kv_tokens.value_or(0) > 0) continue;
    if (replica.sample->sampled_at <= view.observation.now - view.options.sample_age) continue;
    if (replica.sample->oldest_queued_age)
      longest.queued_ms = std::max(longest.queued_ms, core::to_milliseconds(*replica.sample->oldest_queued_age));
  }
  return longest;
}

double shed_share(const PoolObservation& pool) {
  if (!pool.detail || pool.detail->shed == 0) return 0.0;
  const auto shed = static_cast<double>(pool.detail->shed);
  return shed / std::max(shed, static_cast<double>(pool.last_minute.arrivals));
}

// Where engines do not report the time of each request in their queue, it follows from the mean queue length and the
// arrival rate (Little's law). Empty if there is nothing to compute it from.
std::optional<double> queue_share(const PoolView& view) {
  const signals::TrafficWindow& traffic = view.pool.last_minute;
  const double whole_ms = view.pool.detail->first_tokens.prefill.mean_ms;
  if (traffic.arrivals == 0 || traffic.length <= core::Duration{} || !(whole_ms > 0.0)) return std::nullopt;
  const double rate = static_cast<double>(traffic.arrivals) / core::to_seconds(traffic.length);
  const double queued = view.history.last_minute().queued_per_replica * view.pool.ready;
  return std::clamp(1e3 * queued / rate / whole_ms, 0.0, 1.0);
}

signals::FirstTokenWindow parts_of(const PoolView& view) {
  signals::FirstTokenWindow parts = view.pool.detail->first_tokens;
  if (!parts.queue_in_prefill || *distrust(view) != '\0') return parts;
  const auto share = queue_share(view);
  if (!share) return parts;
  for (const auto figure :
       {&signals::TimePart::mean_ms, &signals::TimePart::p95_ms, &signals::TimePart::slow_mean_ms}) {
    parts.queue.*figure = *share * parts.prefill.*figure;
    parts.prefill.*figure -= parts.queue.*figure;
  }
  return parts;
}

// The longest part of the mean time of the slow first tokens.
struct Longest {
  Phase phase = Phase::kNone;
  double share = 0.0;
  double p95_ms = 0.0;
};
std::optional<Longest> longest_part(const signals::FirstTokenWindow& window) {
  const std::array<std::pair<Phase, const signals::TimePart*>, 5> parts = {{{Phase::kAdmission, &window.admission},
                                                                            {Phase::kReplicaWait, &window.replica_wait},
                                                                            {Phase::kQueue, &window.queue},
                                                                            {Phase::kPrefill, &window.prefill},
                                                                            {Phase::kTransfer, &window.transfer}}};
  double sum_ms = 0.0, most_ms = -1.0;
  Longest longest;
  for (const auto& [phase, part] : parts) {
    if (!std::isfinite(part->slow_mean_ms) || part->slow_mean_ms < 0.0 || !std::isfinite(part->p95_ms))
      return std::nullopt;
    sum_ms += part->slow_mean_ms;
    if (part->slow_mean_ms <= most_ms) continue;
    most_ms = part->slow_mean_ms;
    longest = {phase, 0.0, part->p95_ms};
  }
  if (window.slow == 0 || sum_ms <= 0.0) return std::nullopt;
  longest.share = most_ms / sum_ms;
  return longest;
}

// The time between the end of the prefill and the first token contains the wait in the queue of the decode engines,
// which follows from its length and the arrival rate (Little's law).
bool waits_for_decode(const PoolView& view) {
  if (view.decode == nullptr || *distrust(*view.decode) != '\0') return false;
  const signals::TrafficWindow& traffic = view.pool.last_minute;
  if (traffic.arrivals == 0 || traffic.length <= core::Duration{}) return false;
  const EngineMinute minute = view.decode->history.last_minute();
  const double queued = (minute.queued_per_replica - minute.deferred_per_replica) * view.decode->pool.ready;
  const double rate = static_cast<double>(traffic.arrivals) / core::to_seconds(traffic.length);
  return 1e3 * queued / rate >= view.pool.detail->first_tokens.transfer.mean_ms / 2.0;
}

void explain_transfer(Finding& finding, const PoolView& view) {
  if (waits_for_decode(view)) {
    finding.phase = Phase::kQueue;
    finding.pool = view.decode->index;
    finding.pool_name = view.decode->pool.name;
    return explain_queue(finding, *view.decode, view.decode->history.last_minute());
  }
  blame(finding, Cause::kTransfer, {});
  if (view.decode == nullptr) return;
  const double deferred = view.decode->history.last_minute().deferred_per_replica;
  if (deferred > 0.0) finding.evidence.push_back({"deferred_per_replica", deferred, "requests"});
}

void explain_ttft(Finding& finding, const PoolView& view) {
  switch (finding.phase) {
    case Phase::kAdmission: blame(finding, Cause::kAdmission, {}); return;
    case Phase::kReplicaWait: explain_replica_wait(finding, view); return;
    case Phase::kTransfer: explain_transfer(finding, view); return;
    default: break;
  }
  finding.unknown_because = distrust(view);
  if (*finding.unknown_because != '\0') return;
  const EngineMinute minute = view.history.last_minute();
  finding.phase == Phase::kPrefill ? explain_prefill(finding, view, minute) : explain_queue(finding, view, minute);
}

}  // namespace

std::optional<Finding> judge_ttft(const PoolView& view) {
  const LatencyWindow& window = view.pool.last_minute.ttft;
  if (!believable(window)) return unknown(view, Symptom::kUnknown, "the TTFT values are not numbers");
  const Affected whom = affected_by_ttft(view);
  const double limit_ms = whom.limit_ms;
  const Waiting longest = waiting(view);
  const double shed = shed_share(view.pool);
  const bool stuck = std::max(longest.unrouted_ms, longest.queued_ms) > limit_ms;
  if (!whom.bad && !stuck && shed < view.options.shed_share) {
    // Requests arrived and none was answered: either traffic has just started, or the telemetry is incomplete.
    if (window.count == 0 && view.pool.last_minute.arrivals > 0 && view.pool.ready > 0 && *distrust(view) != '\0')
      return unknown(view, Symptom::kUnknown, distrust(view));
    return std::nullopt;
  }

  Finding finding = begin(view, Symptom::kTtft, whom);
  if (shed >= view.options.shed_share) {
    finding.phase = Phase::kReplicaWait;
    finding.evidence.push_back({"shed", shed, "share"});
  } else if (longest.unrouted_ms > limit_ms) {
    finding.phase = Phase::kReplicaWait;
    finding.severity = std::max(finding.severity, longest.unrouted_ms / limit_ms);
    finding.evidence.push_back({"oldest_waiting", longest.unrouted_ms, "ms"});
  } else if (!view.pool.detail && !stuck) {
    finding.unknown_because = "the parts of the TTFT are not measured";
    return finding;
  } else if (const auto part = view.pool.detail ? longest_part(parts_of(view)) : std::nullopt) {
    finding.phase = part->phase;
    finding.evidence.push_back({"share_of_slow_ttft", part->share, "share"});
    finding.evidence.push_back({"phase_p95", part->p95_ms, "ms"});
  } else if (stuck) {
    finding.phase = Phase::kQueue;
    finding.severity = std::max(finding.severity, longest.queued_ms / limit_ms);
    finding.evidence.push_back({"oldest_waiting", longest.queued_ms, "ms"});
  } else {
    finding.unknown_because = "the parts of the TTFT do not add up to it";
    return finding;
  }
  explain_ttft(finding, view);
  return finding;
}

// ---- the gaps between tokens ----------------------------------------------------------------------------------------

namespace {

double computed_prompt(const PoolView& view, const EngineMinute& minute) {
  const double seconds = core::to_seconds(minute.length), window = core::to_seconds(view.pool.last_minute.length);
  if (view.pool.last_minute.arrivals == 0 || seconds <= 0.0 || window <= 0.0) return 0.0;
  const double tokens_per_s = static_cast<double>(minute.prompt_tokens - minute.prefix_hit_tokens) / seconds;
  return tokens_per_s / (static_cast<double>(view.pool.last_minute.arrivals) / window);
}

// Prompts are computed in decode steps: in most steps, or in a few that only requests with a short answer notice.
bool prompts_interfere(const PoolView& view, const EngineMinute& minute, const Percentile& affected) {
  if (minute.prefill_tokens_per_step() >= view.options.prefill_tokens_per_step) return true;
  const bool uneven = affected.p95_ms >= view.options.uneven_gaps * view.pool.last_minute.itl.p50_ms;
  return uneven && computed_prompt(view, minute) >= view.options.computed_prompt;
}

}  // namespace

std::optional<Finding> judge_itl(const PoolView& view) {
  // The gaps of answers that waited for their clients are in no window: the finding is about the client alone.
  const auto judge_clients = [](const PoolView& of) -> std::optional<Finding> {
    const signals::TrafficWindow& traffic = of.pool.last_minute;
    const auto slow = static_cast<double>(traffic.slow_clients), completed = static_cast<double>(traffic.completed);
    if (traffic.slow_clients < of.options.samples_min || slow < of.options.slow_client_share * completed)
      return std::nullopt;
    Finding finding = unknown(of, Symptom::kItl, "");
    finding.phase = Phase::kDecode;
    blame(finding, Cause::kClient, {{"slow_clients", slow / completed, "share"}});
    return finding;
  };
  const LatencyWindow& window = view.pool.last_minute.itl;
  if (!believable(window)) return unknown(view, Symptom::kUnknown, "the ITL values are not numbers");
  const Affected whom = affected_by_itl(view);
  const bool decode = view.pool.role == Role::kDecode;
  const bool stuck = decode && view.pool.unrouted_requests > 0;
  if (!whom.bad && !stuck) return judge_clients(view);

  Finding finding = begin(view, Symptom::kItl, whom);
  finding.phase = Phase::kDecode;
  if (stuck) {
    finding.phase = Phase::kReplicaWait;
    explain_replica_wait(finding, view);
    return finding;
  }
  finding.unknown_because = distrust(view);
  if (*finding.unknown_because != '\0') return finding;

  // A request waits on a decode replica between its first and its second token.
  const EngineMinute minute = view.history.last_minute();
  const double for_room = minute.queued_per_replica - minute.deferred_per_replica;
  const bool queued = decode && for_room >= view.options.decode_queue_min;
  if (preempts(view, minute)) {
    blame_preemption(finding, minute);
  } else if (queued) {
    finding.phase = Phase::kQueue;
    explain_queue(finding, view, minute);
  } else if (decode && minute.deferred_per_replica >= view.options.decode_queue_min) {
    finding.phase = Phase::kTransfer;
    blame(finding, Cause::kTransfer, {{"deferred_per_replica", minute.deferred_per_replica, "requests"}});
  } else if (!decode && prompts_interfere(view, minute, whom.latency)) {
    blame(finding, Cause::kPrefill,
          {{"itl_p50_of_all", window.p50_ms, "ms"},
           {"computed_prompt_mean", computed_prompt(view, minute), "tokens"},
           {"prefill_tokens_per_step", minute.prefill_tokens_per_step(), "tokens"},
           {"running_per_replica", minute.running_per_replica, "requests"}});
  } else if (minute.running_per_replica >= view.options.decode_batch_min ||
             minute.kv_usage >= view.options.decode_kv_min) {
    blame(finding, Cause::kDecodeBatch,
          {{"running_per_replica", minute.running_per_replica, "requests"},
           {"kv_usage", minute.kv_usage, "share"},
           {"prefill_tokens_per_step", minute.prefill_tokens_per_step(), "tokens"}});
    if (const auto bandwidth = mean_memory_bandwidth(view.pool))
      finding.evidence.push_back({"memory_bandwidth", *bandwidth, "share"});
  } else {
    finding.evidence.push_back({"running_per_replica", minute.running_per_replica, "requests"});
    finding.unknown_because = "steps are slow with few requests: a slow engine, or a GPU that is shared";
  }
  return finding;
}

}  // namespace penstock::planner
