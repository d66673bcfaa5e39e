// A measured engine: the tables that Dynamo's profiler writes, read from NPZ or JSON and checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::engine {

struct ProfilePoint {
  double x = 0.0;  // prompt tokens, or KV tokens
  double ms = 0.0;
};

struct DecodeLine {
  double context_tokens = 0.0;       // length of each sequence
  std::vector<ProfilePoint> points;  // ms of a step by KV tokens in flight, rising
};

struct EngineProfile {
  std::vector<ProfilePoint> prefill;  // TTFT of one prompt by its length, rising
  std::vector<DecodeLine> decode;     // by context length, rising
  double kv_tokens_max = 0.0;         // 0: not stated
};

// Fields: `prefill_isl` with `prefill_ttft_ms` or `prefill_ttft`; `decode_itl`, `z_itl` or `z_itl_ms` over
// `decode_active_kv_tokens` (or `x_kv_usage` with `max_kv_tokens`) and `decode_context_length` (or `y_context_length`).
// The decode fields are points in any order, or two axes with a grid decode_itl[kv][context]. Both parts are needed;
// they may come from several files, each given with its name, the first that has a field counts.
//
// Errors name file and field: a hole, a number that is not finite or negative, lengths that differ, an axis that does
// not rise, two points at one place, more points than kProfilePointsMax.
struct ProfileFile {
  std::string name;  // ".npz" at its end: NPZ, otherwise JSON
  std::span<const std::uint8_t> bytes;
};
inline constexpr std::size_t kProfilePointsMax = 1'000'000;
inline constexpr std::size_t kProfileBytesMax = std::size_t{64} << 20;

[[nodiscard]] core::Result<EngineProfile> read_profile(std::span<const ProfileFile> files);

}  // namespace penstock::engine
