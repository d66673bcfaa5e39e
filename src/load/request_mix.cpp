#include "load/request_mix.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock::load {
namespace {

std::vector<double> added_up(std::vector<double> shares) {
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  const double all = shares.back();
  for (double& share : shares) share /= all;
  shares.back() = 1.0;
  return shares;
}

std::uint32_t draw_index(const std::vector<double>& up_to, core::RandomStream& random) {
  const double drawn = random.uniform();
  return static_cast<std::uint32_t>(std::upper_bound(up_to.begin(), up_to.end() - 1, drawn) - up_to.begin());
}

}  // namespace

RequestMix::RequestMix(MixOptions options, std::uint64_t seed)
    : options_{std::move(options)},
      prefix_ids_(options_.prefixes),
      tenants_up_to_{added_up(options_.tenant_shares)},
      input_{core::RandomStream{seed}.fork("input")},
      output_{core::RandomStream{seed}.fork("output")},
      prefix_{core::RandomStream{seed}.fork("prefix")},
      tenant_{core::RandomStream{seed}.fork("tenant")},
      batch_{core::RandomStream{seed}.fork("batch")},
      whole_{core::RandomStream{seed}.fork("whole")} {
  std::iota(prefix_ids_.begin(), prefix_ids_.end(), 0U);
  std::vector<double> popularity(options_.prefixes);
  for (std::size_t i = 0; i < popularity.size(); ++i) popularity[i] = 1.0 / static_cast<double>(i + 1);
  prefixes_up_to_ = added_up(std::move(popularity));
}

RequestShape RequestMix::next() {
  RequestShape shape;
  shape.input_tokens = options_.input.draw(input_);
  shape.output_tokens = options_.output.draw(output_);
  const bool has_prefix = prefix_.uniform() < options_.prefix_share;
  const std::uint32_t prefix = draw_index(prefixes_up_to_, prefix_);
  if (has_prefix && options_.prefix_tokens > 0) {
    shape.blocks = std::span{prefix_ids_}.subspan(prefix, 1);
    shape.block_tokens = options_.prefix_tokens;
  }
  shape.tenant = draw_index(tenants_up_to_, tenant_);
  if (batch_.uniform() < options_.batch_share) shape.traffic_class = workload::TrafficClass::kBatch;
  shape.stream = whole_.uniform() >= options_.whole_share;
  return shape;
}

}  // namespace penstock::load
