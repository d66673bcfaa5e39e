// Reads a YAML file and flags into the structs that a table is bound to.
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
  std::string file;              // Name of the YAML file for messages; empty if there is none.
  std::string yaml;              // Content of the file.
  std::vector<FlagValue> flags;  // Flags override the file; the last one wins.
};

// The origin of each value that was read, and all errors. Later checks for contradictions add to them.
class Reading {
 public:
  explicit Reading(const Table& table) : table_(&table) {}

  // Returns true if the file or a flag set the value at the path ("slo.ttft", "pools[1].replicas", "policy[0]").
  [[nodiscard]] bool given(std::string_view path) const { return origin_of(path) != nullptr; }
  // Returns "penstock.yaml:3:9: slo.ttft" or "--slo ttft". For a default value the place is that of its section or item
  // of a list, else the flag, else the path alone. The path may be that of a section.
  [[nodiscard]] std::string location(std::string_view path) const;
  // Returns the first path whose value is given, else the last path.
  [[nodiscard]] std::string first_given(std::initializer_list<std::string> paths) const;

  // From now on paths are those of an item of a list, such as "deployments[1]"; a value that the item does not give is
  // looked up at the top. Empty: only at the top.
  void set_scope(std::string item) { scope_ = std::move(item); }

  // Returns false if the value, or a value within the section or list, could not be read. Also if it is not given and
  // an unknown key beside it may have been meant to give it. A check of several values needs all of them, since an
  // error would otherwise only follow from another one.
  [[nodiscard]] bool is_read(std::string_view path) const;
  [[nodiscard]] bool are_read(std::initializer_list<std::string_view> paths) const;
  // The same of the keys in each of `count` items of a list.
  [[nodiscard]] bool are_read_in_items(std::string_view list, std::size_t count,
                                       std::initializer_list<std::string_view> keys) const;

  // Returns true if it is read, and no error of the value, or of a value within the section or list, was reported.
  [[nodiscard]] bool is_valid(std::string_view path) const;

  // An error that was reported before is not repeated, and one of a value that could not be read is not added.
  void report(std::string_view path, std::string what, std::string hint = {});
  void report(std::string_view path, core::Error error) { report(path, std::move(error.what), std::move(error.hint)); }
  [[nodiscard]] const Problems& problems() const { return problems_; }
  [[nodiscard]] bool good() const { return problems_.empty(); }

 private:
  friend class TableReader;

  using Places = std::map<std::string, std::string, std::less<>>;

  // Null: the value is not given.
  [[nodiscard]] const std::string* origin_of(std::string_view path) const { return place_in(origins_, path); }
  // In the scope, else at the top.
  [[nodiscard]] const std::string* place_in(const Places& places, std::string_view path) const;

  struct UnknownKey {
    std::string section, key;
  };

  const Table* table_;
  std::string scope_;
  Places origins_;                   // By the path of a value.
  Places sections_;                  // Of sections, which have no value of their own.
  std::vector<std::string> unread_;  // Paths. The empty one is the whole file.
  std::vector<UnknownKey> unknown_;
  std::vector<std::string> reported_;  // Paths of which errors were reported.
  Problems problems_;
};

// Sets the fields that the file and the flags name; all others keep their values. If rows of a list have a flag of the
// table as well, the flag sets the field in each item. Flags that add items to a list replace the items of the file.
[[nodiscard]] Reading read(const Table& table, const Source& source);

}  // namespace penstock::options
