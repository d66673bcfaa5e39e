#include "connect/policy_state_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "connect/json_fields.h"
#include "connect/whole_file.h"

namespace penstock::connect {
namespace {

constexpr std::size_t kStateFileBytes = 64 << 20;
constexpr std::size_t kStatePoolsMax = 1000;
constexpr std::size_t kStateNameBytes = 1000;

}  // namespace

std::string policy_state_text(const SavedPolicyState& saved) {
  nlohmann::ordered_json root;
  root["version"] = saved.state.version;
  root["policy"] = saved.state.policy;
  root["pools"] = saved.state.pools;
  root["saved_unix_ms"] = saved.saved_unix_ms;
  root["at_ns"] = saved.state.at.time_since_epoch().count();
  root["values"] = saved.state.values;
  return root.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

core::Result<SavedPolicyState> read_policy_state(std::string_view text, const std::string& file) {
  const auto root = parse_object(text, file);
  if (!root) return tl::make_unexpected(root.error());
  JsonFields fields{*root, file, ""};
  SavedPolicyState saved;
  saved.state.version = fields.integer("version", 0, INT64_MAX);
  saved.state.policy = fields.text("policy", kStateNameBytes);
  saved.saved_unix_ms = fields.integer("saved_unix_ms", 0, INT64_MAX / 2'000'000);
  saved.state.at = core::Instant{core::Duration{fields.integer("at_ns", INT64_MIN / 4, INT64_MAX / 4)}};
  saved.state.values = fields.text("values", kStateFileBytes);
  if (const nlohmann::json* pools = fields.list("pools", kStatePoolsMax); pools != nullptr)
    for (const nlohmann::json& pool : *pools) {
      if (!pool.is_string()) fields.fail("pools", "must be a list of names");
      saved.state.pools.push_back(pool.is_string() ? pool.get<std::string>() : std::string{});
    }
  if (fields.error()) return tl::make_unexpected(*fields.error());
  return saved;
}

core::Result<void> save_policy_state(const std::string& path, const SavedPolicyState& saved) {
  return replace_file(path, policy_state_text(saved));
}

core::Result<std::optional<SavedPolicyState>> load_policy_state(const std::string& path) {
  const auto text = read_whole_file(path, kStateFileBytes);
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return std::optional<SavedPolicyState>{};
  auto saved = read_policy_state(**text, path);
  if (!saved) return tl::make_unexpected(saved.error());
  return std::optional{*std::move(saved)};
}

}  // namespace penstock::connect
