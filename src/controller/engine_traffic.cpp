#include "controller/engine_traffic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace penstock::controller {
namespace {

using telemetry::EngineScrape;
using telemetry::Histogram;

constexpr core::Duration kGapMost = std::chrono::minutes{1};
constexpr core::Duration kLengthsOver = std::chrono::minutes{5}, kReadSpacing = std::chrono::seconds{15};
constexpr std::uint64_t kRequestsLeast = 20;  // Fewer recent ones do not show how lengths are spread.
// More in one interval are no traffic of one engine.
constexpr std::uint64_t kRequestsMost = 50'000;
constexpr std::uint32_t kKeysMost = 1024;
constexpr std::uint64_t kFirstKey = 0x5045'4e53'544f'434bULL >> 1;

std::uint64_t open_in(const EngineScrape& scrape) {
  return scrape.queued_requests.value_or(0) + scrape.running_requests.value_or(0);
}

bool counts_requests(const EngineScrape& scrape) {
  return scrape.queued_requests && scrape.running_requests && scrape.completed_total;
}

template <class Counter>
std::uint64_t grown(const Counter& before, const Counter& now) {
  return before && now && *now > *before ? *now - *before : 0;
}

std::uint64_t count_of(const std::optional<Histogram>& histogram) { return histogram ? histogram->count() : 0; }

std::optional<Histogram> difference_of(const std::optional<Histogram>& before, const std::optional<Histogram>& now) {
  if (!now) return std::nullopt;
  return before ? telemetry::difference(*before, *now) : now;
}

bool has_restarted(const EngineScrape& before, const EngineScrape& now) {
  const auto fell = [](const auto& earlier, const auto& later) { return earlier && later && *later < *earlier; };
  return fell(before.completed_total, now.completed_total) || fell(before.failed_total, now.failed_total) ||
         fell(before.generation_tokens_total, now.generation_tokens_total) ||
         fell(before.prompt_tokens_total, now.prompt_tokens_total);
}

double mean_of(const Histogram& histogram) {
  const std::uint64_t count = histogram.count();
  return count == 0 ? 0.0 : histogram.sum / static_cast<double>(count);
}

// The mean of what draws from the buckets give.
double interpolated_mean(const Histogram& histogram) {
  constexpr int kDraws = 64;
  double sum = 0.0;
  for (int i = 0; i < kDraws; ++i) sum += histogram.quantile((i + 0.5) / kDraws);
  return sum / kDraws;
}

double share_at(std::uint64_t index, std::uint64_t count) {
  return (static_cast<double>(index) + 0.5) / static_cast<double>(count);
}

}  // namespace

core::Instant EngineTraffic::Interval::time_of(std::uint64_t index, std::uint64_t count) const {
  return from + core::from_seconds(core::to_seconds(to - from) * share_at(index, count));
}

std::uint32_t EngineTraffic::Lengths::draw(double share) const {
  const double length = spread ? scale * spread->quantile(share) : mean;
  return static_cast<std::uint32_t>(std::clamp(std::round(length), 1.0, 1e8));
}

// Multiples of the golden ratio cover the range evenly, however many are drawn.
double EngineTraffic::next_share(Engine& engine) {
  const double at = 0.5 + 0.618'033'988'749'895 * static_cast<double>(engine.drawn++ % 1'000'000);
  return at - std::floor(at);
}

TrafficItem& EngineTraffic::add(TrafficItem::Kind kind, std::uint64_t request, core::Instant at) {
  TrafficItem& item = items_.emplace_back();
  item.kind = kind;
  item.request = request;
  item.at_s = core::to_seconds(at - core::kStart);
  return item;
}

void EngineTraffic::begin(Engine& engine, const EngineScrape& scrape) {
  engine.reads.clear();
  engine.unreported = open_in(scrape);
  engine.unreported_waiting = std::min(engine.unreported, scrape.queued_requests.value_or(0));
}

