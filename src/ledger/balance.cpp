#include "ledger/balance.h"

#include <fmt/format.h>

namespace penstock::ledger {
namespace {

std::uint64_t& count_of(Sums& sums, Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted: return sums.completed;
    case Outcome::kCancelled: return sums.cancelled;
    case Outcome::kTimedOut: return sums.timed_out;
    case Outcome::kTruncated: return sums.truncated;
    case Outcome::kFailed: return sums.failed;
    case Outcome::kRejected: return sums.rejected;
    case Outcome::kRefused: return sums.refused;
    case Outcome::kLost: return sums.lost;
  }
  return sums.lost;
}

}  // namespace

Sums& Sums::operator+=(const Sums& other) {
  opened += other.opened;
  closed += other.closed;
  completed += other.completed;
  cancelled += other.cancelled;
  timed_out += other.timed_out;
  truncated += other.truncated;
  failed += other.failed;
  rejected += other.rejected;
  refused += other.refused;
  lost += other.lost;
  reserved_tokens += other.reserved_tokens;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  output_tokens += other.output_tokens;
  cost += other.cost;
  return *this;
}

std::string imbalance(const Sums& sums, std::uint64_t open) {
  if (sums.closed + open != sums.opened)
    return fmt::format("{} were opened, {} closed and {} are open", sums.opened, sums.closed, open);
  const std::uint64_t ended =
      sums.completed + sums.cancelled + sums.timed_out + sums.truncated + sums.failed + sums.rejected + sums.lost;
  if (ended != sums.closed) return fmt::format("{} were closed, and {} have an outcome", sums.closed, ended);
  if (open == 0 && sums.reserved_tokens != 0)
    return fmt::format("none is open, and {} tokens are reserved", sums.reserved_tokens);
  if (sums.cached_tokens > sums.prompt_tokens)
    return fmt::format("{} cached tokens in prompts of {}", sums.cached_tokens, sums.prompt_tokens);
  return {};
}

void Balance::found(const Entry& entry, const std::string& what) {
  if (fault_.empty() && !what.empty()) fault_ = fmt::format("{}, {}: {}", entry.tenant, entry.model, what);
}

std::pair<const Balance::Key, Sums>& Balance::sums_of(const Entry& entry) {
  const auto at = sums_.find(std::pair<std::string_view, std::string_view>{entry.tenant, entry.model});
  return at != sums_.end() ? *at : *sums_.try_emplace(Key{entry.tenant, entry.model}).first;
}

void Balance::open(const Entry& entry) {
  const auto [at, is_new] = open_.try_emplace(entry.id);
  if (!is_new) return found(entry, fmt::format("entry {} was opened twice", entry.id));
  auto& [key, sums] = sums_of(entry);
  at.value() = {&key, &sums, entry.reserved_tokens};
  ++sums.opened;
  sums.reserved_tokens += entry.reserved_tokens;
}

void Balance::close(const Entry& entry) {
  const auto at = open_.find(entry.id);
  if (at == open_.end()) return found(entry, fmt::format("entry {} was closed, but is not open", entry.id));
  const Open& open = at->second;
  found(entry, imbalance(entry));
  if (entry.outcome == Outcome::kRefused) found(entry, fmt::format("entry {} was opened, and then refused", entry.id));
  if (open.key->first != entry.tenant || open.key->second != entry.model ||
      open.reserved_tokens != entry.reserved_tokens)
    found(entry, fmt::format("entry {} was closed with other values than it was opened with", entry.id));
  Sums& sums = *open.sums;
  ++sums.closed;
  ++count_of(sums, entry.outcome);
  sums.reserved_tokens -= open.reserved_tokens;
  sums.prompt_tokens += entry.prompt_tokens;
  sums.cached_tokens += entry.cached_tokens;
  sums.output_tokens += entry.output_tokens;
  sums.cost += entry.cost;
  open_.erase(at);
}

void Balance::refuse(const Entry& entry) {
  found(entry, imbalance(entry));
  if (entry.outcome != Outcome::kRefused)
    found(entry, fmt::format("entry {} was refused as {}", entry.id, to_string(entry.outcome)));
  ++sums_of(entry).second.refused;
}

std::string Balance::fault() const {
  if (!fault_.empty()) return fault_;
  std::map<Key, std::uint64_t> open;
  std::map<Key, std::uint64_t> reserved;
  // The order does not matter, because only sums are computed.
  for (auto at = open_.begin(); at != open_.end(); ++at) {
    ++open[*at->second.key];
    reserved[*at->second.key] += at->second.reserved_tokens;
  }
  for (const auto& [key, sums] : sums_) {
    if (const std::string what = imbalance(sums, open[key]); !what.empty())
      return fmt::format("{}, {}: {}", key.first, key.second, what);
    if (sums.reserved_tokens != reserved[key])
      return fmt::format("{}, {}: {} tokens are reserved, open entries have {}", key.first, key.second,
                         sums.reserved_tokens, reserved[key]);
  }
  return {};
}

}  // namespace penstock::ledger
