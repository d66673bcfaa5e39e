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

std::vector<Change> changes(const Table& before, const Table& after) {
  std::vector<Change> found;
  for (std::size_t i = 0; i < before.options().size(); ++i) {
    const Option& option = before.options()[i];
    if (option.value.format() == after.options()[i].value.format()) continue;
    found.push_back(
        {std::string{option.names.key.empty() ? option.names.flag : option.names.key}, option.is_reloadable});
  }
  for (std::size_t i = 0; i < before.lists().size(); ++i) {
    const List &list = before.lists()[i], &other = after.lists()[i];
    const std::string key{list.names.key};
    std::vector<Change> inside;
    for (std::size_t item = 0; list.size() == other.size() && item < list.size(); ++item)
      for (Change& change : changes(list.rows_of(item), other.rows_of(item)))
        inside.push_back({fmt::format("{}[{}].{}", key, item, change.key), change.is_reloadable});
    if (list.size() != other.size() || (list.is_reloadable && !inside.empty()))
      found.push_back({key, list.is_reloadable});
    else
      found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

}  // namespace penstock::options
