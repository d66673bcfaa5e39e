#include "load/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "options/scalars.h"

namespace penstock::load {
namespace {

constexpr double kShareTolerance = 0.001;  // Tolerates three thirds written as 33.3%.

core::Result<std::pair<std::uint32_t, std::uint32_t>> parse_lengths(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto low = options::parse_count(text.substr(0, dots), 1, kLengthMax);
  if (!low) return tl::make_unexpected(low.error());
  const auto high = dots == std::string_view::npos ? low : options::parse_count(text.substr(dots + 2), 1, kLengthMax);
  if (!high) return tl::make_unexpected(high.error());
  if (*high < *low)
    return core::invalid_input({}, fmt::format("must go from the smaller to the larger, is {}", options::quote(text)));
  return std::pair{static_cast<std::uint32_t>(*low), static_cast<std::uint32_t>(*high)};
}

}  // namespace

core::Result<LengthMix> LengthMix::parse(std::string_view text) {
  const auto words = options::parse_list(text);
  if (!words) return tl::make_unexpected(words.error());
  if (words->size() > kLengthPartsMax)
    return core::invalid_input({}, fmt::format("has {} parts, at most {} are allowed", words->size(), kLengthPartsMax));
  LengthMix mix;
  double sum = 0.0;
  for (const std::string& word : *words) {
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos && words->size() > 1)
      return core::invalid_input({}, fmt::format("{} has no share", options::quote(word)), "write 500:70%,4000:30%");
    const auto lengths = parse_lengths(std::string_view{word}.substr(0, colon));
    if (!lengths) return tl::make_unexpected(lengths.error());
    const auto share =
        colon == std::string::npos ? core::Result<double>{1.0} : options::parse_share(word.substr(colon + 1));
    if (!share) return tl::make_unexpected(share.error());
    sum += *share;
    mix.parts_.push_back({lengths->first, lengths->second, sum});
  }
  if (std::abs(sum - 1.0) > kShareTolerance)
    return core::invalid_input({}, fmt::format("shares add up to {:.1f}%, must be 100%", sum * 100.0));
  mix.parts_.back().share_up_to = 1.0;
  return mix;
}

std::uint32_t LengthMix::draw(core::RandomStream& random) const {
  const double which = random.uniform();
  const double where = random.uniform();
  const auto part =
      std::find_if(parts_.begin(), parts_.end() - 1, [&](const Part& p) { return which < p.share_up_to; });
  const double low = std::log(static_cast<double>(part->low));
  const double high = std::log(static_cast<double>(part->high) + 1.0);
  const auto tokens = static_cast<std::uint32_t>(std::exp(low + where * (high - low)));
  return std::clamp(tokens, part->low, part->high);
}

std::uint32_t LengthMix::longest() const {
  return std::max_element(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.high < b.high; })
      ->high;
}

}  // namespace penstock::load
