// Lengths of prompts and answers as a few words: "4000", "100..8000", "500:70%,4000..6000:30%".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/result.h"

namespace penstock::load {

inline constexpr std::uint32_t kLengthMax = 10'000'000;  // tokens
inline constexpr std::size_t kLengthPartsMax = 64;

class LengthMix {
 public:
  explicit LengthMix(std::uint32_t tokens) : parts_{{tokens, tokens, 1.0}} {}

  // A range is log-uniform, as many requests between 100 and 200 as between 4000 and 8000. Shares must add up to 100 %.
  // Errors have no place; the caller knows it.
  [[nodiscard]] static core::Result<LengthMix> parse(std::string_view text);

  [[nodiscard]] std::uint32_t draw(core::RandomStream& random) const;  // two draws, whatever the mix

 private:
  struct Part {
    std::uint32_t low = 1, high = 1;  // both included
    double share_up_to = 1.0;         // of this and all before
  };
  LengthMix() = default;

  std::vector<Part> parts_;
};

}  // namespace penstock::load
