#include "gateway/options.h"

#include <algorithm>

namespace penstock::gateway {

const Model* model_of(const GatewayOptions& options, std::string_view name) {
  const auto found = std::find_if(options.models.begin(), options.models.end(),
                                  [&](const Model& model) { return model.name == name; });
  return found == options.models.end() ? nullptr : &*found;
}

std::uint32_t context_tokens_of(const GatewayOptions& options, std::string_view model) {
  const Model* configured = model_of(options, model);
  return configured != nullptr ? configured->context_tokens : Model{}.context_tokens;
}

}  // namespace penstock::gateway
