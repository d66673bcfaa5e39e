// Pass criteria of a run: "ttft_p95=2s,itl_p95=50ms,errors=0,rate=4.5".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "load/tally.h"

namespace penstock::load {

struct Expectation {
  std::string name;   // For example "ttft_p95".
  std::string limit;  // As written by the user.
  enum class Kind : std::uint8_t { kLatency, kCount, kShare, kRate } kind = Kind::kLatency;
  double bound = 0.0;  // Milliseconds, requests, share of ended requests, or per second.
};

// Names: ttft, itl (or tpot, the same), gap, max_gap, latency or first_byte with _p50, _p99.9, _mean or _max (upper
// limit); errors, failed, truncated, timed_out, refused or cancelled (upper limit as count or share: "1%"); rate and
// tokens (successful requests and tokens per second, lower limit). Errors name the word and have no location.
[[nodiscard]] core::Result<std::vector<Expectation>> parse_expectations(std::string_view text);

struct Verdict {
  std::string name, limit;
  std::string measured;  // For example "1.42 s"; otherwise why there is no value.
  bool is_met = false;
};
// A latency without samples fails its criterion, and all criteria fail if no request ended: missing is not zero.
[[nodiscard]] std::vector<Verdict> check_expectations(const std::vector<Expectation>& expectations, const Tally& tally);

// Relative to the time of the last response's end; 0 before any.
[[nodiscard]] double ok_per_s(const Tally& tally);
[[nodiscard]] double tokens_per_s(const Tally& tally);

}  // namespace penstock::load
