// What made-up requests are like: lengths, hot prefixes, tenants, classes, streamed or not.
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
  std::uint32_t prefix_tokens = 0;  // of a shared prefix, which counts towards the input
  std::uint32_t prefixes = 1;       // so many different ones, popular as 1, 1/2, 1/3, …
  double prefix_share = 1.0;        // of the requests that begin with one; all others share nothing
  double batch_share = 0.0;         // of the class batch
  double whole_share = 0.0;         // of answers that are not streamed
  std::vector<double> tenant_shares = {1.0};
};

// Each concern draws from a stream of its own: changing one leaves the others as they were.
class RequestMix {
 public:
  RequestMix(MixOptions options, std::uint64_t seed);

  // Its blocks belong to the mix.
  [[nodiscard]] RequestShape next();

 private:
  MixOptions options_;
  std::vector<std::uint32_t> prefix_ids_;
  std::vector<double> prefixes_up_to_, tenants_up_to_;  // shares added up, the last is 1
  core::RandomStream input_, output_, prefix_, tenant_, batch_, whole_;
};

}  // namespace penstock::load
