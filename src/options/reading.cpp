#include "options/reading.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "options/scalars.h"

namespace penstock::options {
namespace {

struct Assignment {
  std::string key, text;
};

// Splits "a=1,b=x,y" into a=1 and b="x,y": a part without '=' belongs to the previous value.
core::Result<std::vector<Assignment>> split_assignments(std::string_view text) {
  auto parts = parse_list(text);
  if (!parts) return tl::make_unexpected(parts.error());
  std::vector<Assignment> assignments;
  for (const std::string& part : *parts) {
    const std::size_t equals = part.find('=');
    if (equals != std::string::npos)
      assignments.push_back({part.substr(0, equals), part.substr(equals + 1)});
    else if (assignments.empty())
      return core::invalid_input({}, "must be like key=value,key=value, is " + quote(text));
    else
      assignments.back().text += "," + part;
  }
  return assignments;
}

std::string_view first_part(std::string_view dotted) { return dotted.substr(0, dotted.find('.')); }

// Returns the keys of the table that begin with `section`, without that prefix: whole keys, or only their first parts.
std::vector<std::string_view> keys_below(const Table& table, std::string_view section, bool whole) {
  std::vector<std::string_view> below;
  for (std::string_view key : table.keys()) {
    if (!key.starts_with(section) || key.size() == section.size()) continue;
    key.remove_prefix(section.size());
    if (!whole) key = first_part(key);
    if (std::find(below.begin(), below.end(), key) == below.end()) below.push_back(key);
  }
  return below;
}

core::Error error_of(std::string what, std::string hint = {}) {
  return {core::ErrorCode::kInvalidInput, {}, std::move(what), std::move(hint)};
}

// A name of other programs leads to a hint in several words, an earlier name of an option to its new name.
core::Error error_of_former_name(std::string_view now) {
  if (now.find(' ') != std::string_view::npos) return error_of("unknown key", std::string{now});
  return error_of("was renamed", fmt::format("write {}", now));
}

std::vector<std::string> pieces_of(const Option& option, const std::string& text, core::Result<void>& result) {
  if (!option.value.is_list) return {text};
  auto parts = parse_list(text);
  if (parts) return *std::move(parts);
  result = tl::make_unexpected(parts.error());
  return {};
}

// Returns true if the path is the other one or below it. The empty path is the root.
bool is_within(std::string_view path, std::string_view other) {
  return path.starts_with(other) &&
         (other.empty() || path.size() == other.size() || path[other.size()] == '.' || path[other.size()] == '[');
}

// A list with too many items is rejected before any item is created.
constexpr std::string_view kDash = "begin each with a dash";

}  // namespace

const std::string* Reading::place_in(const Places& places, std::string_view path) const {
  if (!scope_.empty())
    if (const auto found = places.find(fmt::format("{}.{}", scope_, path)); found != places.end())
      return &found->second;
  const auto found = places.find(path);
  return found == places.end() ? nullptr : &found->second;
}

std::string Reading::location(std::string_view path) const {
  if (const std::string* origin = origin_of(path)) return *origin;
  if (const std::string* section = place_in(sections_, path)) return *section;
  // The section or the item that does not give the value.
  for (std::size_t end = path.rfind('.'); end != std::string_view::npos && end > 0; end = path.rfind('.', end - 1)) {
    const std::string_view above = path.substr(0, end);
    for (const Places* places : {&origins_, &sections_})
      if (const std::string* place = place_in(*places, above)) return *place + std::string{path.substr(end)};
  }
  if (const auto item = origins_.find(scope_); item != origins_.end()) return fmt::format("{}.{}", item->second, path);
  const Option* option = table_->with_key(path);
  return std::string{option != nullptr && !option->names.flag.empty() ? option->names.flag : path};
}

bool Reading::is_read(std::string_view path) const {
  std::vector<std::string> names = {std::string{path}};
  if (!scope_.empty()) names.push_back(fmt::format("{}.{}", scope_, path));
  for (const std::string& name : names) {
    if (std::any_of(unread_.begin(), unread_.end(),
                    [&](const std::string& unread) { return is_within(unread, name) || is_within(name, unread); }))
      return false;
    if (given(path)) continue;
    const std::size_t dot = name.rfind('.');
    const std::string_view section =
        dot == std::string::npos ? std::string_view{} : std::string_view{name}.substr(0, dot);
    const std::vector<std::string_view> key = {std::string_view{name}.substr(section.empty() ? 0 : dot + 1)};
    // The root has too many keys for an unknown one to stand for any of them.
    for (const UnknownKey& unknown : unknown_)
      if (unknown.section == section && (!section.empty() || !suggestion(unknown.key, key).empty())) return false;
  }
  return true;
}

bool Reading::are_read(std::initializer_list<std::string_view> paths) const {
  return std::all_of(paths.begin(), paths.end(), [&](std::string_view path) { return is_read(path); });
}

bool Reading::are_read_in_items(std::string_view list, std::size_t count,
                                std::initializer_list<std::string_view> keys) const {
  if (!given(list) && !is_read(list)) return false;
  for (std::size_t i = 0; i < count; ++i)
    for (const std::string_view key : keys)
      if (!is_read(fmt::format("{}[{}].{}", list, i, key))) return false;
  return true;
}

bool Reading::is_valid(std::string_view path) const {
  return is_read(path) && std::none_of(reported_.begin(), reported_.end(),
                                       [&](const std::string& reported) { return is_within(reported, path); });
}

void Reading::report(std::string_view path, std::string what, std::string hint) {
  if (!is_read(path)) return;
  reported_.push_back(scope_.empty() ? std::string{path} : fmt::format("{}.{}", scope_, path));
  core::Error error{core::ErrorCode::kInvalidInput, location(path), std::move(what), std::move(hint)};
  const bool is_known = std::any_of(problems_.begin(), problems_.end(), [&](const core::Error& each) {
    return each.where == error.where && each.what == error.what;
  });
  if (!is_known) problems_.push_back(std::move(error));
}

std::string Reading::first_given(std::initializer_list<std::string> paths) const {
  for (const std::string& path : paths)
    if (given(path)) return path;
  return *(paths.end() - 1);
}

class TableReader {
 public:
  TableReader(const Table& table, const Source& source) : table_(table), source_(source), reading_(table) {}

