#include "dispatch/request_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::dispatch {
namespace {

constexpr std::uint64_t kRounding = 2;      // The most tokens by which an estimate is rounded up.
constexpr std::uint64_t kCountMargin = 16;  // One part in so many of the context.

// With the usual error of the estimate.
std::uint64_t most_expected(const admission::TokenEstimate& estimate) {
  return std::uint64_t{estimate.prompt_tokens} + estimate.prompt_tokens / 3;
}

Refusal too_long(const RequestInfo& info, const char* about, std::uint64_t prompt, std::uint32_t limit) {
  return {
      RefusalReason::kContextLengthExceeded,
      fmt::format("the request needs {} {} tokens ({} of prompt{}, max_tokens {}), the limit is {}; shorten the prompt "
                  "or lower max_tokens",
                  about, prompt + info.max_tokens.value_or(0), prompt,
                  info.untruncated_prompt_tokens > 0 ? " after truncation" : "", info.max_tokens.value_or(0), limit),
      0, false};
}

Refusal above_cap(const RequestInfo& info, std::uint64_t prompt, std::uint32_t cap) {
  return {RefusalReason::kContextLengthExceeded,
          fmt::format("the prompt has {}{} tokens{}, the limit (max_prompt_tokens) is {}; shorten the prompt",
                      info.prompt_tokens_given > 0 && info.prompts == 1 ? "" : "about ", prompt,
                      info.untruncated_prompt_tokens > 0 ? " after truncation" : "", cap),
          0, false};
}

}  // namespace

ArrivalResult RequestCheck::result(const RequestInfo& info, const admission::TokenEstimate& estimate) const {
  ArrivalResult made;
  made.prompt_tokens = estimate.prompt_tokens;
  made.count_prompt = info.may_count_prompt && (info.prompt_was_counted || needs_count(info, estimate));
  if (made.count_prompt) return made;
  if (info.may_truncate_prompt) made.prompt_excess = excess(info, estimate);
  if (!made.prompt_excess) made.refusal = objection(info, estimate);
  return made;
}

std::optional<Refusal> RequestCheck::objection(const RequestInfo& info,
                                               const admission::TokenEstimate& estimate) const {
  if (!may_use(tenant, info.model) || (!context_tokens && models_complete))
    return Refusal{RefusalReason::kModelNotFound,
                   fmt::format("the model {:?} does not exist here or may not be used with this key; /v1/models lists "
                               "the models of the key",
                               info.model.substr(0, 200)),
                   0, false};
  if (!context_tokens) return not_known_yet(info.model);
  // The engine knows its context and counts exactly. Only what no tokenizer could fit is refused before.
  const std::uint64_t least =
      (info.prompt_tokens_given > 0 ? info.prompt_tokens_given : admission::prompt_tokens_least(info.text_bytes)) /
      info.prompts;
  if (least + info.max_tokens.value_or(0) > *context_tokens) return too_long(info, "at least", least, *context_tokens);
  // No engine knows the limit of a tenant.
  const std::uint64_t expected = estimate.prompt_tokens / info.prompts;
  if (tenant.context_tokens > 0 && expected + info.max_tokens.value_or(0) > tenant.context_tokens)
    return too_long(info, "about", expected, tenant.context_tokens);
  if (prompt_cap > 0 && expected > prompt_cap) return above_cap(info, expected, prompt_cap);
  return std::nullopt;
}

bool RequestCheck::needs_count(const RequestInfo& info, const admission::TokenEstimate& estimate) const {
  if (!context_tokens || !may_use(tenant, info.model) || info.prompts != 1) return false;
  if (info.prompt_tokens_given > 0 || info.media_tokens > 0) return false;
  const std::uint64_t answer = info.max_tokens.value_or(0);
  const std::uint64_t least = admission::prompt_tokens_least(info.text_bytes);
  if (least + answer > *context_tokens || (prompt_cap > 0 && least > prompt_cap)) return false;
  return most_expected(estimate) + info.template_tokens > room_beside(answer);
}

std::uint64_t RequestCheck::limit() const {
  return tenant.context_tokens > 0 ? std::min(*context_tokens, tenant.context_tokens) : *context_tokens;
}

std::uint64_t RequestCheck::room_beside(std::uint64_t answer) const {
  const std::uint64_t room = limit() - std::min(limit(), answer);
  return prompt_cap > 0 ? std::min<std::uint64_t>(room, prompt_cap) : room;
}

std::optional<core::PromptExcess> RequestCheck::excess(const RequestInfo& info,
                                                       const admission::TokenEstimate& estimate) const {
  if (tenant.over_context.value_or(over_context) == OverContext::kReject) return std::nullopt;
  if (!context_tokens || !may_use(tenant, info.model) || info.prompts != 1 || info.media_tokens > 0)
    return std::nullopt;
  const std::uint64_t answer = info.max_tokens.value_or(info.max_tokens_default.value_or(0));
  const std::uint64_t expected = estimate.prompt_tokens;
  const std::uint64_t room = room_beside(answer);
  if (room == 0 || expected <= room) return std::nullopt;
  const auto text_bytes = static_cast<double>(std::max<std::size_t>(1, info.text_bytes));
  core::PromptExcess found;
  if (info.prompt_was_counted && info.prompt_tokens_given > 0) {
    // Its tokens are those of the template, too.
    found.tokens = static_cast<double>(expected - (room - room / kCountMargin));
    found.tokens_per_text_byte = static_cast<double>(expected) / (text_bytes + info.template_tokens);
    found.tokens_per_rendered_byte = found.tokens_per_text_byte;
  } else if (info.prompt_tokens_given > 0) {
    found.tokens = static_cast<double>(expected - room);
    found.tokens_per_text_byte = static_cast<double>(expected) / text_bytes;
  } else {
    const std::uint64_t most = most_expected(estimate);
    found.tokens = static_cast<double>(most + info.template_tokens - room + kRounding);
    found.tokens_per_text_byte = static_cast<double>(most) / text_bytes;
  }
  return found;
}

}  // namespace penstock::dispatch
