// EndpointSlices of Kubernetes, as values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "connect/kubernetes/api_call.h"

namespace penstock::connect {

inline const ApiResource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices"};
// Label with the name of the Service that a slice belongs to.
inline constexpr const char* kServiceNameLabel = "kubernetes.io/service-name";

struct SlicePort {
  std::string name;
  std::uint16_t port = 0;
};

struct SliceEndpoint {
  std::string pod;      // Empty: it is none.
  std::string address;  // The first one; Kubernetes gives all of an endpoint the same meaning.
  // Missing conditions count as Kubernetes defines it: ready, and not terminating.
  bool is_ready = true, is_terminating = false;
};

struct EndpointSlice {
  std::vector<SlicePort> ports;
  std::vector<SliceEndpoint> endpoints;
};
[[nodiscard]] EndpointSlice parse_endpoint_slice(const nlohmann::json& object);

}  // namespace penstock::connect
