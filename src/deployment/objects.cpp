#include "deployment/objects.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::deployment {

using Json = nlohmann::ordered_json;

Json object_of(const std::string& api_version, const std::string& kind, const std::string& name,
               const std::string& in_namespace, const Json& labels) {
  Json object{{"apiVersion", api_version}, {"kind", kind}, {"metadata", {{"name", name}}}};
  if (!in_namespace.empty()) object["metadata"]["namespace"] = in_namespace;
  object["metadata"]["labels"] = labels;
  return object;
}

Json http_probe(const std::string& path, const std::string& port, bool has_tls, int period_s) {
  Json get{{"path", path}, {"port", port}};
  if (has_tls) get["scheme"] = "HTTPS";
  return {{"httpGet", std::move(get)}, {"periodSeconds", period_s}};
}

Json container_port(const std::string& name, std::uint16_t port) { return {{"name", name}, {"containerPort", port}}; }

Json service_port(const std::string& name, std::uint16_t port) {
  return {{"name", name}, {"port", port}, {"targetPort", name}};
}

}  // namespace penstock::deployment
