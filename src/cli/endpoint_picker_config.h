// The EndpointPickerConfig of llm-d's endpoint picker, as far as it has a counterpart.
// Source: https://github.com/llm-d/llm-d-router/blob/main/apix/config/v1alpha1/endpointpickerconfig_types.go
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/time.h"
#include "options/yaml.h"

namespace penstock::cli {

struct EndpointPickerConfig {
  std::optional<core::Duration> queue_time;     // flowControl.defaultRequestTTL.
  std::optional<std::uint32_t> queue_requests;  // flowControl.maxRequests.
  std::vector<std::string> warnings;            // Plugins and sections without a counterpart, a line each.
};
// Scorers and filters that the gateway's own choice of a replica replaces are no warning.
[[nodiscard]] tl::expected<EndpointPickerConfig, options::Problems> parse_endpoint_picker_config(std::string_view file,
                                                                                                 std::string_view text);

}  // namespace penstock::cli
