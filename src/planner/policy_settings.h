// Numbers that the name of a policy may contain: "keda-tokens:utilisation=0.6", "llmd-slo:up=0.5:down=0.3".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace penstock::planner {

enum class SettingUnit : std::uint8_t { kShare, kCount, kSeconds };

struct PolicySetting {
  std::string_view name;
  double least = 0.0, most = 1.0;
  std::string_view help;
  SettingUnit unit = SettingUnit::kShare;
  // Another setting. If the name of a policy gives both, this one must not be larger.
  std::string_view upper_bound = {};
};

class PolicySettings {
 public:
  // Returns the given value, or `standard` if there is none.
  [[nodiscard]] double get(std::string_view setting, double standard) const;
  void set(std::string_view setting, double value) { values_.emplace_back(setting, value); }
  [[nodiscard]] bool contains(std::string_view setting) const;
  [[nodiscard]] bool empty() const { return values_.empty(); }

 private:
  std::vector<std::pair<std::string_view, double>> values_;  // The names are those of the table of settings.
};

// Reads what follows the first colon of `policy`: SETTING=VALUE, with further settings behind further colons. A share
// may end with %. Errors name the setting and list those of `known`, or state how to write the value.
[[nodiscard]] core::Result<PolicySettings> parse_settings(std::string_view policy,
                                                          std::span<const PolicySetting> known);

}  // namespace penstock::planner
