// Parts of objects of Kubernetes that several manifests share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::deployment {

// An object without a spec. An empty namespace means that it is of the cluster.
[[nodiscard]] nlohmann::ordered_json object_of(const std::string& api_version, const std::string& kind,
                                               const std::string& name, const std::string& in_namespace,
                                               const nlohmann::ordered_json& labels);
// A probe by HTTP at the port of this name.
[[nodiscard]] nlohmann::ordered_json http_probe(const std::string& path, const std::string& port, bool has_tls,
                                                int period_s);
[[nodiscard]] nlohmann::ordered_json container_port(const std::string& name, std::uint16_t port);
// The port of a Service that leads to the container's port of the same name.
[[nodiscard]] nlohmann::ordered_json service_port(const std::string& name, std::uint16_t port);

}  // namespace penstock::deployment