void EngineTraffic::observe(const std::string& name, const EngineScrape& scrape, core::Instant at) {
  if (!counts_requests(scrape)) return;
  Engine& engine = engines_[name];
  if (!engine.reads.empty() && at <= engine.reads.back().at) return;
  const bool is_first = engine.reads.empty();
  if (is_first || at - engine.reads.back().at > kGapMost || has_restarted(engine.reads.back().scrape, scrape)) {
    give_up(engine, engine.open.size(), name, at);
    begin(engine, scrape);
  } else {
    const EngineScrape& before = engine.reads.back().scrape;
    const std::uint64_t ended =
        grown(before.completed_total, scrape.completed_total) + grown(before.failed_total, scrape.failed_total);
    const std::uint64_t known = engine.unreported + engine.open.size(), now = open_in(scrape) + ended;
    const Interval interval{engine.reads.back().at, at};
    if (now > known) arrive(engine, scrape, std::min(now - known, kRequestsMost), interval);
    answer(engine, scrape, interval);
    end(engine, name, scrape, interval);
    // Requests that no counter explains.
    if (now < known) give_up(engine, known - now, name, at);
  }
  // Every scrape replaces the last one, unless that is far enough from the one before.
  const bool keeps_last =
      engine.reads.size() < 2 || engine.reads.back().at - engine.reads[engine.reads.size() - 2].at >= kReadSpacing;
  if (!keeps_last) engine.reads.pop_back();
  engine.reads.push_back({scrape, at});
  while (engine.reads.size() > 2 && engine.reads[1].at <= at - kLengthsOver) engine.reads.pop_front();
}

void EngineTraffic::forget(const std::string& name, core::Instant at) {
  const auto found = engines_.find(name);
  if (found == engines_.end()) return;
  give_up(found->second, found->second.open.size(), name, at);
  engines_.erase(found);
}

void EngineTraffic::give_up(Engine& engine, std::uint64_t count, const std::string& name, core::Instant at) {
  const std::uint64_t unreported = std::min(count, engine.unreported);
  engine.unreported -= unreported;
  engine.unreported_waiting = std::min(engine.unreported_waiting, engine.unreported);
  for (count -= unreported; count > 0 && !engine.open.empty(); --count) {
    TrafficItem& item = add(TrafficItem::Kind::kEnd, engine.open.front().request, at);
    item.outcome = "cancelled";
    item.replica = name;
    item.prompt_tokens = engine.open.front().input_tokens;
    engine.open.pop_front();
  }
}

EngineTraffic::Lengths::Lengths(Histogram lengths) : spread{std::move(lengths)}, mean{mean_of(*spread)} {
  const double interpolated = interpolated_mean(*spread);
  if (interpolated > 0.0 && mean > 0.0) scale = mean / interpolated;
}

// An engine with a histogram shows the lengths of the very requests that end in an interval.
EngineTraffic::Lengths EngineTraffic::answer_lengths(const Engine& engine, const EngineScrape& now) {
  auto spread = difference_of(engine.reads.back().scrape.output_length, now.output_length);
  return count_of(spread) > 0 ? Lengths{*std::move(spread)} : lengths_of(engine, now, false);
}

EngineTraffic::Lengths EngineTraffic::lengths_of(const Engine& engine, const EngineScrape& now, bool prompts) {
  const auto spread_of = [&](const EngineScrape& scrape) -> const std::optional<Histogram>& {
    return prompts ? scrape.prompt_length : scrape.output_length;
  };
  const auto tokens_of = [&](const EngineScrape& scrape) {
    return prompts ? scrape.prompt_tokens_total : scrape.generation_tokens_total;
  };
  // A prompt is counted with its first token, where the engine reports that.
  const auto requests_of = [&](const EngineScrape& scrape) {
    return prompts && scrape.ttft_s ? std::optional{scrape.ttft_s->count()} : scrape.completed_total;
  };
  const EngineScrape& oldest = engine.reads.front().scrape;
  auto spread = difference_of(spread_of(oldest), spread_of(now));
  if (count_of(spread) < kRequestsLeast) spread = spread_of(now);
  std::uint64_t requests = grown(requests_of(oldest), requests_of(now));
  std::uint64_t tokens = grown(tokens_of(oldest), tokens_of(now));
  if (requests < kRequestsLeast) {
    requests = requests_of(now).value_or(0);
    tokens = tokens_of(now).value_or(0);
  }
  if (count_of(spread) > 0) return Lengths{*std::move(spread)};
  Lengths found;
  if (requests > 0) found.mean = static_cast<double>(tokens) / static_cast<double>(requests);
  return found;
}

double EngineTraffic::cached_share(const Engine& engine, const EngineScrape& now) {
  const EngineScrape& oldest = engine.reads.front().scrape;
  const auto asked = static_cast<double>(grown(oldest.prefix_query_tokens_total, now.prefix_query_tokens_total));
  const auto hits = static_cast<double>(grown(oldest.prefix_hit_tokens_total, now.prefix_hit_tokens_total));
  return asked > 0.0 ? std::min(1.0, hits / asked) : 0.0;
}

