#include "ledger/entry.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/enum_names.h"

namespace penstock::ledger {
namespace {

constexpr double kPriceTokens = 1e6;
constexpr std::array kOutcomes{Outcome::kCompleted, Outcome::kCancelled, Outcome::kTimedOut, Outcome::kTruncated,
                               Outcome::kFailed,    Outcome::kRejected,  Outcome::kRefused,  Outcome::kLost};

}  // namespace

const char* to_string(Outcome outcome) {
  return core::name_of<Outcome::kLost>(
      outcome, {"completed", "cancelled", "timed_out", "truncated", "failed", "rejected", "refused", "lost"});
}

std::optional<Outcome> outcome_of(std::string_view name) {
  for (const Outcome outcome : kOutcomes)
    if (name == to_string(outcome)) return outcome;
  return std::nullopt;
}

PastUse use_of(const Entry& entry) {
  const bool ended = entry.closed_unix_ms > 0 && entry.outcome != Outcome::kLost;
  return {entry.tenant, entry.traffic_class, entry.opened_unix_ms,
          ended ? entry.prompt_tokens + entry.output_tokens : entry.reserved_tokens};
}

double cost_of(const Entry& entry, const Price& price) {
  const auto cached = static_cast<double>(entry.cached_tokens), output = static_cast<double>(entry.output_tokens);
  const double computed = static_cast<double>(entry.prompt_tokens) - cached;
  return (computed * price.input + cached * price.cached_input + output * price.output) / kPriceTokens;
}

std::string imbalance(const Entry& entry) {
  if (entry.cached_tokens > entry.prompt_tokens)
    return fmt::format("entry {} has {} cached tokens in a prompt of {}", entry.id, entry.cached_tokens,
                       entry.prompt_tokens);
  if (entry.closed_unix_ms != 0 && entry.closed_unix_ms < entry.opened_unix_ms)
    return fmt::format("entry {} was closed {} ms before it was opened", entry.id,
                       entry.opened_unix_ms - entry.closed_unix_ms);
  if (!std::isfinite(entry.cost) || entry.cost < 0.0) return fmt::format("entry {} costs {}", entry.id, entry.cost);
  if (entry.outcome != Outcome::kRefused) return {};
  if (entry.output_tokens > 0 || entry.cached_tokens > 0)
    return fmt::format("entry {} was refused, and has {} tokens delivered", entry.id,
                       entry.output_tokens + entry.cached_tokens);
  if (entry.cost > 0.0 || entry.reserved_tokens > 0)
    return fmt::format("entry {} was refused, and costs {} with {} tokens reserved", entry.id, entry.cost,
                       entry.reserved_tokens);
  return {};
}

}  // namespace penstock::ledger
