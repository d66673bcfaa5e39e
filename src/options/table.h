// One declaration per option: key, flag, help, bounds, and the field that the option sets.
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

// A value that is bound to a field. values.h makes them.
struct Value {
  std::string_view type;  // "count", "duration", …
  // Sets the field. Errors have no location; the caller adds it. Only lists take several texts.
  std::function<core::Result<void>(std::span<const std::string>)> parse;
  std::function<std::string()> format;  // the content of the field as `parse` reads it; "" where nothing is set
  bool is_list = false;                 // a list in YAML, text with commas in a flag
  bool splits_text = false;             // a list that one text in YAML gives with commas, too
  std::vector<std::string_view> choices{};
  std::optional<double> low{}, high{};  // for the JSON schema
};

// The texts of an option have static storage.
struct Names {
  std::string_view key;   // in YAML, "slo.ttft"; "" has none
  std::string_view flag;  // "--start-up"; "" has none
  std::string_view help;  // one line without a full stop
};

struct Option {
  std::string_view group;  // heading in the help and in the reference page
  Names names;
  Value value;
  std::string fallback;        // the default: the content of the field when the option was added
  std::string_view shown{};    // what stands for the value in the help; "" derives it from the type
  std::string_view implied{};  // what a flag without a value says; "" for a flag that takes a value
  bool is_required = false;    // in an item of a list
  bool is_secret = false;      // errors do not show the value
  bool is_repeatable = false;  // a flag that may be given several times; each adds to the field
  bool is_reloadable = false;  // a process that reads its configuration again applies the new value without a restart

  // For use while a table is made: table.add({…}, count(…)).required().
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
  Names names;  // a flag adds one item: --pool role=prefill,replicas=2
  std::size_t items_max = 0;
  bool is_required = false, is_reloadable = false;  // reloadable: items may change, come and go without a restart
  std::function<std::size_t()> size;
  std::function<void(std::size_t count)> resize;    // replaces the items by so many new ones
  std::function<Table(std::size_t index)> rows_of;  // bound to an item; valid until the next resize
  std::shared_ptr<const Table> rows;                // bound to an item of its own, for documents

  List& required() { return is_required = true, *this; }
  List& reloadable() { return is_reloadable = true, *this; }
};

// A flag that stands for the keys of a section: `--slo ttft=2s,itl=50ms` sets slo.ttft and slo.itl.
struct SectionFlag {
  std::string_view group, flag, section, help;
};

struct Renamed {
  std::string_view from, to;  // keys, or flags
};

// Options in the order of the documents. The structs that they are bound to outlive the table and do not move.
class Table {
 public:
  // The heading of what is added next.
  Table& group(std::string_view name) { return group_ = name, *this; }

  Option& add(Names names, Value value) {
    std::string fallback = value.format();
    return options_.emplace_back(Option{group_, names, std::move(value), std::move(fallback)});
  }

  // `describe(table, item)` adds the rows of one item; `initial` makes what an item begins as.
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
  // The new name of a key or flag; "" where it was never renamed.
  [[nodiscard]] std::string_view new_name(std::string_view old) const;
  // All keys, those of lists included.
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
  std::string key;  // "tenants[1].weight"; of a list whose number of items changed "tenants"
  bool is_reloadable = false;
};
// In the order of the table. The items of a reloadable list are compared as one.
[[nodiscard]] std::vector<Change> changes(const Table& before, const Table& after);

}  // namespace penstock::options
