// What a request was given and what it cost, as an entry that balances.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::ledger {

enum class Outcome : std::uint8_t {
  kCompleted,
  kCancelled,  // the client left
  kTimedOut,   // its time budget ended; it has what there was until then
  kFailed,     // a replica failed it
  kRefused,    // never let in
  kLost,       // the gateway ended without knowing how it went; found at the next start
};
[[nodiscard]] const char* to_string(Outcome outcome);  // "completed", "cancelled", "timed_out", "failed", …
[[nodiscard]] std::optional<Outcome> outcome_of(std::string_view name);

// Opened when it is let in, with the estimate of its prompt and the cost of that prompt: that is what stays of it should the
// gateway end before it closes. closed_unix_ms is 0 while it is open. Closed once with what came of it. Tokens of the prompt
// are split into those found in a cache and those computed; what was reserved is what was delivered and what was given back.
struct Entry {
  std::uint64_t id = 0;  // ascending in one ledger
  std::string request_id, tenant, key_name, model, traffic_class, replica;
  std::int64_t opened_unix_ms = 0, closed_unix_ms = 0;
  std::uint64_t reserved_tokens = 0;  // estimate of prompt and output, taken from the budget
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  bool measured = false;  // the tokens are the engine's own figures; else estimates and counted events
  Outcome outcome = Outcome::kCompleted;
  double ttft_ms = -1.0, itl_ms = -1.0;  // below 0: there is none
  double cost = 0.0;
};

struct Price {  // of a million tokens
  double input = 0.0, cached_input = 0.0, output = 0.0;
};
[[nodiscard]] double cost_of(const Entry& entry, const Price& price);

// Why an entry cannot be: more cached than prompt tokens, closed before it was opened, tokens delivered to one that was
// refused. Empty: it balances.
[[nodiscard]] std::string imbalance(const Entry& entry);

}  // namespace penstock::ledger
