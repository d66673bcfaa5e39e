#include "options/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::options {

const Option* Table::with_key(std::string_view key) const {
  const auto found =
      std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.names.key == key; });
  return key.empty() || found == options_.end() ? nullptr : &*found;
}

const Option* Table::with_flag(std::string_view flag) const {
  const auto found =
      std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.names.flag == flag; });
  return flag.empty() || found == options_.end() ? nullptr : &*found;
}

std::string_view Table::new_name(std::string_view old) const {
  const auto found = std::find_if(renamed_.begin(), renamed_.end(), [&](const Renamed& r) { return r.from == old; });
  return found == renamed_.end() ? std::string_view{} : found->to;
}

std::vector<std::string_view> Table::keys() const {
  std::vector<std::string_view> keys;
  for (const Option& option : options_)
    if (!option.names.key.empty()) keys.push_back(option.names.key);
  for (const List& list : lists_) keys.push_back(list.names.key);
  return keys;
}

namespace {

std::string shown(const Option& option) {
  std::string text = option.value.format();
  return option.is_secret && !text.empty() ? "***" : text;
}

std::string first_values(const List& list) {
  std::string text;
  for (std::size_t item = 0; item < list.size(); ++item)
    text.append(item == 0 ? "" : ",").append(shown(list.rows_of(item).options().front()));
  return text;
}

}  // namespace

std::vector<Change> changes(const Table& before, const Table& after) {
  std::vector<Change> found;
  for (std::size_t i = 0; i < before.options().size(); ++i) {
    const Option& option = before.options()[i];
    if (option.value.format() == after.options()[i].value.format()) continue;
    found.push_back({std::string{option.names.key.empty() ? option.names.flag : option.names.key}, option.group,
                     option.is_reloadable, shown(option), shown(after.options()[i])});
  }
  for (std::size_t i = 0; i < before.lists().size(); ++i) {
    const List &list = before.lists()[i], &other = after.lists()[i];
    const std::string key{list.names.key};
    if (list.size() != other.size()) {
      found.push_back({key, list.group, list.is_reloadable, first_values(list), first_values(other)});
      continue;
    }
    for (std::size_t item = 0; item < list.size(); ++item)
      for (Change& change : changes(list.rows_of(item), other.rows_of(item))) {
        change.key = fmt::format("{}[{}].{}", key, item, change.key);
        if (change.group.empty()) change.group = list.group;
        change.is_reloadable = change.is_reloadable || list.is_reloadable;
        found.push_back(std::move(change));
      }
  }
  return found;
}

}  // namespace penstock::options
