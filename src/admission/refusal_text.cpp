#include "admission/refusal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::admission {
namespace {

const char* shorter(const BudgetClaim& claim) {
  return claim.output > claim.needed / 2 ? "lower n or max_tokens" : "shorten the prompt";
}

}  // namespace

std::uint32_t whole_seconds(core::Duration wait) {
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(core::to_seconds(wait)), 1.0, static_cast<double>(kRetryAfterMax)));
}

std::string class_option(Class traffic_class, const char* option) {
  return fmt::format("classes.{}.{}", to_string(traffic_class), option);
}

std::string budget_sentence(const BudgetLimits& limits, const std::string& whose, double available,
                            const BudgetClaim& claim, std::uint32_t seconds) {
  return fmt::format(
      "the request reserves {} tokens of prompt and answer; {:.0f} of {:.0f} tokens are left to {}; {}, or retry in "
      "{} s",
      claim.needed, std::max(std::floor(available), 0.0), limits.capacity(), whose, shorter(claim), seconds);
}

std::string concurrency_sentence(std::string_view tenant, std::uint32_t running, std::uint32_t running_elsewhere,
                                 std::uint32_t limit) {
  const std::string elsewhere =
      running_elsewhere == 0 ? std::string{} : fmt::format(" and {} at other gateways", running_elsewhere);
  return fmt::format("tenant {} has {} requests in flight{}, the limit (concurrent) is {}; retry when one has ended",
                     tenant, running, elsewhere, limit);
}

std::string too_large_sentence(const BudgetLimits& limits, const std::string& whose, const BudgetClaim& claim) {
  return fmt::format(
      "the request reserves at least {} tokens of prompt and answer, more than the capacity of {}, {:.0f}; {}",
      claim.needed, whose, limits.capacity(), shorter(claim));
}

}  // namespace penstock::admission
