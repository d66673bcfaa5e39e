#include "connect/kubernetes/endpoint_slices.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

bool flag_of(const Json& conditions, const char* name, bool otherwise) {
  const Json& value = json_part(conditions, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

}  // namespace

EndpointSlice parse_endpoint_slice(const Json& object) {
  EndpointSlice slice;
  for (const Json& port : json_part(object, "ports"))
    // A slice without a port number means all ports, which no engine has.
    if (const auto number = json_number(port, "port"); number && *number > 0 && *number <= UINT16_MAX)
      slice.ports.push_back({json_text(port, "name"), static_cast<std::uint16_t>(*number)});
  for (const Json& endpoint : json_part(object, "endpoints")) {
    const Json &addresses = json_part(endpoint, "addresses"), &conditions = json_part(endpoint, "conditions"),
               &target = json_part(endpoint, "targetRef");
    if (!addresses.is_array() || addresses.empty() || !addresses[0].is_string()) continue;
    SliceEndpoint made;
    made.address = addresses[0].get<std::string>();
    if (json_text(target, "kind") == "Pod") made.pod = json_text(target, "name");
    made.is_ready = flag_of(conditions, "ready", true);
    made.is_terminating = flag_of(conditions, "terminating", false);
    slice.endpoints.push_back(std::move(made));
  }
  return slice;
}

}  // namespace penstock::connect