  Reading run() {
    std::optional<YamlNode> root;
    if (!source_.file.empty()) {
      auto parsed = parse_yaml(source_.file, source_.yaml);
      if (parsed) {
        root = *std::move(parsed);
      } else {
        reading_.problems_ = std::move(parsed.error());
        reading_.unread_ = {std::string{}};
      }
    }
    if (root) {
      read_section(table_, *root, "", "");
      require_keys(table_, *root, "");
    }
    for (const FlagValue& flag : source_.flags) read_flag(flag);
    // Items start with the values that all share, which flags may set.
    while (!deferred_.empty()) read_list(std::exchange(deferred_, {}));
    for (const List& list : table_.lists()) read_list_flags(list);
    std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::pair{a.line, a.column} < std::pair{b.line, b.column};
    });
    for (Found& found : found_) reading_.problems_.push_back(std::move(found.error));
    return std::move(reading_);
  }

 private:
  struct Found {
    std::size_t line, column;
    core::Error error;
  };
  // A list of the file, which is read after all scalars.
  struct Deferred {
    List list;
    YamlNode node;
    std::string path;
  };

  void report(const YamlNode& node, const std::string& path, core::Error error, std::string_view missing = {}) {
    error.where = yaml_place(source_.file, node, path);
    reading_.unread_.push_back(missing.empty() ? path : fmt::format("{}{}{}", path, path.empty() ? "" : ".", missing));
    found_.push_back({node.line, node.column, std::move(error)});
  }
  void report_flag(std::string where, const std::string& path, core::Error error) {
    error.where = std::move(where);
    reading_.unread_.push_back(path);
    found_.push_back({SIZE_MAX, 0, std::move(error)});
  }

  // `prefix` precedes the keys in paths, such as "pools[1].engine."; `section` is the part of it with which the keys of
  // the table begin, such as "engine.".
  void read_section(const Table& table, const YamlNode& node, const std::string& prefix, const std::string& section) {
    const std::string path = prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1);
    if (node.kind != YamlNode::Kind::kMap) {
      report(node, path,
             error_of("must be a section, is " + node.description(),
                      "its keys are " + choices(keys_below(table, section, false))));
      return;
    }
    if (!path.empty()) reading_.sections_[path] = yaml_place(source_.file, node, path);
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string& name = node.keys[i].text;
      const YamlNode& item = node.items[i];
      const std::string key = section + name;
      const bool has_section = !keys_below(table, key + ".", true).empty();
      const auto list = std::find_if(table.lists().begin(), table.lists().end(),
                                     [&](const List& each) { return each.names.key == key; });
      if (const Option* option = table.with_key(key);
          option != nullptr && !(has_section && item.kind == YamlNode::Kind::kMap))
        read_value(*option, item, prefix + name);
      else if (list != table.lists().end())
        deferred_.push_back({*list, item, prefix + name});
      else if (has_section)
        read_section(table, item, prefix + name + ".", key + ".");
      else
        report_unknown(table, node.keys[i], prefix, section);
    }
  }

  void report_unknown(const Table& table, const YamlNode::Key& key, const std::string& prefix,
                      const std::string& section) {
    const std::string shown = quote(key.text);
    reading_.unknown_.push_back({prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1), key.text});
    YamlNode at;
    at.line = key.line;
    at.column = key.column;
    std::string hint;
    if (const std::string_view now = table.new_name(section + key.text); !now.empty())
      return report(at, prefix + shown.substr(1, shown.size() - 2), error_of_former_name(now));
    hint = suggestion(key.text, keys_below(table, section, false));
    // The user may have meant the key of another section, which may have words of this key in its path.
    for (const std::string_view each : table.keys())
      if (hint.empty() && (each.ends_with("." + key.text) || has_same_words(each, key.text)))
        hint = fmt::format("did you mean {}?", each);
    report(at, prefix + shown.substr(1, shown.size() - 2), error_of("unknown key", std::move(hint)));
  }

  void read_value(const Option& option, const YamlNode& node, const std::string& path) {
    std::vector<std::string> texts;
    core::Result<void> split;
    if (node.kind == YamlNode::Kind::kScalar) {
      texts = option.value.splits_text ? pieces_of(option, node.text, split) : std::vector{node.text};
    } else if (option.value.is_list && node.kind == YamlNode::Kind::kSequence) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const YamlNode& item = node.items[i];
        const std::string item_path = fmt::format("{}[{}]", path, i);
        if (item.kind != YamlNode::Kind::kScalar)
          return report(item, item_path, error_of("must be text, is " + item.description()));
        reading_.origins_[item_path] = yaml_place(source_.file, item, item_path);
        texts.push_back(item.text);
      }
    } else {
      return report(node, path, error_of(fmt::format("must be a {}, is {}", option.value.type, node.description())));
    }
    reading_.origins_[path] = yaml_place(source_.file, node, path);
    if (split) split = option.value.parse(texts);
    if (split) return;
    // An empty list shows nothing of a secret.
    const bool is_empty = node.kind == YamlNode::Kind::kSequence && node.items.empty();
    report(node, path, is_empty ? split.error() : error_in(option, split.error()));
  }

  static core::Error error_in(const Option& option, core::Error error) {
    if (option.is_secret) error = error_of(fmt::format("is not a valid {}", option.value.type));
    return error;
  }

  void read_list(std::vector<Deferred> lists) {
    for (Deferred& deferred : lists) {
      const auto& [list, node, path] = deferred;
      if (node.kind != YamlNode::Kind::kSequence || node.items.empty()) {
        report(node, path,
               error_of("must be a list of sections, is " +
                            (node.kind == YamlNode::Kind::kSequence ? "an empty list" : node.description()),
                        std::string{kDash}));
        continue;
      }
      if (node.items.size() > list.items_max) {
        report(node, path,
               error_of(fmt::format("must have at most {} items, has {}", list.items_max, node.items.size())));
        continue;
      }
      reading_.origins_[path] = yaml_place(source_.file, node, path);
      list.resize(node.items.size());
      for (std::size_t i = 0; i < node.items.size(); ++i)
        read_item(list.rows_of(i), node.items[i], fmt::format("{}[{}]", path, i));
      // Reads lists within the items while their tables are valid.
      while (!deferred_.empty()) read_list(std::exchange(deferred_, {}));
    }
  }

  void read_item(const Table& rows, const YamlNode& node, const std::string& path) {
    reading_.origins_[path] = yaml_place(source_.file, node, path);
    read_section(rows, node, path + ".", "");
    for (const FlagValue& flag : source_.flags)
      if (const Option* option = rows.with_flag(flag.flag)) set_by_flag(*option, flag, path + ".", false);
    require_keys(rows, node, path);
  }

  void require_keys(const Table& rows, const YamlNode& node, const std::string& path) {
    if (node.kind != YamlNode::Kind::kMap) return;
    for (const Option& option : rows.options())
      if (option.is_required) require(node, path, option.names.key);
    for (const List& list : rows.lists())
      if (list.is_required) require(node, path, list.names.key);
  }

  // Reports an error unless the key, or a section of its name, is present.
  void require(const YamlNode& node, const std::string& path, std::string_view key) {
    const std::string_view name = first_part(key);
    if (std::none_of(node.keys.begin(), node.keys.end(), [&](const auto& each) { return each.text == name; }))
      report(node, path, error_of(fmt::format("needs the key {}", key)), key);
  }

  void set_by_flag(const Option& option, const FlagValue& flag, const std::string& prefix, bool reports) {
    core::Result<void> result;
    const std::vector<std::string> texts = pieces_of(option, flag.text, result);
    if (result) result = option.value.parse(texts);
    const std::string path = prefix + std::string{option.names.key.empty() ? option.names.flag : option.names.key};
    if (!result) reading_.unread_.push_back(path);
    if (!result && reports) report_flag(flag.flag, path, error_in(option, result.error()));
    reading_.origins_[path] = flag.flag;
    for (std::size_t i = 0; option.value.is_list && i < texts.size(); ++i)
      reading_.origins_[fmt::format("{}[{}]", path, i)] = flag.flag;
  }

  void read_flag(const FlagValue& flag) {
    for (const SectionFlag& section : table_.section_flags())
      if (section.flag == flag.flag) {
        const std::string prefix = std::string{section.section} + ".";
        assign(flag, table_, prefix, "");
        return;
      }
    if (const Option* option = table_.with_flag(flag.flag)) set_by_flag(*option, flag, "", true);
  }

  // Reads the items that flags such as --pool add.
  void read_list_flags(const List& list) {
    std::vector<const FlagValue*> flags;
    for (const FlagValue& flag : source_.flags)
      if (!list.names.flag.empty() && flag.flag == list.names.flag) flags.push_back(&flag);
    if (flags.empty()) return;
    const std::string path{list.names.key};
    std::erase_if(reading_.origins_, [&](const auto& origin) { return origin.first.starts_with(path + "["); });
    list.resize(flags.size());
    for (std::size_t i = 0; i < flags.size(); ++i) {
      reading_.origins_[fmt::format("{}[{}]", path, i)] = flags[i]->flag;
      assign(*flags[i], list.rows_of(i), "", fmt::format("{}[{}].", path, i));
    }
  }

  // Reads "key=value,…" into the rows of a section.
  void assign(const FlagValue& flag, const Table& rows, const std::string& section, const std::string& prefix) {
    auto assignments = split_assignments(flag.text);
    const std::string& path = prefix.empty() ? section : prefix;
    const std::string above = path.substr(0, path.size() - 1);
    if (!assignments) return report_flag(flag.flag, above, assignments.error());
    for (const Assignment& assignment : *assignments) {
      const Option* option = rows.with_key(section + assignment.key);
      if (option == nullptr) {
        std::vector<std::string_view> known;
        for (const Option& each : rows.options())
          if (each.names.key.starts_with(section)) known.push_back(each.names.key.substr(section.size()));
        const std::string_view now = rows.new_name(section + assignment.key);
        std::string hint = now.empty() ? suggestion(assignment.key, known) : error_of_former_name(now).hint;
        if (hint.empty()) hint = "its keys are " + choices(known);
        reading_.unknown_.push_back({above, assignment.key});
        report_flag(flag.flag, path + assignment.key,
                    error_of("unknown key " + quote(assignment.key), std::move(hint)));
        continue;
      }
      const std::string where = flag.flag + " " + assignment.key;
      const std::vector<std::string> texts = {assignment.text};
      if (auto done = option->value.parse(texts); !done)
        report_flag(where, prefix + std::string{option->names.key}, error_in(*option, done.error()));
      reading_.origins_[prefix + std::string{option->names.key}] = where;
    }
  }

  const Table& table_;
  const Source& source_;
  Reading reading_;
  std::vector<Found> found_;
  std::vector<Deferred> deferred_;
};

Reading read(const Table& table, const Source& source) { return TableReader{table, source}.run(); }

}  // namespace penstock::options
