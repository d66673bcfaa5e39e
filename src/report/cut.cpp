#include "report/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "report/decision_log_text.h"

namespace penstock::report {

using decision::DecisionRecord;
using decision::RunResult;
using decision::SeriesPoint;

namespace {

constexpr int kTailShare = 10;  // A remainder below this part of an interval belongs to the last interval.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::uint32_t paid_for(const SeriesPoint& point) { return point.starting + point.ready + point.draining; }

double awake(const SeriesPoint& point) { return paid_for(point); }
double priced(const SeriesPoint& point) { return paid_for(point) + point.asleep_paid; }
double asleep(const SeriesPoint& point) { return point.asleep; }

// Replica time between two moments in seconds. Each point covers the time since the previous one.
double replica_seconds(const std::vector<SeriesPoint>& series, const Interval& interval,
                       double (*replicas)(const SeriesPoint&)) {
  double sum = 0.0;
  core::Instant before = core::kStart;
  for (const SeriesPoint& point : series) {
    if (point.at > interval.from && point.at <= interval.to)
      sum += core::to_seconds(point.at - before) * replicas(point);
    before = point.at;
  }
  return sum;
}

std::uint64_t turns(const std::vector<DecisionRecord>& decisions) {
  std::map<std::string, bool> last_up;
  std::uint64_t count = 0;
  for (const DecisionRecord& record : decisions) {
    const bool up = record.target > record.current;
    const auto [known, is_new] = last_up.emplace(record.pool, up);
    if (!is_new && known->second != up) ++count;
    known->second = up;
  }
  return count;
}

template <class Item>
std::vector<Item> within(const std::vector<Item>& items, const Interval& interval) {
  std::vector<Item> kept;
  std::copy_if(items.begin(), items.end(), std::back_inserter(kept),
               [&](const Item& item) { return item.at > interval.from && item.at <= interval.to; });
  for (Item& item : kept) item.at = core::kStart + (item.at - interval.from);
  return kept;
}

// The GPU-hours and the cost of `whole` are those since `scored_from`.
RunResult cut(const RunResult& whole, const Interval& interval, core::Instant scored_from) {
  RunResult part;
  part.policy = whole.policy;
  part.router = whole.router;
  part.series = within(whole.series, interval);
  part.decisions = within(whole.decisions, interval);
  part.holds = within(whole.holds, interval);
  part.forecasts = within(whole.forecasts, interval);
  std::uint64_t judged = 0, kept = 0;
  for (const SeriesPoint& point : part.series) {
    part.requests += point.arrived;
    part.completed += point.completed;
    judged += point.judged;
    kept += point.met_slo;
    part.peak_replicas = std::max(part.peak_replicas, paid_for(point));
  }
  const auto first = std::find_if(whole.series.rbegin(), whole.series.rend(),
                                  [&](const SeriesPoint& point) { return point.at <= interval.from; });
  part.replicas = first == whole.series.rend() ? whole.replicas : paid_for(*first);
  part.slo_attainment = judged == 0 ? kUnknown : static_cast<double>(kept) / static_cast<double>(judged);
  part.ttft_attainment = part.itl_attainment = kUnknown;
  part.duration_s = core::to_seconds(interval.to - interval.from);
  part.goodput_rps = static_cast<double>(kept) / part.duration_s;
  const double all = replica_seconds(whole.series, {scored_from, core::kNever}, priced);
  const double here = replica_seconds(whole.series, interval, priced);
  part.mean_replicas = replica_seconds(whole.series, interval, awake) / part.duration_s;
  part.mean_asleep = replica_seconds(whole.series, interval, asleep) / part.duration_s;
  part.gpu_hours = all > 0.0 ? whole.gpu_hours * here / all : 0.0;
  part.cost = all > 0.0 ? whole.cost * here / all : 0.0;
  part.prefix_hit_ratio = kUnknown;
  part.scaling_actions = part.decisions.size();
  part.direction_changes = turns(part.decisions);
  return part;
}

}  // namespace

std::vector<Interval> intervals_of(const RunResult& result, core::Duration length) {
  std::vector<Interval> intervals;
  if (result.series.empty() || length <= core::Duration{}) return intervals;
  const core::Instant end = result.series.back().at;
  for (core::Instant from = core::kStart; from < end;) {
    const core::Instant to = end - from > length + length / kTailShare ? from + length : end;
    intervals.push_back({from, to});
    from = to;
  }
  return intervals;
}

Report cut(const RunInfo& info, const RunResult& result, const Interval& interval) {
  Report report;
  report.info = info;
  report.results.push_back(cut(result, interval, core::kStart + info.score_from));
  report.info.workload += fmt::format(" ({} to {})", format_moment(interval.from), format_moment(interval.to));
  report.info.requests = report.results.front().requests;
  report.info.duration = interval.to - interval.from;
  report.info.notes.push_back(fmt::format(
      "{} to {} of the run; times count from the start of this part. Latency percentiles are in the charts; "
      "segments and {} failures are in the report of the whole run",
      format_moment(interval.from), format_moment(interval.to), result.failed));
  return report;
}

}  // namespace penstock::report