void EngineTraffic::arrive(Engine& engine, const EngineScrape& now, std::uint64_t count, const Interval& interval) {
  const Lengths lengths = lengths_of(engine, now, true);
  if (!(lengths.mean > 0.0)) {
    engine.unreported += count;
    engine.unreported_waiting += count;
    return;
  }
  const double cached = cached_share(engine, now);
  for (std::uint64_t i = 0; i < count; ++i) {
    Open& open = engine.open.emplace_back();
    open.request = next_request_++;
    open.input_tokens = lengths.draw(next_share(engine));
    open.cached_tokens = static_cast<std::uint32_t>(cached * open.input_tokens);
    open.latest = interval.time_of(i, count);
    TrafficItem& item = add(TrafficItem::Kind::kArrival, open.request, open.latest);
    item.model = now.model;
    item.traffic_class = "interactive";
    item.input_tokens = open.input_tokens;
    item.streamed = now.ttft_s.has_value();
    // One prefix that all prompts share has the same share of hits with any router.
    const std::uint32_t keys = std::min(kKeysMost, open.cached_tokens / kKeyTokens);
    for (std::uint32_t key = 0; key < keys; ++key) item.keys.push_back(kFirstKey + key);
  }
}

void EngineTraffic::first_token(Open& open, double ttft_s, core::Instant at) {
  open.answered = true;
  open.latest = std::max(at, open.latest);
  TrafficItem& item = add(TrafficItem::Kind::kFirstToken, open.request, open.latest);
  item.ttft_ms = 1e3 * ttft_s;
  item.cached_tokens = open.cached_tokens;
}

void EngineTraffic::answer(Engine& engine, const EngineScrape& now, const Interval& interval) {
  const auto ttft = difference_of(engine.reads.back().scrape.ttft_s, now.ttft_s);
  const std::uint64_t count = std::min(count_of(ttft), kRequestsMost);
  auto next = engine.open.begin();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (engine.unreported_waiting > 0) {
      --engine.unreported_waiting;
      continue;
    }
    next = std::find_if(next, engine.open.end(), [](const Open& open) { return !open.answered; });
    if (next == engine.open.end()) return;
    first_token(*next, ttft->quantile(share_at(i, count)), interval.time_of(i, count));
  }
}

void EngineTraffic::end(Engine& engine, const std::string& name, const EngineScrape& now, const Interval& interval) {
  const EngineScrape& before = engine.reads.back().scrape;
  const std::uint64_t completed = std::min(grown(before.completed_total, now.completed_total), kRequestsMost);
  const std::uint64_t ended = completed + std::min(grown(before.failed_total, now.failed_total), kRequestsMost);
  if (ended == 0) return;
  const Lengths lengths = answer_lengths(engine, now);
  const auto per_request = difference_of(before.tpot_s, now.tpot_s), gaps = difference_of(before.itl_s, now.itl_s);
  const auto ttft = difference_of(engine.reads.front().scrape.ttft_s, now.ttft_s);
  for (std::uint64_t i = 0; i < ended; ++i) {
    if (engine.unreported > 0) {
      --engine.unreported;
      engine.unreported_waiting = std::min(engine.unreported_waiting, engine.unreported);
      continue;
    }
    if (engine.open.empty()) return;
    Open& open = engine.open.front();
    const bool is_complete = i < completed;
    // The counters of first tokens and of ends may differ for a moment.
    if (is_complete && !open.answered && count_of(ttft) > 0)
      first_token(open, ttft->quantile(0.5), interval.time_of(i, ended));
    TrafficItem& item = add(TrafficItem::Kind::kEnd, open.request, std::max(interval.time_of(i, ended), open.latest));
    item.outcome = is_complete ? "completed" : "cancelled";
    item.replica = name;
    item.prompt_tokens = open.input_tokens;
    if (is_complete) item.output_tokens = lengths.draw(next_share(engine));
    if (item.output_tokens > 1) {
      if (count_of(per_request) > 0)
        item.itl_ms = 1e3 * per_request->quantile(share_at(i, ended));
      else if (count_of(gaps) > 0)
        item.itl_ms = 1e3 * mean_of(*gaps);
    }
    engine.open.pop_front();
  }
}

std::vector<TrafficItem> EngineTraffic::take() {
  std::stable_sort(items_.begin(), items_.end(), [](const TrafficItem& left, const TrafficItem& right) {
    return std::pair{left.at_s, left.kind} < std::pair{right.at_s, right.kind};
  });
  return std::exchange(items_, {});
}

}  // namespace penstock::controller
