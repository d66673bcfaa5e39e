// The ledger entry of a request: what was reserved, delivered and charged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::ledger {

enum class Outcome : std::uint8_t {
  kCompleted,
  kCancelled,  // The client left.
  kTimedOut,   // The time budget ended; the client received the output up to then.
  kTruncated,  // The replica's answer ended before it was whole, after the client had received a part of it.
  kFailed,     // A replica failed the request: the client received an error and no part of an answer.
  kRejected,   // A replica rejected the request as invalid and computed nothing; see gateway::is_rejection().
  kRefused,    // The request was never admitted.
  kLost,       // The gateway process ended before the outcome was known. The next start closes the entry.
};
// Returns "completed", "cancelled", "timed_out", "truncated", "failed", "rejected", "refused" or "lost".
[[nodiscard]] const char* to_string(Outcome outcome);
[[nodiscard]] std::optional<Outcome> outcome_of(std::string_view name);

// An entry is opened at admission with the estimated prompt and its cost, which remain if the gateway stops before the
// entry closes. It is closed once with the outcome; closed_unix_ms is 0 until then. Prompt tokens are split into cached
// and computed ones, and reserved tokens into delivered and refunded ones.
struct Entry {
  std::uint64_t id = 0;  // Ascending within one ledger.
  std::string request_id, tenant;
  std::string key_name;  // Name of the API key in the configuration; empty without a key. Never the key.
  std::string model, traffic_class, replica;
  std::int64_t opened_unix_ms = 0, closed_unix_ms = 0;
  std::uint64_t reserved_tokens = 0;  // Estimate of prompt and output that was taken from the budget.
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // True if the engine reported the token counts; false if they are estimates and counted events.
  bool measured = false;
  Outcome outcome = Outcome::kCompleted;
  double ttft_ms = -1.0, itl_ms = -1.0;  // Negative if there is no value.
  double cost = 0.0;
};

// What an entry, or several of one time, took from budgets: the tokens that were used, or reserved where the end is
// unknown.
struct PastUse {
  std::string tenant, traffic_class;
  std::int64_t at_unix_ms = 0;  // When it was opened.
  std::uint64_t tokens = 0;
};
[[nodiscard]] PastUse use_of(const Entry& entry);

struct Price {  // USD per million tokens.
  double input = 0.0, cached_input = 0.0, output = 0.0;
};
[[nodiscard]] double cost_of(const Entry& entry, const Price& price);

// Returns why the entry is contradictory, for example more cached than prompt tokens, closed before opened, or tokens
// delivered to a refused request. Empty if it balances.
[[nodiscard]] std::string imbalance(const Entry& entry);

}  // namespace penstock::ledger
