// Label selectors of Kubernetes, as they come in queries.
// Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::connect {

using Labels = std::map<std::string, std::string, std::less<>>;

class LabelSelector {
 public:
  // Reads "a=b,c!=d,e in (f,g),h notin (i),j,!k". An empty text selects everything. Errors name the column.
  [[nodiscard]] static core::Result<LabelSelector> parse(std::string_view text);
  // As in Kubernetes, "!=" and "notin" also select what has no such label.
  [[nodiscard]] bool selects(const Labels& labels) const;

 private:
  enum class Kind : std::uint8_t { kIn, kNotIn, kExists, kAbsent };
  struct Requirement {
    std::string key;
    Kind kind = Kind::kExists;
    std::vector<std::string> values;
  };
  friend class LabelSelectorReader;
  std::vector<Requirement> requirements_;
};

}  // namespace penstock::connect
