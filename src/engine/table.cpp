#include "engine/table.h"

#include <algorithm>
#include <utility>

#include "engine/decode_growth.h"

namespace penstock::engine {
namespace {

double slope(const ProfilePoint& a, const ProfilePoint& b) { return std::max(0.0, (b.ms - a.ms) / (b.x - a.x)); }

// `beyond` is the slope above the last point.
double along(std::span<const ProfilePoint> points, double x, double beyond) {
  if (x <= points.front().x) return points.front().ms;
  if (x >= points.back().x) return points.back().ms + beyond * (x - points.back().x);
  const auto above = std::upper_bound(points.begin(), points.end(), x, [](double v, const auto& p) { return v < p.x; });
  const auto below = above - 1;
  return below->ms + (above->ms - below->ms) * ((x - below->x) / (above->x - below->x));
}

double along_prompts(std::span<const ProfilePoint> curve, double new_tokens) {
  return along(curve, new_tokens, curve.size() < 2 ? 0.0 : slope(curve[curve.size() - 2], curve.back()));
}

double along(const DecodeLine& line, double kv_tokens) {
  return along(line.points, kv_tokens, line.points.size() < 2 ? 0.0 : slope(line.points.front(), line.points.back()));
}

}  // namespace

Table::Table(EngineProfile profile, std::string name) : profile_{std::move(profile)}, name_{std::move(name)} {
  PENSTOCK_ASSERT(!profile_.prefill.empty() && !profile_.decode.empty(), "read_profile() returns both parts");
}

double Table::prefill_ms(double new_tokens) const { return along_prompts(profile_.prefill, new_tokens); }

double Table::prefill_added_ms(double new_tokens) const {
  return profile_.prefill_added.empty() ? prefill_ms(new_tokens) : along_prompts(profile_.prefill_added, new_tokens);
}

double Table::decode_ms(double kv_tokens, double context_tokens) const {
  const auto& lines = profile_.decode;
  const auto above = std::upper_bound(lines.begin(), lines.end(), context_tokens,
                                      [](double v, const DecodeLine& line) { return v < line.context_tokens; });
  if (above == lines.begin()) return along(lines.front(), kv_tokens);
  const auto below = above - 1;
  const double low = along(*below, kv_tokens);
  if (above == lines.end()) return low;
  const double share = (context_tokens - below->context_tokens) / (above->context_tokens - below->context_tokens);
  return low + (along(*above, kv_tokens) - low) * share;
}

double Table::prefill_part_ms(const StepShape& shape) const {
  if (shape.prefill_new_tokens == 0) return 0.0;
  const auto tokens = static_cast<double>(shape.prefill_new_tokens);
  return shape.decode_sequences == 0 ? prefill_ms(tokens) : prefill_added_ms(tokens);
}

core::Duration Table::time(double prefill_ms, std::uint32_t sequences, std::uint64_t context_tokens) const {
  if (sequences == 0) return whole_nanoseconds(prefill_ms * 1e6);
  const auto kv_tokens = static_cast<double>(context_tokens);
  return whole_nanoseconds((prefill_ms + decode_ms(kv_tokens, kv_tokens / sequences)) * 1e6);
}

core::Duration Table::step(const StepShape& shape) const {
  return time(prefill_part_ms(shape), shape.decode_sequences, shape.decode_context_tokens);
}

DecodeRun Table::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  const double prefill = prefill_part_ms(shape);
  return run_while_growing(shape, steps, limit,
                           [&](std::uint64_t context) { return time(prefill, shape.decode_sequences, context); });
}

}  // namespace penstock::engine
