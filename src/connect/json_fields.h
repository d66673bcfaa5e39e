// Reading of small JSON files, strictly: each error names the place ("replicas[2].url"), and nothing is guessed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

// The whole text as one object. Names that come twice and nesting beyond 16 levels are errors.
[[nodiscard]] core::Result<nlohmann::json> parse_object(std::string_view text, const std::string& file);

// Takes fields of one object and keeps the first error; after it, all that is taken is empty. Names that nobody asks for
// are left alone.
class JsonFields {
 public:
  // `path` is the place within the file, empty at its top. `object` outlives it.
  JsonFields(const nlohmann::json& object, std::string file, std::string path);

  [[nodiscard]] bool has(const char* name) const;  // null is as if it were not there
  std::string text(const char* name, std::size_t bytes_max);
  bool flag(const char* name);
  std::int64_t integer(const char* name, std::int64_t min, std::int64_t max);
  double number(const char* name, double min, double max);
  // A list of at most `most` elements.
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
