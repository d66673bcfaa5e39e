#include "planner/penstock/traffic_memory.h"

#include <algorithm>
#include <cmath>

#include "planner/penstock/burn_rate.h"
#include "planner/penstock/kept.h"
#include "planner/penstock/traffic_step.h"

namespace penstock::planner {
namespace {

constexpr double kTwentieths = 20.0;
constexpr double kUsualShare = 0.9;   // Share of requests whose time a trial warms up for.
constexpr double kLongShare = 0.999;  // Share of requests that are no longer than those that may still run.
constexpr double kOpenShare = 0.05;   // Share of open requests that does not matter.
constexpr double kMillisecondsOfErrors = 1e8;
constexpr double kSameFactor = 0.02;        // A factor nearer to 1 changes nothing.
constexpr std::size_t kFewerOpen = 4;       // Divisor of the open requests at which outcomes are discarded.
constexpr std::size_t kFallRequests = 200;  // Fewer since a fall say too little about the goal.
constexpr core::Duration kFallAge = std::chrono::minutes{3};  // A younger one may be a pause.
constexpr std::size_t kCheckRequests = 50;                    // Fewer say little about a share.
constexpr core::Duration kCheckWithin =
    std::chrono::minutes{10};  // After it, requests that are open are not waited for.

// Latencies that are no times, and a completed stream without a first token, say nothing about the fleet.
bool is_measured(const signals::RecentRequest& request) {
  const auto is_no_time = [](float milliseconds) {
    return !std::isfinite(milliseconds) || static_cast<double>(milliseconds) >= kMillisecondsOfErrors;
  };
  if (is_no_time(request.ttft_ms) || is_no_time(request.itl_ms)) return false;
  return request.output_tokens == 0 || !request.streamed || request.ttft_ms >= 0.0F;
}

core::Duration scaled(core::Duration time, double factor) {
  return core::Duration{static_cast<std::int64_t>(factor * static_cast<double>(time.count()))};
}

}  // namespace

void TrafficMemory::begin_tick(const signals::Observation& observation) {
  recent_ = observation.recent;
  now_ = observation.now;
  served_ = 0;
  forget_lost();
  if (!lengths_->known()) lengths_->observe(recent_, now_);              // A restored search goes on.
  if (!fleets_.empty() && now_ < fleets_.back().since) fleets_.clear();  // The clock went back.
  observe_fleet(observation);
}

void TrafficMemory::forget_lost() {
  const auto is_lost = [&](const Slice& slice) {
    return slice.requests > 0 && (recent_.empty() || recent_.front().arrival > slice.to);
  };
  std::erase_if(closed_, is_lost);
  if (!is_lost(open_)) return;
  open_.requests = 0;
  open_.outcomes.clear();
}

void TrafficMemory::advance() {
  if (now_ < open_.from) {  // The clock went back, so the times of the slices have no meaning.
    closed_.clear();
    unchecked_.clear();
    open_.from = now_;
    restarted_ = core::Instant::min();
  }
  lengths_->observe(recent_, now_);
  open_.from = std::max(open_.from, now_ - options_.length);
  open_.to = now_;
  open_.outcomes.clear();
  open_.requests = between(open_.from, open_.to).size();
  open_.unknown = open_in({open_.from, open_.to});
  const core::Duration length = open_.to - open_.from;
  const bool full = open_.requests >= options_.slice_requests || length >= slice_most();
  if (length >= options_.slice_least && full) {
    unchecked_.push_back({open_.from, open_.to});
    closed_.push_back(std::move(open_));
    open_ = Slice{now_, now_};
  }
  const auto forgotten = [&](const Slice& oldest) {
    if (oldest.from < now_ - options_.length) return true;
    return oldest.from < now_ - options_.length_least && remembered() - oldest.requests >= options_.enough_requests;
  };
  while (!closed_.empty() && forgotten(closed_.front())) closed_.pop_front();
  for (Slice& slice : closed_) {
    if (static_cast<double>(slice.unknown) <= kOpenShare * static_cast<double>(slice.requests)) continue;
    const std::size_t unknown = open_in({slice.from, slice.to});
    if (unknown > slice.unknown / kFewerOpen) continue;
    slice.unknown = unknown;
    slice.outcomes.clear();
  }
}

void TrafficMemory::restart(core::Instant from) {
  closed_.clear();
  open_ = Slice{from, now_};
  restarted_ = from;
}

void TrafficMemory::look_back(core::Duration least, std::size_t enough) {
  if (looks_ahead()) {
    least = std::min(least, options_.before_ahead);
    enough = std::min(enough, options_.enough_before_ahead);
  }
  std::size_t requests = open_.requests;
  counted_from_ = core::Instant::min();
  for (auto slice = closed_.rbegin(); slice != closed_.rend(); ++slice) {
    const core::Duration since = open_.to - slice->to;
    if (since >= least && (requests >= enough || has_fallen(*slice, requests, since))) {
      counted_from_ = slice->to;
      return;
    }
    requests += slice->requests;
  }
}

// The slice had far more requests than the same time has had since then.
bool TrafficMemory::has_fallen(const Slice& slice, std::size_t requests, core::Duration since) const {
  if (since < kFallAge || requests < kFallRequests) return false;
  const double usual =
      static_cast<double>(requests) * core::to_seconds(slice.to - slice.from) / core::to_seconds(since);
  return is_far_more(static_cast<double>(slice.requests), usual);
}

std::span<const signals::RecentRequest> TrafficMemory::between(core::Instant from, core::Instant to) const {
  const auto at = [&](core::Instant moment) {
    return std::partition_point(recent_.begin(), recent_.end(),
                                [&](const signals::RecentRequest& request) { return request.arrival <= moment; });
  };
  return {at(from), at(to)};
}

const TrialOutcome* TrafficMemory::known(const std::map<Fleet, TrialOutcome>& outcomes, const Fleet& fleet) {
  if (const auto found = outcomes.find(fleet); found != outcomes.end()) return &found->second;
  if (fleet.size() != 1) return nullptr;
  const auto larger = outcomes.upper_bound(fleet);
  if (larger != outcomes.end() && larger->second.all.attainment() < kHardlyHalf) return &larger->second;
  for (auto smaller = larger; smaller != outcomes.begin();)
    if ((--smaller)->second.all.attainment() > kAllKept) return &smaller->second;
  return nullptr;
}

std::optional<TrialOutcome> TrafficMemory::outcome_at(const Fleet& fleet, double load) {
  const int twentieths = std::max(1, static_cast<int>(std::lround(load * kTwentieths)));
  const double tried_load = twentieths / kTwentieths;
  TrialOutcome sum;
  // `next`: the time to come stands for the slice.
  const auto add = [&](Slice& slice, bool next) {
    const std::size_t requests = next ? std::max(next_requests(), slice.requests) : counts(slice) ? slice.requests : 0;
    if (requests == 0) return true;
    std::map<Fleet, TrialOutcome>& outcomes = slice.outcomes[twentieths];
    const TrialOutcome* outcome = known(outcomes, fleet);
    if (outcome == nullptr) {
      if (served_ >= options_.tick_requests) return false;
      TrialOutcome tried = next ? attempt_next(fleet, tried_load)
                                : attempt({slice.from, slice.to}, fleet, tried_load, options_.waiting_most);
      if (tried.all.requests > 0.0) tried = tried.times(static_cast<double>(requests) / tried.all.requests);
      outcome = &outcomes.emplace(fleet, std::move(tried)).first->second;
      if (listener_ && !next) listener_(slice.from, slice.to, fleet, tried_load, *outcome);
    }
    sum += *outcome;
    return true;
  };
  if (!add(open_, looks_ahead())) return std::nullopt;
  for (auto slice = closed_.rbegin(); slice != closed_.rend(); ++slice)
    if (!add(*slice, false)) return std::nullopt;
  return sum;
}

// Time that 90 % of requests take.
core::Duration TrafficMemory::request_time() const {
  return std::clamp(lengths_->request_time(kUsualShare), core::Duration{}, options_.request_time_most);
}

// Most of a trial would be its warm-up if slices were shorter than requests.
core::Duration TrafficMemory::slice_most() const {
  return std::max(options_.slice_most, std::min(2 * request_time(), options_.length / 4));
}

// Of a step, and of a history that has just begun, as much as there is, but a slice at least.
TrafficMemory::Span TrafficMemory::latest() const {
  core::Instant from = std::max(open_.to - options_.ahead, restarted_);
  if (!recent_.empty()) from = std::max(from, recent_.front().arrival - core::Duration{1});
  return {std::min(from, open_.to - options_.slice_least), open_.to};
}

std::size_t TrafficMemory::next_requests() const {
  const Span span = latest();
  const double times = core::to_seconds(options_.ahead) / core::to_seconds(span.to - span.from);
  return static_cast<std::size_t>(std::llround(times * static_cast<double>(between(span.from, span.to).size())));
}

TrafficMemory::Part TrafficMemory::part_of(const Fleet& fleet, double load, std::size_t requests) const {
  Part part;
  part.fleet = fleet;
  part.traffic.rate_factor = load;
  const double crowd = load * static_cast<double>(requests) / static_cast<double>(options_.slice_requests);
  if (fleet.size() == 1 && crowd > 1.0 && fleet.front() > options_.replicas_least) {
    part.fleet.front() =
        std::max(options_.replicas_least, static_cast<std::uint32_t>(std::floor(fleet.front() / crowd)));
    part.traffic.rate_factor = load * part.fleet.front() / fleet.front();
  }
  // At another load the running requests are the same: a burst finds them as they are.
  part.traffic.running_factor = part.traffic.rate_factor / load;
  return part;
}

double TrafficMemory::most_requests(const Part& part) const {
  return 2.0 * static_cast<double>(options_.slice_requests) / part.traffic.rate_factor;
}

TrialOutcome TrafficMemory::serve(Part& part) {
  TrialTraffic& traffic = part.traffic;
  traffic.requests = arriving_;
  traffic.running = running_;
  traffic.earlier = earlier_;
  served_ += static_cast<std::size_t>(traffic.rate_factor * static_cast<double>(arriving_.size()) +
                                      traffic.running_factor * static_cast<double>(running_.size()));
  trials_->load(traffic);
  return trials_->attempt(part.fleet);
}

TrialOutcome TrafficMemory::attempt_next(const Fleet& fleet, double load) {
  const std::size_t requests = next_requests();
  Part part = part_of(fleet, load, requests);
  const core::Duration time =
      scaled(options_.ahead, std::min(1.0, most_requests(part) / static_cast<double>(requests)));
  const core::Instant begin = open_.to;
  part.traffic.from = begin;
  part.traffic.judged_from = begin + core::Duration{1};
  part.traffic.judged_until = begin + time + core::Duration{1};
  const Span repeated = latest();
  collect_begun(begin, repeated.from, options_.waiting_most);
  repeat(repeated, begin + time + options_.after_ahead);
  return serve(part);
}

TrialOutcome TrafficMemory::attempt(const Span& slice, const Fleet& fleet, double load, core::Duration waiting_most) {
  const core::Duration least = scaled(std::max(slice.to - slice.from, options_.slice_least), options_.warm_up);
  core::Duration tail = request_time(), warm_up = std::max(least, tail);
  Part part = part_of(fleet, load, between(slice.from - least, slice.to).size());
  TrialTraffic& traffic = part.traffic;
  traffic.judged_from = slice.from;
  traffic.judged_until = slice.to + core::Duration{1};
  // A trial that is still too long serves the end of the slice, with as much less before and after it.
  const double most = most_requests(part);
  const auto judged = between(slice.from, slice.to);
  // What comes before a cut slice is a part of the slice, which may have more requests.
  const double length_s = core::to_seconds(std::max(slice.to - slice.from, core::Duration{1}));
  const double warm = std::max(static_cast<double>(between(slice.from - warm_up, slice.from).size()),
                               static_cast<double>(judged.size()) * core::to_seconds(warm_up) / length_s);
  const double all = warm + static_cast<double>(judged.size() + following(slice.to, tail));
  if (all > most && !judged.empty()) {
    const double kept = most / all;
    const auto first = static_cast<std::size_t>((1.0 - kept) * static_cast<double>(judged.size()));
    traffic.judged_from = judged[std::min(first, judged.size() - 1)].arrival;
    warm_up = scaled(warm_up, kept);
    tail = scaled(tail, kept);
  }
  collect(traffic.judged_from - warm_up, slice.to, tail, waiting_most);
  traffic.from = traffic.judged_from - warm_up;
  return serve(part);
}

// Requests that arrive in this time after `from`, those that are repeated included.
std::size_t TrafficMemory::following(core::Instant from, core::Duration time) const {
  const core::Duration missing = std::clamp(from + time - now_, core::Duration{}, time);
  return between(from, from + time).size() + between(now_ - missing, now_).size();
}

void TrafficMemory::add_later(core::Instant from, core::Instant to, core::Duration later) {
  for (const signals::RecentRequest& request : between(from, to)) {
    signals::RecentRequest& added = arriving_.emplace_back(request);
    added.arrival += later;
    added.output_tokens = lengths_->length(request, now_);
  }
}

void TrafficMemory::repeat(const Span& traffic, core::Instant until) {
  const core::Duration period = traffic.to - traffic.from;
  for (core::Duration later = period; traffic.from + later < until; later += period)
    add_later(traffic.from, std::min(traffic.to, until - later), later);
}

void TrafficMemory::collect_begun(core::Instant from, core::Instant cached_until, core::Duration waiting_most) {
  arriving_.clear();
  running_.clear();
  earlier_.clear();
  const auto before = between(from - options_.length, cached_until);
  for (const signals::RecentRequest& request : before.last(std::min(before.size(), options_.cached_requests)))
    if (!request.block_ids.empty() && lengths_->generated(request, from) > 0) earlier_.push_back(request);
  const core::Duration longest = std::min(3 * lengths_->request_time(kLongShare) / 2, options_.length);
  for (const signals::RecentRequest& request : between(from - longest - waiting_most, from)) {
    if (request.end != signals::RequestEnd::kNone) continue;
    const std::uint32_t generated = lengths_->generated(request, from), output = lengths_->length(request, now_);
    if (generated == 0 && request.arrival >= from - waiting_most) {
      arriving_.push_back(request);
      arriving_.back().output_tokens = output;
    }
    if (generated == 0 || generated >= output) continue;
    running_.push_back({request.input_tokens + generated, output - generated, request.block_ids, request.target,
                        request.pool, request.expected_output_tokens});
    // If it is repeated, it finds what caches held before it arrived.
    if (request.arrival > cached_until) running_.back().block_ids = {};
  }
}

void TrafficMemory::collect(core::Instant from, core::Instant to, core::Duration tail, core::Duration waiting_most) {
  collect_begun(from, from, waiting_most);
  add_later(from, to + tail, {});
  // There is no later traffic yet, so the latest is repeated.
  const core::Duration missing = std::clamp(to + tail - now_, core::Duration{}, tail);
  repeat({now_ - missing, now_}, to + tail);
}

std::optional<TrialCheck> TrafficMemory::check(const signals::SloPolicy& slo, double factor) {
  for (; !unchecked_.empty(); unchecked_.pop_front()) {
    const Span slice = unchecked_.front();
    const core::Duration time = request_time();
    const auto requests = between(slice.from, slice.to);
    const std::optional<Fleet> fleet = steady_fleet(slice.from - time, slice.to);
    if (!fleet || requests.size() < kCheckRequests) continue;
    if (now_ < slice.to + time) return std::nullopt;
    const bool ended = static_cast<double>(open_in(slice)) <= kOpenShare * static_cast<double>(requests.size());
    if (!ended && now_ < slice.to + kCheckWithin) return std::nullopt;
    TrialCheck check;
    double met = 0.0;
    for (const signals::RecentRequest& request : requests) {
      // A request whose client left says nothing about the fleet.
      if (request.end == signals::RequestEnd::kCancelled || !is_judged(request, slo) || !is_measured(request)) continue;
      check.requests += 1.0;
      met += request.end == signals::RequestEnd::kNone && !missed(request, slo, now_) ? 1.0 : 0.0;
    }
    if (check.requests < static_cast<double>(kCheckRequests)) continue;
    check.observed = met / check.requests;
    check.trial = attainment_of_part(slice, *fleet, factor);
    unchecked_.pop_front();
    return check;
  }
  return std::nullopt;
}

// In a trial of the fleet divided by the factor; between two fleets it is interpolated.
double TrafficMemory::attainment_of_part(const Span& slice, const Fleet& fleet, double factor) {
  if (*std::min_element(fleet.begin(), fleet.end()) < factor)
    return attempt(slice, fleet, factor, options_.length).all.attainment();
  Fleet fewer, more;
  double part = 0.0;
  for (const std::uint32_t replicas : fleet) {
    const double divided = std::abs(factor - 1.0) < kSameFactor ? replicas : replicas / factor;
    fewer.push_back(static_cast<std::uint32_t>(divided));
    more.push_back(static_cast<std::uint32_t>(std::ceil(divided)));
    part += (divided - fewer.back()) / static_cast<double>(fleet.size());
  }
  const double with_fewer = attempt(slice, fewer, 1.0, options_.length).all.attainment();
  if (fewer == more) return with_fewer;
  return (1.0 - part) * with_fewer + part * attempt(slice, more, 1.0, options_.length).all.attainment();
}

// The ready fleet, if it was the same all the time.
std::optional<Fleet> TrafficMemory::steady_fleet(core::Instant from, core::Instant to) const {
  for (auto fleet = fleets_.rbegin(); fleet != fleets_.rend(); ++fleet) {
    if (fleet->since > to) continue;
    const bool steady = fleet->since <= from && !fleet->ready.empty();
    return steady ? std::optional{fleet->ready} : std::nullopt;
  }
  return std::nullopt;
}

void TrafficMemory::observe_fleet(const signals::Observation& observation) {
  Fleet ready;
  bool serves = true;
  for (const signals::PoolObservation& pool : observation.pools) {
    ready.push_back(pool.ready);
    serves = serves && pool.ready > 0 && pool.draining == 0;
  }
  if (!serves) ready.clear();
  if (fleets_.empty() || fleets_.back().ready != ready) fleets_.push_back({observation.now, std::move(ready)});
  while (fleets_.size() > 1 && fleets_[1].since < observation.now - options_.length - kCheckWithin) fleets_.pop_front();
}

std::size_t TrafficMemory::open_in(const Span& slice) const {
  const auto requests = between(slice.from, slice.to);
  return static_cast<std::size_t>(std::count_if(requests.begin(), requests.end(), is_open));
}

void TrafficMemory::forget_outcomes() {
  open_.outcomes.clear();
  for (Slice& slice : closed_) slice.outcomes.clear();
}

std::size_t TrafficMemory::remembered() const {
  std::size_t requests = open_.requests;
  for (const Slice& slice : closed_) requests += slice.requests;
  return requests;
}

std::size_t TrafficMemory::requests() const {
  std::size_t requests = open_.requests;
  for (const Slice& slice : closed_) requests += counts(slice) ? slice.requests : 0;
  return requests;
}

core::Duration TrafficMemory::used() const {
  core::Instant from = open_.from;
  for (auto slice = closed_.rbegin(); slice != closed_.rend() && counts(*slice); ++slice) from = slice->from;
  return open_.to - from;
}

double TrafficMemory::rate() const {
  const double seconds = core::to_seconds(used());
  return seconds > 0.0 ? static_cast<double>(requests()) / seconds : 0.0;
}

}  // namespace penstock::planner
