// Fields of objects of the API, which may be missing or have another type.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace penstock::connect {

// Returns the field, or null if there is none.
[[nodiscard]] const nlohmann::json& json_part(const nlohmann::json& object, const char* name);
// Returns an empty text if the field is missing or is no text.
[[nodiscard]] std::string json_text(const nlohmann::json& object, const char* name);
// Returns nothing if the field is missing, is no whole number or does not fit.
[[nodiscard]] std::optional<std::int64_t> json_number(const nlohmann::json& object, const char* name);
// Whether the controller of an object has seen its latest spec.
[[nodiscard]] bool has_observed_spec(const nlohmann::json& object);

}  // namespace penstock::connect
