#include "planner/policy_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "decision/policy.h"

namespace penstock::planner {

namespace {

std::optional<double> number(std::string_view text, SettingUnit unit) {
  double divisor = 1.0;
  if (unit == SettingUnit::kShare && text.ends_with('%')) {
    divisor = 100.0;  // 95 / 100 is 0.95 to the last bit, 95 * 0.01 is not.
    text.remove_suffix(1);
  }
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value / divisor;
}

bool is_within(const PolicySetting& setting, double value) { return value >= setting.least && value <= setting.most; }

core::Error invalid_value(std::string_view policy, const PolicySetting& setting, std::string_view text,
                          std::optional<double> value) {
  std::string hint;
  if (setting.unit == SettingUnit::kSeconds) hint = "write seconds without a unit, such as 300";
  if (setting.unit == SettingUnit::kShare)
    hint = value && *value > 1.0 && is_within(setting, *value / 100.0) && !text.ends_with('%')
               ? fmt::format("write {:g} or {:g}%", *value / 100.0, *value)
               : "write a share such as 0.9 or 90%";
  return {core::ErrorCode::kInvalidInput, std::string{policy},
          fmt::format("{} must be a number {}from {:g} to {:g}, is '{}'", setting.name,
                      setting.unit == SettingUnit::kSeconds ? "of seconds " : "", setting.least, setting.most, text),
          std::move(hint)};
}

core::Result<void> check_order(std::string_view policy, const PolicySettings& made,
                               std::span<const PolicySetting> known) {
  for (const PolicySetting& setting : known) {
    if (setting.upper_bound.empty() || !made.contains(setting.name) || !made.contains(setting.upper_bound)) continue;
    const double value = made.get(setting.name, 0.0), bound = made.get(setting.upper_bound, 0.0);
    if (value > bound)
      return core::invalid_input(
          std::string{policy},
          fmt::format("{} must be at most {} ({:g}), is {:g}", setting.name, setting.upper_bound, bound, value),
          fmt::format("lower {} or raise {}", setting.name, setting.upper_bound));
  }
  return {};
}

std::string list_of(std::span<const PolicySetting> known) {
  if (known.empty()) return "it has no settings";
  std::string text;
  for (const PolicySetting& setting : known)
    text += fmt::format("{}{} (from {:g} to {:g}): {}", text.empty() ? "" : "; ", setting.name, setting.least,
                        setting.most, setting.help);
  return text;
}

}  // namespace

double PolicySettings::get(std::string_view setting, double standard) const {
  for (const auto& [name, value] : values_)
    if (name == setting) return value;
  return standard;
}

bool PolicySettings::contains(std::string_view setting) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& each) { return each.first == setting; });
}

core::Result<PolicySettings> parse_settings(std::string_view policy, std::span<const PolicySetting> known) {
  PolicySettings made;
  const std::string_view name = decision::name_without_settings(policy);
  std::string_view rest = policy.substr(name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);  // The colon.
    const std::string_view part = rest.substr(0, rest.find(':'));
    rest.remove_prefix(part.size());
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return core::invalid_input(std::string{policy}, fmt::format("'{}' is not SETTING=VALUE", part), list_of(known));
    const std::string_view key = part.substr(0, equals), text = part.substr(equals + 1);
    const auto* setting =
        std::find_if(known.data(), known.data() + known.size(), [&](const auto& each) { return each.name == key; });
    if (setting == known.data() + known.size())
      return core::invalid_input(std::string{policy}, fmt::format("unknown setting '{}'", key), list_of(known));
    if (made.contains(key)) return core::invalid_input(std::string{policy}, fmt::format("'{}' is given twice", key));
    const std::optional<double> value = number(text, setting->unit);
    if (!value || !is_within(*setting, *value))
      return tl::make_unexpected(invalid_value(policy, *setting, text, value));
    made.set(setting->name, *value);
  }
  if (auto checked = check_order(policy, made, known); !checked) return tl::make_unexpected(checked.error());
  return made;
}

}  // namespace penstock::planner
