#include "planner/policies/dynamo_pass_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner {

namespace {

// Least squares without an intercept on centred values; slopes are not negative.
struct Moments {
  double xx = 0.0, xz = 0.0, zz = 0.0, xy = 0.0, zy = 0.0;
};
std::array<double, 2> nonnegative_slopes(const Moments& m) {
  // Below this share of xx · zz, both features move together, and a ridge divides the slope between them.
  constexpr double kSingular = 1e-12, kRidge = 1e-9;
  if (m.xx <= 0.0 && m.zz <= 0.0) return {};
  const double x_alone = m.xx > 0.0 ? std::max(0.0, m.xy / m.xx) : 0.0;
  const double z_alone = m.zz > 0.0 ? std::max(0.0, m.zy / m.zz) : 0.0;
  if (m.xx <= 0.0) return {0.0, z_alone};
  if (m.zz <= 0.0) return {x_alone, 0.0};
  double xx = m.xx, zz = m.zz;
  if (xx * zz - m.xz * m.xz <= kSingular * xx * zz) {
    xx *= 1.0 + kRidge;
    zz *= 1.0 + kRidge;
  }
  const double determinant = xx * zz - m.xz * m.xz;
  if (determinant > 0.0) {
    const double x = (m.xy * zz - m.zy * m.xz) / determinant;
    const double z = (m.zy * xx - m.xy * m.xz) / determinant;
    if (x >= 0.0 && z >= 0.0) return {x, z};
  }
  // One slope is 0 at the optimum: the other alone explains 2 · slope · covariance - slope² · variance.
  const double by_x = 2.0 * x_alone * m.xy - x_alone * x_alone * m.xx;
  const double by_z = 2.0 * z_alone * m.zy - z_alone * z_alone * m.zz;
  return by_x >= by_z ? std::array{x_alone, 0.0} : std::array{0.0, z_alone};
}

}  // namespace

std::size_t DynamoPassTimes::kind_of(const ForwardPass& pass) {
  const bool prefills = pass.prefill_tokens > 0.0 || pass.prefill_requests > 0.0;
  const bool decodes = pass.decode_sequences > 0.0 || pass.decode_tokens > 0.0;
  return prefills && decodes ? 2 : decodes ? 1 : 0;
}

DynamoPassTimes::Features DynamoPassTimes::features_of(const ForwardPass& pass) {
  const double requests = std::max(1.0, pass.prefill_requests);
  const double before = pass.prefill_context_tokens / requests;
  const double pairs = pass.prefill_tokens * (before + (pass.prefill_tokens / requests + 1.0) / 2.0);
  return {pass.decode_tokens + pass.prefill_context_tokens + pairs, pass.prefill_tokens + pass.decode_sequences};
}

void DynamoPassTimes::observe(const core::Iteration& pass) {
  if (pass.time <= core::Duration{} || (pass.prefill_requests == 0 && pass.decode_sequences == 0)) return;
  const ForwardPass work{static_cast<double>(pass.prefill_requests), static_cast<double>(pass.prefill_new_tokens),
                         static_cast<double>(pass.prefill_context_tokens), static_cast<double>(pass.decode_sequences),
                         static_cast<double>(pass.decode_context_tokens)};
  Regression& regression = kinds_[kind_of(work)];
  regression.add({features_of(work), core::to_seconds(pass.time)});
  regression.fit();
}

std::optional<double> DynamoPassTimes::estimate(const ForwardPass& pass) const {
  const Regression& regression = kinds_[kind_of(pass)];
  if (!regression.fitted) return std::nullopt;
  const Features x = features_of(pass);
  return std::max(0.0, regression.constant + regression.slopes[0] * x[0] + regression.slopes[1] * x[1]);
}

std::size_t DynamoPassTimes::passes() const { return kinds_[0].size + kinds_[1].size + kinds_[2].size; }

std::size_t DynamoPassTimes::Regression::bucket_of(const Sample& sample) const {
  std::size_t bucket = 0;
  for (std::size_t axis = 0; axis < sample.x.size(); ++axis) {
    const double width = most[axis] - least[axis];
    const double share = width > 0.0 ? (std::log1p(sample.x[axis]) - least[axis]) / width : 0.0;
    const auto place = static_cast<std::size_t>(std::max(0.0, share * kBucketsPerAxis));
    bucket = bucket * kBucketsPerAxis + std::min(place, kBucketsPerAxis - 1);
  }
  return bucket;
}

void DynamoPassTimes::Regression::add(const Sample& sample) {
  const Features least_before = least, most_before = most;
  for (std::size_t axis = 0; axis < sample.x.size(); ++axis) {
    const double x = std::log1p(sample.x[axis]);
    least[axis] = size == 0 ? x : std::min(least[axis], x);
    most[axis] = size == 0 ? x : std::max(most[axis], x);
  }
  if (least != least_before || most != most_before) {
    const auto before = std::exchange(buckets, {});
    for (const auto& bucket : before)
      for (const Sample& kept : bucket) buckets[bucket_of(kept)].push_back(kept);
  }
  buckets[bucket_of(sample)].push_back(sample);
  if (++size <= kPassesMax) return;
  auto* fullest = &buckets.front();
  for (auto& bucket : buckets)
    if (bucket.size() >= fullest->size()) fullest = &bucket;
  fullest->pop_front();
  --size;
}

void DynamoPassTimes::Regression::fit() {
  if (size < kPassesMin) return;
  const auto count = static_cast<double>(size);
  Features mean{};
  double mean_s = 0.0;
  for (const auto& bucket : buckets) {
    for (const Sample& sample : bucket) {
      mean[0] += sample.x[0];
      mean[1] += sample.x[1];
      mean_s += sample.seconds;
    }
  }
  // Sums of whole numbers are exact, so that a feature that never changes has no variance.
  mean[0] /= count;
  mean[1] /= count;
  mean_s /= count;
  Moments moments;
  for (const auto& bucket : buckets) {
    for (const Sample& sample : bucket) {
      const double x = sample.x[0] - mean[0], z = sample.x[1] - mean[1], y = sample.seconds - mean_s;
      moments.xx += x * x;
      moments.xz += x * z;
      moments.zz += z * z;
      moments.xy += x * y;
      moments.zy += z * y;
    }
  }
  const Features found = nonnegative_slopes(moments);
  if (found == Features{}) return;
  slopes = found;
  fitted = true;
  constant = mean_s - slopes[0] * mean[0] - slopes[1] * mean[1];
}

}  // namespace penstock::planner
