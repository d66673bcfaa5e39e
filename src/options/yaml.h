// YAML as a tree of values with their positions, so that every error names file, line and column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::options {

// All errors, in the order in which they were found.
using Problems = std::vector<core::Error>;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  struct Key {
    std::string text;
    std::size_t line = 1, column = 1;
  };

  Kind kind = Kind::kNull;
  std::string text;  // The value of a scalar.
  std::size_t line = 1, column = 1;
  std::vector<Key> keys;        // Only a map has keys. Each occurs once.
  std::vector<YamlNode> items;  // Those of a map are in the order of its keys.

  // Returns "a section", "a list", "nothing" or the text in quotes.
  [[nodiscard]] std::string description() const;
};

struct YamlLimits {
  std::size_t bytes_max = 1 << 20;
  std::size_t depth_max = 16;
  std::size_t nodes_max = 20'000;  // An alias counts as the nodes it refers to.
};

// One document. Refused, with every fault that can be told apart: syntax, tabs, keys that are there twice or are no
// plain text, tags, a second document, and what is over a limit. An empty document is an empty map. `file` is for the
// messages.
[[nodiscard]] tl::expected<YamlNode, Problems> parse_yaml(std::string_view file, std::string_view text,
                                                          const YamlLimits& limits = {});

// Returns the content of a file, or of standard input for "-", up to `bytes_max`.
[[nodiscard]] core::Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);

// Returns a location such as "penstock.yaml:12:10: pools[1].max_replicas".
[[nodiscard]] std::string yaml_place(std::string_view file, const YamlNode& node, std::string_view path);

}  // namespace penstock::options
