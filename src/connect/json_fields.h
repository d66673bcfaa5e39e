// Strict reading of small JSON files: each error names its location, such as "replicas[2].url".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

// Parses the whole text as one object. Duplicate names and nesting beyond 16 levels are errors.
[[nodiscard]] core::Result<nlohmann::json> parse_object(std::string_view text, const std::string& file);

// The value of a whole number, which programs also write as 2.0; empty for other values and for numbers beyond the
// range of the type. A float is whole up to 2^53.
[[nodiscard]] std::optional<std::int64_t> whole_number(const nlohmann::json& value);

// Reads the fields of one object and keeps the first error; later reads return empty values. Names that are not read
// are ignored.
class JsonFields {
 public:
  // `path` is the location within the file, empty for the top-level object. `object` must outlive this reader.
  JsonFields(const nlohmann::json& object, std::string file, std::string path);

  [[nodiscard]] bool has(const char* name) const;  // A null value counts as missing.
  std::string text(const char* name, std::size_t bytes_max);
  bool flag(const char* name);
  std::int64_t integer(const char* name, std::int64_t min, std::int64_t max);
  double number(const char* name, double min, double max);
  // Returns a list of at most `most` elements.
  const nlohmann::json* list(const char* name, std::size_t most);

  void fail(const std::string& name, std::string what, std::string hint = {});
  [[nodiscard]] std::string path_of(const std::string& name) const;  // "replicas[2].url"
  [[nodiscard]] const std::optional<core::Error>& error() const { return error_; }

 private:
  const nlohmann::json* take(const char* name, const char* kind);

  const nlohmann::json& object_;
  std::string file_, path_;
  std::optional<core::Error> error_;
};

}  // namespace penstock::connect
