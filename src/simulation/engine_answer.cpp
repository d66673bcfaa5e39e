#include "simulation/engine_answer.h"

#include <algorithm>

#include "core/random.h"

namespace penstock::simulation {
namespace {

ledger::Outcome ledger_outcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCancelled: return ledger::Outcome::kCancelled;
    case Outcome::kTimedOut: return ledger::Outcome::kTimedOut;
    case Outcome::kTruncated: return ledger::Outcome::kTruncated;
    default: return ledger::Outcome::kFailed;
  }
}

// Each token is an event; the first event of a chat and the last one have no text.
dispatch::SeenOutput seen_output(std::uint32_t tokens) {
  constexpr std::uint64_t kBytesPerToken = 4;
  return {tokens, tokens + 2, kBytesPerToken * tokens};
}

std::optional<dispatch::TokenUsage> reported_usage(dispatch::TokenUsage usage, const Answerer& by) {
  enum : std::uint32_t { kHigh, kLow, kZero, kAbsent, kHuge, kChanging, kCachedAbovePrompt, kEnd };
  const bool is_false = std::any_of(by.faults.events.begin(), by.faults.events.end(), [&](const FaultEvent& event) {
    return is_active(event, FaultKind::kMiscount, by.replica, by.pool, by.now);
  });
  if (!is_false) return usage;
  core::RandomStream random = core::RandomStream{by.seed}.fork("miscount").fork(by.replica);
  const auto times = [&](double factor) {
    const auto scaled = [&](std::uint32_t tokens) {
      return static_cast<std::uint32_t>(std::min(factor * tokens, double{UINT32_MAX}));
    };
    usage.prompt_tokens = scaled(usage.prompt_tokens);
    usage.output_tokens = scaled(usage.output_tokens);
  };
  // One or two events show nothing.
  const std::uint32_t unseen = usage.output_tokens <= 2 ? usage.output_tokens : 0;
  switch (random.below(kEnd)) {
    case kHigh: times(50.0 + random.uniform() * 1e6); break;
    case kLow: times(random.uniform() * 0.9); break;
    case kZero: usage = {}; break;
    case kAbsent: return std::nullopt;
    case kHuge: usage = {UINT32_MAX, UINT32_MAX, UINT32_MAX}; break;
    case kChanging: times(by.now.time_since_epoch().count() % 2 == 0 ? 50.0 : 0.1); break;
    case kCachedAbovePrompt: usage.cached_tokens = usage.prompt_tokens * 2 + 1; break;
  }
  if (unseen > 0) usage.output_tokens = unseen;
  return usage;
}

}  // namespace

dispatch::RequestOutcome completed_answer(const dispatch::TokenUsage& usage, const Answerer& answerer) {
  dispatch::RequestOutcome made;
  made.attempt = dispatch::Attempt::kAnswered;
  made.usage = reported_usage(usage, answerer);
  made.output = seen_output(usage.output_tokens);
  made.last_token_at = answerer.now;
  return made;
}

dispatch::RequestOutcome cut_answer(Outcome outcome, std::uint32_t tokens, core::Instant now) {
  dispatch::RequestOutcome made;
  made.outcome = ledger_outcome(outcome);
  const bool is_fault = outcome == Outcome::kReplicaCrashed || outcome == Outcome::kReplicaTimeout;
  if (is_fault && tokens > 0) made.outcome = ledger::Outcome::kTruncated;
  if (is_fault || outcome == Outcome::kTruncated) made.attempt = dispatch::Attempt::kFaulted;
  made.output = seen_output(tokens);
  made.last_token_at = now;
  return made;
}

}  // namespace penstock::simulation
