// A measured engine profile: tables written by Dynamo's profiler, read from NPZ or JSON and validated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::engine {

struct ProfilePoint {
  double x = 0.0;  // Prompt tokens or KV tokens.
  double ms = 0.0;
};

struct DecodeLine {
  double context_tokens = 0.0;       // Length of each sequence.
  std::vector<ProfilePoint> points;  // Step time in ms by KV tokens in flight, ascending.
};

struct EngineProfile {
  std::vector<ProfilePoint> prefill;  // TTFT of a single prompt by its length, ascending.
  // Time that a prompt adds to a step that decodes, at the same lengths. Empty: its TTFT.
  std::vector<ProfilePoint> prefill_added;
  std::vector<DecodeLine> decode;  // Ascending by context length.
  double kv_tokens_max = 0.0;      // 0 if the profile does not state it.
  double sequences_max = 0.0;      // Sequences at once; 0 if the profile does not state it.
  // The measurement ended at the value before the engine did, so that it is not a limit of the engine.
  bool kv_tokens_at_least = false, sequences_at_least = false;
};

// `max_sequences` and `max_kv_tokens` of a JSON document count as limits of the measurement if `max_sequences_from` or
// `max_kv_tokens_from` is "measurement", and `max_sequences` also if a document with `measured` points does not say.
//
// Fields: `prefill_isl` with `prefill_ttft_ms` or `prefill_ttft`, and perhaps `prefill_added_ms`; `decode_itl`, `z_itl`
// or `z_itl_ms` over `decode_active_kv_tokens` (or `x_kv_usage` with `max_kv_tokens`) and `decode_context_length` (or
// `y_context_length`).
// The decode fields are points in any order, or two axes with a grid decode_itl[kv][context]. Both parts are required;
// they may come from several named files, and the first file with a field is used.
//
// Errors name file and field: missing points, values that are not finite or negative, different lengths, an axis that
// does not ascend, duplicate points, more points than kProfilePointsMax.
struct ProfileFile {
  std::string name;  // A name ending in ".npz" means NPZ, any other name JSON.
  std::span<const std::uint8_t> bytes;
};
inline constexpr std::size_t kProfilePointsMax = 1'000'000;
inline constexpr std::size_t kProfileBytesMax = std::size_t{64} << 20;

[[nodiscard]] core::Result<EngineProfile> read_profile(std::span<const ProfileFile> files);

}  // namespace penstock::engine
