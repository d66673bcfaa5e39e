#include "connect/policy_state_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "connect/json_fields.h"
#include "connect/whole_file.h"

namespace penstock::connect {
namespace {

constexpr std::size_t kStateFileBytes = 64 << 20;
constexpr std::size_t kStatePoolsMax = 1000;
constexpr std::size_t kStateNameBytes = 1000;
constexpr std::size_t kStateTenantsMax = 10'000;
constexpr double kStateFigureMax = 1e18;
constexpr std::int64_t kStateTokensMax = INT64_MAX / 4;
constexpr std::size_t kStateStartUpsMax = 1000;  // Of a pool.
constexpr std::int64_t kStateStartUpMsMax = 1'000'000'000;
constexpr std::int64_t kStateUnixMsMax = INT64_MAX / 2'000'000;

using Costs = decision::GpuCosts;

nlohmann::ordered_json costs_json(const Costs& costs) {
  nlohmann::ordered_json made{
      {"since_unix_ms", costs.since_unix_ms},         {"is_divided", costs.is_divided},
      {"undivided_input_usd", costs.undivided.input}, {"undivided_output_usd", costs.undivided.output},
      {"pools", nlohmann::ordered_json::array()},     {"tenants", nlohmann::ordered_json::array()}};
  for (const decision::PoolGpuCost& pool : costs.pools)
    made["pools"].push_back({{"pool", pool.pool}, {"gpu_ns", pool.gpu_time.count()}, {"usd", pool.usd}});
  for (const decision::TenantGpuCost& row : costs.tenants)
    made["tenants"].push_back({{"tenant", row.tenant},
                               {"model", row.model},
                               {"input_tokens", row.completed.input},
                               {"output_tokens", row.completed.output},
                               {"input_tokens_at_slo", row.within_slo.input},
                               {"output_tokens_at_slo", row.within_slo.output},
                               {"input_usd", row.usd.input},
                               {"output_usd", row.usd.output},
                               {"recent_input_tokens", row.recent_input},
                               {"recent_output_tokens", row.recent_output}});
  return made;
}

// Calls read(JsonFields&) for each element of the list until there is an error, which is returned.
template <class Read>
std::optional<core::Error> read_rows(JsonFields& fields, const std::string& file, const char* name, std::size_t most,
                                     Read read) {
  const nlohmann::json* rows = fields.list(name, most);
  for (std::size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    JsonFields row{(*rows)[i], file, fields.path_of(fmt::format("{}[{}]", name, i))};
    read(row);
    if (row.error()) return row.error();
  }
  return fields.error();
}

core::Result<Costs> read_costs(const nlohmann::json& object, const std::string& file) {
  JsonFields fields{object, file, "gpu_costs"};
  const auto usd = [](JsonFields& from, const char* name) { return from.number(name, 0.0, kStateFigureMax); };
  const auto tokens = [](JsonFields& from, const char* name) {
    return static_cast<std::uint64_t>(from.integer(name, 0, kStateTokensMax));
  };
  Costs costs;
  costs.since_unix_ms = fields.integer("since_unix_ms", 0, kStateUnixMsMax);
  costs.is_divided = fields.flag("is_divided");
  costs.undivided = {usd(fields, "undivided_input_usd"), usd(fields, "undivided_output_usd")};
  auto error = read_rows(fields, file, "pools", kStatePoolsMax, [&](JsonFields& row) {
    costs.pools.push_back(
        {row.text("pool", kStateNameBytes), core::Duration{row.integer("gpu_ns", 0, INT64_MAX / 4)}, usd(row, "usd")});
  });
  if (error) return tl::make_unexpected(*std::move(error));
  error = read_rows(fields, file, "tenants", kStateTenantsMax, [&](JsonFields& row) {
    decision::TenantGpuCost& made = costs.tenants.emplace_back();
    made.tenant = row.text("tenant", kStateNameBytes);
    made.model = row.text("model", kStateNameBytes);
    made.completed = {tokens(row, "input_tokens"), tokens(row, "output_tokens")};
    made.within_slo = {tokens(row, "input_tokens_at_slo"), tokens(row, "output_tokens_at_slo")};
    made.usd = {usd(row, "input_usd"), usd(row, "output_usd")};
    made.recent_input = usd(row, "recent_input_tokens");
    made.recent_output = usd(row, "recent_output_tokens");
  });
  if (error) return tl::make_unexpected(*std::move(error));
  return costs;
}

nlohmann::ordered_json start_up_json(const std::vector<PoolStartUp>& pools) {
  const auto ms = [](core::Duration time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  };
  nlohmann::ordered_json made = nlohmann::ordered_json::array();
  for (const PoolStartUp& pool : pools) {
    nlohmann::ordered_json times = nlohmann::ordered_json::array();
    for (const core::Duration time : pool.times) times.push_back(ms(time));
    made.push_back({{"pool", pool.pool}, {"configured_ms", ms(pool.configured)}, {"times_ms", std::move(times)}});
  }
  return made;
}

std::optional<core::Error> read_start_up(JsonFields& fields, const std::string& file, std::vector<PoolStartUp>& pools) {
  if (!fields.has("start_up")) return std::nullopt;
  return read_rows(fields, file, "start_up", kStatePoolsMax, [&](JsonFields& row) {
    PoolStartUp& made = pools.emplace_back();
    made.pool = row.text("pool", kStateNameBytes);
    made.configured = std::chrono::milliseconds{row.integer("configured_ms", 0, kStateStartUpMsMax)};
    const nlohmann::json* times = row.list("times_ms", kStateStartUpsMax);
    for (std::size_t i = 0; times != nullptr && i < times->size(); ++i) {
      const std::int64_t ms = whole_number((*times)[i]).value_or(-1);
      if (ms < 0 || ms > kStateStartUpMsMax) row.fail("times_ms", "must be a list of milliseconds");
      made.times.push_back(std::chrono::milliseconds{ms});
    }
  });
}

}  // namespace

std::string policy_state_text(const SavedPolicyState& saved) {
  nlohmann::ordered_json root;
  root["version"] = saved.state.version;
  root["policy"] = saved.state.policy;
  root["pools"] = saved.state.pools;
  root["saved_unix_ms"] = saved.saved_unix_ms;
  root["at_ns"] = saved.state.at.time_since_epoch().count();
  root["values"] = saved.state.values;
  if (saved.costs) root["gpu_costs"] = costs_json(*saved.costs);
  if (!saved.start_up.empty()) root["start_up"] = start_up_json(saved.start_up);
  return root.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

core::Result<SavedPolicyState> read_policy_state(std::string_view text, const std::string& file) {
  const auto root = parse_object(text, file);
  if (!root) return tl::make_unexpected(root.error());
  JsonFields fields{*root, file, ""};
  SavedPolicyState saved;
  saved.state.version = fields.integer("version", 0, INT64_MAX);
  saved.state.policy = fields.text("policy", kStateNameBytes);
  saved.saved_unix_ms = fields.integer("saved_unix_ms", 0, kStateUnixMsMax);
  saved.state.at = core::Instant{core::Duration{fields.integer("at_ns", INT64_MIN / 4, INT64_MAX / 4)}};
  saved.state.values = fields.text("values", kStateFileBytes);
  if (const nlohmann::json* pools = fields.list("pools", kStatePoolsMax); pools != nullptr)
    for (const nlohmann::json& pool : *pools) {
      if (!pool.is_string()) fields.fail("pools", "must be a list of names");
      saved.state.pools.push_back(pool.is_string() ? pool.get<std::string>() : std::string{});
    }
  if (fields.error()) return tl::make_unexpected(*fields.error());
  if (auto error = read_start_up(fields, file, saved.start_up)) return tl::make_unexpected(*std::move(error));
  if (!fields.has("gpu_costs")) return saved;
  auto costs = read_costs(root->at("gpu_costs"), file);
  if (!costs) return tl::make_unexpected(costs.error());
  saved.costs = *std::move(costs);
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
