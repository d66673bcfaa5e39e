#include "cli/file_kind.h"

#include <set>
#include <string_view>

#include "options/yaml.h"

namespace penstock::cli {
namespace {

// The first part of each key.
std::set<std::string_view> top_keys(const options::Table& table) {
  std::set<std::string_view> keys;
  for (const std::string_view key : table.keys()) keys.insert(key.substr(0, key.find_first_of(".[")));
  return keys;
}

}  // namespace

core::Result<void> check_file_kind(const options::Source& source, const options::Table& own,
                                   const options::Table& other, const char* what, const char* hint) {
  const auto root = options::parse_yaml(source.file, source.yaml);
  if (!root) return {};
  const std::set<std::string_view> ours = top_keys(own), theirs = top_keys(other);
  bool is_theirs = false;
  for (const options::YamlNode::Key& key : root->keys) {
    const bool we_know = ours.contains(key.text), they_know = theirs.contains(key.text);
    if (we_know && !they_know) return {};
    is_theirs = is_theirs || (they_know && !we_know);
  }
  return is_theirs ? core::invalid_input(source.file, what, hint) : core::Result<void>{};
}

}  // namespace penstock::cli
