#include "gateway/options.h"

#include <algorithm>

namespace penstock::gateway {

const Model* model_of(const GatewayOptions& options, std::string_view name) {
  const auto found = std::find_if(options.models.begin(), options.models.end(),
                                  [&](const Model& model) { return model.name == name; });
  return found == options.models.end() ? nullptr : &*found;
}

bool may_use(const Tenant& tenant, std::string_view model) {
  return tenant.models.empty() || std::find(tenant.models.begin(), tenant.models.end(), model) != tenant.models.end();
}

std::uint32_t context_tokens_of(const GatewayOptions& options, const Tenant& tenant, std::string_view model) {
  const Model* configured = model_of(options, model);
  const std::uint32_t limit = configured != nullptr ? configured->context_tokens : Model{}.context_tokens;
  return tenant.context_tokens > 0 ? std::min(limit, tenant.context_tokens) : limit;
}

}  // namespace penstock::gateway
