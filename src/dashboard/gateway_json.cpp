#include "dashboard/gateway_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace penstock::dashboard {
namespace {

using Json = nlohmann::ordered_json;

// What identifies a row of a list, whichever list it is.
constexpr std::array kRowKeys = {"id", "name", "tenant", "model", "pool", "class", "kind", "replica", "url", "code"};
// Of a replica or a queue, not of the gateway that reports it.
constexpr std::array kLargest = {"oldest_s", "workers", "kv_usage", "prefill_tokens_per_s"};
// Gateways with `gateway.peers` report the same budget.
constexpr std::array kSmallest = {"next_due_s", "success_rate", "budget_available"};

template <std::size_t kCount>
bool is_one_of(const std::array<const char*, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A replica is identified by its id alone.
bool is_same_row(const Json& left, const Json& right) {
  if (!left.is_object() || !right.is_object()) return false;
  bool has_key = false;
  for (const char* key : kRowKeys) {
    if (!left.contains(key)) continue;
    if (!right.contains(key) || left[key] != right[key]) return false;
    if (std::string_view{key} == "id") return true;
    has_key = true;
  }
  return has_key;
}

void add_number(std::string_view name, const Json& value, Json& sum) {
  if (is_one_of(kLargest, name))
    sum = std::max(sum, value);
  else if (is_one_of(kSmallest, name))
    sum = std::min(sum, value);
  else if (sum.is_number_unsigned() && value.is_number_unsigned())
    sum = sum.get<std::uint64_t>() + value.get<std::uint64_t>();
  else
    sum = sum.get<double>() + value.get<double>();
}

void add(std::string_view name, const Json& value, Json& sum) {
  if (sum.is_null()) {
    sum = value;
  } else if (sum.is_number() && value.is_number()) {
    add_number(name, value, sum);
  } else if (sum.is_boolean() && value.is_boolean()) {
    sum = sum.get<bool>() && value.get<bool>();
  } else if (sum.is_object() && value.is_object()) {
    for (const auto& [member, of_value] : value.items()) add(member, of_value, sum[member]);
  } else if (sum.is_array() && value.is_array()) {
    for (const Json& row : value) {
      if (!row.is_object()) continue;
      const auto known = std::find_if(sum.begin(), sum.end(), [&](const Json& each) { return is_same_row(each, row); });
      if (known == sum.end())
        sum.push_back(row);
      else
        add({}, row, *known);
    }
  }
}

}  // namespace

Json gateway_json(const std::vector<const std::string*>& overviews, const controller::GatewayState& sum,
                  core::Instant read_at) {
  Json made;
  for (const std::string* overview : overviews) add({}, Json::parse(*overview, nullptr, false), made);
  if (overviews.size() < 2) return made;
  made["boot"] = sum.boot;
  made["now_s"] = core::to_seconds(read_at);
  made["latencies"] = Json::array();
  made["refused_total"] = sum.refused_total;
  if (sum.deferral) {
    Json& deferred = made["deferred"];
    deferred["deferred_total"] = sum.deferral->deferred_total;
    deferred["sent_spare_total"] = sum.deferral->sent_spare_total;
    deferred["sent_due_total"] = sum.deferral->sent_due_total;
    deferred["missed_total"] = sum.deferral->missed_total;
  }
  for (Json& row : made["replicas"]) {
    const auto known = sum.replicas.find(row.value("id", std::string{}));
    if (known == sum.replicas.end()) continue;
    row["phase"] = known->second.phase;
    row["eligible"] = known->second.eligible;
    row["healthy"] = known->second.healthy;
    row["open_requests"] = known->second.open_requests;
    row["open_transfers"] = known->second.open_transfers;
  }
  return made;
}

}  // namespace penstock::dashboard
