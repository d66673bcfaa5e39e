// A YAML file and flags, read into what a table is bound to.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "options/table.h"
#include "options/yaml.h"

namespace penstock::options {

struct FlagValue {
  std::string flag;  // "--max-replicas"
  std::string text;
};

struct Source {
  std::string file;              // name of the YAML file, for messages; empty: there is none
  std::string yaml;              // its content
  std::vector<FlagValue> flags;  // they count after the file, in their order
};

// What was read, where each value came from, and everything that is wrong. Checks for contradictions add to it.
class Reading {
 public:
  explicit Reading(const Table& table) : table_(&table) {}

  // Whether the file or a flag set the value at the path ("slo.ttft", "pools[1].replicas", "policy[0]").
  [[nodiscard]] bool given(std::string_view path) const { return origins_.contains(path); }
  // "penstock.yaml:3:9: slo.ttft" or "--slo ttft"; of a default the flag, or else the path.
  [[nodiscard]] std::string location(std::string_view path) const;
  // The first of the paths that is given, or the last.
  [[nodiscard]] std::string first_given(std::initializer_list<std::string> paths) const;

  void report(std::string_view path, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, location(path), std::move(what), std::move(hint)});
  }
  void report(std::string_view path, core::Error error) { report(path, std::move(error.what), std::move(error.hint)); }
  [[nodiscard]] const Problems& problems() const { return problems_; }
  [[nodiscard]] bool good() const { return problems_.empty(); }

 private:
  friend class TableReader;

  const Table* table_;
  std::map<std::string, std::string, std::less<>> origins_;
  Problems problems_;
};

// Sets the fields that the file and the flags name; all others keep what they have. A flag of the table that rows of a
// list have, too, sets the field in each item. Flags that add items to a list replace the items of the file.
[[nodiscard]] Reading read(const Table& table, const Source& source);

}  // namespace penstock::options
