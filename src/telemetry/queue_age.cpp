#include "telemetry/queue_age.h"

#include <algorithm>

namespace penstock::telemetry {
namespace {

constexpr core::Duration kWindow = std::chrono::seconds{30};
constexpr double kQueueAgeMaxS = 1e9;

}  // namespace

std::optional<QueueAge::Counts> QueueAge::counts_of(const EngineScrape& scrape, core::Instant at) {
  if (scrape.queue_s) return Counts{at, scrape.queue_s->count(), scrape.queue_s->sum, true};
  if (scrape.completed_total) return Counts{at, *scrape.completed_total + scrape.failed_total.value_or(0)};
  if (scrape.request_s) return Counts{at, scrape.request_s->count()};
  return std::nullopt;
}

std::optional<core::Duration> QueueAge::observe(const EngineScrape& scrape, core::Instant at) {
  if (!scrape.queued_requests) return std::nullopt;
  if (const auto now = counts_of(scrape, at)) {
    // The engine restarted, or reports another figure.
    if (!counts_.empty() && (counts_.back().left > now->left || counts_.back().has_times != now->has_times))
      counts_.clear();
    while (counts_.size() > 1 && counts_[1].at <= at - kWindow) counts_.pop_front();
    counts_.push_back(*now);
  } else {
    counts_.clear();
  }
  if (*scrape.queued_requests == 0) {
    empty_at_ = at;
    filled_at_.reset();
    return core::Duration{};
  }
  if (!filled_at_) filled_at_ = at;
  if (scrape.oldest_queued_s) return core::from_seconds(std::clamp(*scrape.oldest_queued_s, 0.0, kQueueAgeMaxS));

  const core::Duration waiting = at - empty_at_.value_or(*filled_at_);
  if (counts_.size() < 2) return std::nullopt;
  const Counts &from = counts_.front(), &to = counts_.back();
  const auto left = static_cast<double>(to.left - from.left);
  if (left == 0.0) return waiting;
  const double by_rate = static_cast<double>(*scrape.queued_requests) * core::to_seconds(to.at - from.at) / left;
  const double by_times = to.has_times ? std::max(0.0, to.waited_s - from.waited_s) / left : 0.0;
  const core::Duration age = core::from_seconds(std::min(kQueueAgeMaxS, std::max(by_rate, by_times)));
  return empty_at_ ? std::min(age, waiting) : age;
}

}  // namespace penstock::telemetry
