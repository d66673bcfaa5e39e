#include "dispatch/request_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::dispatch {
namespace {

Refusal too_long(const RequestInfo& info, const char* about, std::uint64_t prompt, std::uint32_t limit) {
  return {
      RefusalReason::kContextLengthExceeded,
      fmt::format("the request needs {} {} tokens ({} of prompt, max_tokens {}), the limit is {}; shorten the prompt "
                  "or lower max_tokens",
                  about, prompt + info.max_tokens.value_or(0), prompt, info.max_tokens.value_or(0), limit),
      0, false};
}

}  // namespace

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
  return std::nullopt;
}

bool RequestCheck::needs_count(const RequestInfo& info, const admission::TokenEstimate& estimate) const {
  if (!context_tokens || !may_use(tenant, info.model) || info.prompts != 1) return false;
  if (info.prompt_tokens_given > 0 || info.media_tokens > 0) return false;
  const std::uint64_t answer = info.max_tokens.value_or(0);
  std::uint64_t limit = *context_tokens;
  if (admission::prompt_tokens_least(info.text_bytes) + answer > limit) return false;
  if (tenant.context_tokens > 0) limit = std::min<std::uint64_t>(limit, tenant.context_tokens);
  const std::uint64_t expected = estimate.prompt_tokens;
  return expected + expected / 3 + info.template_tokens + answer > limit;
}

}  // namespace penstock::dispatch
