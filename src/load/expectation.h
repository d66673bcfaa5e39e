// What a run is held to: "ttft_p95=2s,itl_p95=50ms,errors=0,rate=4.5".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "load/tally.h"

namespace penstock::load {

struct Expectation {
  std::string name;   // "ttft_p95"
  std::string limit;  // as it was written
  enum class Kind : std::uint8_t { kLatency, kCount, kShare, kRate } kind = Kind::kLatency;
  double bound = 0.0;  // milliseconds, requests, share of those that ended, per second
};

// Names are ttft, itl, gap, max_gap, latency or first_byte with _p50, _p99.9, _mean or _max (at most so long); errors,
// failed, truncated, timed_out, refused or cancelled (at most so many, or such a share: "1%"); rate and tokens (requests
// that ended well and tokens, at least so many a second). Errors name the word and have no place.
[[nodiscard]] core::Result<std::vector<Expectation>> parse_expectations(std::string_view text);

struct Verdict {
  std::string name, limit;
  std::string seen;  // "1.42 s"; "nothing measured" where there is no figure
  bool is_met = false;
};
// A latency of which there is no sample is not met: missing is not zero.
[[nodiscard]] std::vector<Verdict> judge(const std::vector<Expectation>& expectations, const Tally& tally);

// Over the time up to the last answer's end; 0 before any.
[[nodiscard]] double ok_per_s(const Tally& tally);
[[nodiscard]] double tokens_per_s(const Tally& tally);

}  // namespace penstock::load
