// Distributions of synthetic requests: lengths, shared prefixes, tenants, classes, streaming.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.h"
#include "load/lengths.h"
#include "load/request_shape.h"

namespace penstock::load {

struct MixOptions {
  LengthMix input{1000}, output{150};
  std::uint32_t prefix_tokens = 0;  // Length of a shared prefix, which is part of the input.
  std::uint32_t prefixes = 1;       // Number of prefixes, with popularity proportional to 1, 1/2, 1/3, ….
  double prefix_share = 1.0;        // Share of requests that start with a prefix.
  double batch_share = 0.0;         // Share of the batch class.
  double whole_share = 0.0;         // Share of responses that are not streamed.
  std::vector<double> tenant_shares = {1.0};
};

// Each aspect draws from a separate stream, so that a change of one does not affect the others.
class RequestMix {
 public:
  RequestMix(MixOptions options, std::uint64_t seed);

  // The mix owns the request's blocks.
  [[nodiscard]] RequestShape next();

 private:
  MixOptions options_;
  std::vector<std::uint32_t> prefix_ids_;
  std::vector<double> prefixes_up_to_, tenants_up_to_;  // Cumulative shares; the last is 1.
  core::RandomStream input_, output_, prefix_, tenant_, batch_, whole_;
};

}  // namespace penstock::load
