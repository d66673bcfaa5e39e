// Length distributions of prompts and outputs: "4000", "100..8000", "500:70%,4000..6000:30%".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/result.h"

namespace penstock::load {

inline constexpr std::uint32_t kLengthMax = 10'000'000;  // Tokens.
inline constexpr std::size_t kLengthPartsMax = 64;

class LengthMix {
 public:
  explicit LengthMix(std::uint32_t tokens) : parts_{{tokens, tokens, 1.0}} {}

  // A range is log-uniform. Shares must add up to 100 %. Errors have no location; the caller adds it.
  [[nodiscard]] static core::Result<LengthMix> parse(std::string_view text);

  [[nodiscard]] std::uint32_t draw(core::RandomStream& random) const;  // Always uses two draws.
  [[nodiscard]] std::uint32_t longest() const;

 private:
  struct Part {
    std::uint32_t low = 1, high = 1;  // Inclusive bounds.
    double share_up_to = 1.0;         // Cumulative share of this part and all previous ones.
  };
  LengthMix() = default;

  std::vector<Part> parts_;
};

}  // namespace penstock::load
