#include "connect/kubernetes/json_values.h"

#include <nlohmann/json.hpp>

namespace penstock::connect {

using Json = nlohmann::json;

const Json& json_part(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() ? *found : kNothing;
}

std::string json_text(const Json& object, const char* name) {
  const Json& part = json_part(object, name);
  return part.is_string() ? part.get<std::string>() : std::string{};
}

std::optional<std::int64_t> json_number(const Json& object, const char* name) {
  const Json& part = json_part(object, name);
  if (!part.is_number_integer()) return std::nullopt;
  if (part.is_number_unsigned() && part.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  return part.get<std::int64_t>();
}

bool has_observed_spec(const Json& object) {
  const auto latest = json_number(json_part(object, "metadata"), "generation").value_or(0);
  return json_number(json_part(object, "status"), "observedGeneration").value_or(0) >= latest;
}

}  // namespace penstock::connect
