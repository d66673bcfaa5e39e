#include "options/table.h"

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

}  // namespace penstock::options
