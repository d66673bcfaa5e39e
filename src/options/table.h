// The one declaration of each option: key, flag, help, bounds, and the field that the option sets.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace penstock::options {

// A value that is bound to a field; values.h creates values of all types.
struct Value {
  std::string_view type;  // "count", "duration", …
  // Sets the field. Errors have no location; the caller adds it. Only lists accept several texts.
  std::function<core::Result<void>(std::span<const std::string>)> parse;
  std::function<std::string()> format;  // Returns the field as `parse` reads it; "" if it is not set.
  bool is_list = false;                 // A list in YAML is text with commas in a flag.
  bool splits_text = false;             // One text in YAML may also contain commas.
  std::vector<std::string_view> choices{};
  std::optional<double> low{}, high{};  // Bounds for the JSON schema.
};

// The texts of an option have static storage.
struct Names {
  std::string_view key;   // For example "slo.ttft"; empty if there is none.
  std::string_view flag;  // For example "--start-up"; empty if there is none.
  std::string_view help;  // One line without a full stop.
};

struct Option {
  std::string_view group;  // Heading in the help and in the reference page.
  Names names;
  Value value;
  std::string fallback;        // The default, which is the field when the option was added.
  std::string_view shown{};    // Placeholder in the help; empty derives it from the type.
  std::string_view implied{};  // Value of a flag that takes none; empty if it takes one.
  bool is_required = false;    // An item of a list must have the key.
  bool is_secret = false;      // Errors do not show the value.
  bool is_repeatable = false;  // Each use of the flag adds to the field.
  bool is_reloadable = false;  // A reload applies the new value without a restart.

  // Used when a row is added: table.add({…}, count(…)).required().
  Option& implies(std::string_view text) { return implied = text, *this; }
  Option& required() { return is_required = true, *this; }
  Option& secret() { return is_secret = true, *this; }
  Option& repeatable() { return is_repeatable = true, *this; }
  Option& reloadable() { return is_reloadable = true, *this; }
  Option& placeholder(std::string_view text) { return shown = text, *this; }
  Option& by_default(std::string_view text) { return fallback = text, *this; }
};

class Table;

// A list of sections in YAML, such as `pools`.
struct List {
  std::string_view group;
  Names names;  // A flag adds one item: --pool role=prefill,replicas=2.
  std::size_t items_max = 0;
  bool is_required = false, is_reloadable = false;  // Items of a reloadable list may change at run time.
  std::function<std::size_t()> size;
  std::function<void(std::size_t count)> resize;    // Replaces all items by new ones.
  std::function<Table(std::size_t index)> rows_of;  // Rows of one item; valid until the next resize.
  std::shared_ptr<const Table> rows;                // Rows of a sample item, for documents.

  List& required() { return is_required = true, *this; }
  List& reloadable() { return is_reloadable = true, *this; }
};

// A flag that stands for the keys of a section: `--slo ttft=2s,itl=50ms` sets slo.ttft and slo.itl.
struct SectionFlag {
  std::string_view group, flag, section, help;
};

struct Renamed {
  std::string_view from, to;  // Keys or flags.
};

// Options in the order of the documents. The structs that they are bound to outlive the table and do not move.
class Table {
 public:
  // Sets the heading of the rows that are added next.
  Table& group(std::string_view name) { return group_ = name, *this; }

  Option& add(Names names, Value value) {
    std::string fallback = value.format();
    return options_.emplace_back(Option{group_, names, std::move(value), std::move(fallback)});
  }

  // `describe(table, item)` adds the rows of one item; `initial` creates an item with its default values.
  template <class Item, class Describe>
  List& list(
      Names names, std::vector<Item>& items, std::size_t items_max, Describe describe,
      std::function<Item()> initial = [] { return Item{}; }) {
    List made{group_, names, items_max, false, false, {}, {}, {}, {}};
    made.size = [&items] { return items.size(); };
    made.resize = [&items, initial](std::size_t count) {
      items.clear();
      for (std::size_t i = 0; i < count; ++i) items.push_back(initial());
    };
    made.rows_of = [&items, describe](std::size_t index) {
      Table rows;
      describe(rows, items[index]);
      return rows;
    };
    struct Sample {
      Item item;
      Table rows;
    };
    auto sample = std::make_shared<Sample>(Sample{initial(), {}});
    describe(sample->rows, sample->item);
    made.rows = {sample, &sample->rows};
    return lists_.emplace_back(std::move(made));
  }

  void section_flag(std::string_view flag, std::string_view section, std::string_view help) {
    section_flags_.push_back({group_, flag, section, help});
  }
  void renamed(std::string_view from, std::string_view to) { renamed_.push_back({from, to}); }

  [[nodiscard]] const std::vector<Option>& options() const { return options_; }
  [[nodiscard]] const std::vector<List>& lists() const { return lists_; }
  [[nodiscard]] const std::vector<SectionFlag>& section_flags() const { return section_flags_; }
  [[nodiscard]] const std::vector<Renamed>& renames() const { return renamed_; }

  [[nodiscard]] const Option* with_key(std::string_view key) const;
  [[nodiscard]] const Option* with_flag(std::string_view flag) const;
  // Returns the new name of a key or flag; "" if it was never renamed.
  [[nodiscard]] std::string_view new_name(std::string_view old) const;
  // Returns all keys, including those of lists.
  [[nodiscard]] std::vector<std::string_view> keys() const;

 private:
  std::string_view group_;
  std::vector<Option> options_;
  std::vector<List> lists_;
  std::vector<SectionFlag> section_flags_;
  std::vector<Renamed> renamed_;
};

// A value that differs between two tables that are bound to two structs of the same type.
struct Change {
  std::string key;  // "tenants[1].weight"; "tenants" if the number of items differs.
  std::string_view group;
  bool is_reloadable = false;
  // Both values as text. Values of secrets are "***". Of a list, the first value of each item.
  std::string before, after;
};
// Returns the changes in the order of the table. All values of a reloadable list are reloadable.
[[nodiscard]] std::vector<Change> changes(const Table& before, const Table& after);

}  // namespace penstock::options
