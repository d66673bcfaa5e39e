#include "profiling/traffic_check.h"

#include <fmt/format.h>

namespace penstock::profiling {
namespace {

constexpr std::uint64_t kTokensLeast = 64;  // Tokens of prompts are counted slightly differently by usage and metrics.

std::uint64_t in_flight(const telemetry::EngineScrape& scrape) {
  return scrape.running_requests.value_or(0) + scrape.queued_requests.value_or(0);
}

std::uint64_t gained(const std::optional<std::uint64_t>& now, const std::optional<std::uint64_t>& then) {
  return now && then && *now > *then ? *now - *then : 0;
}

}  // namespace

void TrafficCheck::record_ours(std::uint64_t requests, std::uint64_t prompt_tokens) {
  requests_ += requests;
  prompt_tokens_ += prompt_tokens;
}

bool TrafficCheck::is_busy(const telemetry::EngineScrape& scrape) { return in_flight(scrape) > 0; }

std::optional<std::string> TrafficCheck::take(const telemetry::EngineScrape& scrape) {
  if (const std::uint64_t others = in_flight(scrape); others > 0)
    return fmt::format("{} other request{} in flight", others, others == 1 ? " is" : "s are");
  const Counters now{scrape.completed_total, scrape.prompt_tokens_total};
  if (!first_) {
    first_ = now;
    return std::nullopt;
  }
  if (const std::uint64_t requests = gained(now.requests, first_->requests); requests > requests_)
    return fmt::format("{} of {} requests since the start are not from this program", requests - requests_, requests);
  const std::uint64_t tokens = gained(now.prompt_tokens, first_->prompt_tokens);
  if (tokens > prompt_tokens_ + prompt_tokens_ / 50 + kTokensLeast)
    return fmt::format("{} of {} prompt tokens since the start are not from this program", tokens - prompt_tokens_,
                       tokens);
  return std::nullopt;
}

}  // namespace penstock::profiling
