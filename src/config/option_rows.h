// The makers of the rows of the table of options, shared by the files that hold parts of it.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/replay_options.h"

namespace penstock::config::rows {

constexpr std::uint32_t kReplicasMax = 10'000;
constexpr std::size_t kTextMax = 4096;

using Names = std::vector<std::string_view>;
using Values = std::span<const std::string>;

inline std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

// `value_of` picks the field out of (replay, pool). It takes both const and not, so that one lambda reads and writes.
template <class ValueOf, class Parse, class Show>
Option scalar(Option option, ValueOf value_of, Parse parse, Show show) {
  option.put = [=](OptionTarget target, Values values) -> core::Result<void> {
    auto value = parse(std::string_view{values.front()});
    if (!value) return tl::make_unexpected(value.error());
    auto& field = value_of(target.replay, target.pool);
    field = static_cast<std::remove_reference_t<decltype(field)>>(*std::move(value));
    return {};
  };
  option.show = [=](const ReplaySettings& replay, const PoolSettings& pool) -> std::string {
    return show(value_of(replay, pool));
  };
  return option;
}

inline std::string show_optional(const std::optional<double>& value) { return value ? format_number(*value) : ""; }
inline std::string show_number(double value) { return format_number(value); }

template <class ValueOf>
Option count(Option option, ValueOf value_of, std::uint64_t low, std::uint64_t high) {
  option.type = "count";
  return scalar(
      option, value_of, [=](std::string_view text) { return parse_count(text, low, high); },
      [](std::uint64_t value) { return std::to_string(value); });
}
template <class ValueOf>
Option number(Option option, ValueOf value_of, double low, double high) {
  option.type = "number";
  return scalar(
      option, value_of, [=](std::string_view text) { return parse_number(text, low, high); }, show_number);
}
template <class ValueOf>
Option known_number(Option option, ValueOf value_of) {
  option.type = "number";
  return scalar(
      option, value_of, [](std::string_view text) { return parse_number(text, 1e-9, 1e12); }, show_optional);
}
template <class ValueOf>
Option share(Option option, ValueOf value_of) {
  option.type = "share";
  return scalar(option, value_of, parse_share, show_number);
}
template <class ValueOf>
Option duration(Option option, ValueOf value_of) {
  option.type = "duration";
  return scalar(option, value_of, parse_duration, format_duration);
}
template <class ValueOf>
Option boolean(Option option, ValueOf value_of) {
  option.type = "boolean";
  return scalar(option, value_of, parse_boolean, [](bool value) { return std::string{value ? "true" : "false"}; });
}
template <class ValueOf>
Option bytes(Option option, ValueOf value_of, bool per_second) {
  option.type = per_second ? "bytes per second" : "bytes";
  return scalar(
      option, value_of, [=](std::string_view text) { return parse_bytes(text, per_second); },
      [=](double value) { return format_bytes(value) + (per_second ? "/s" : ""); });
}

[[nodiscard]] inline core::Result<std::string> parse_text(std::string_view text) {
  if (text.empty()) return core::invalid_input({}, "must not be empty");
  if (text.size() > kTextMax) return core::invalid_input({}, fmt::format("must have at most {} bytes", kTextMax));
  return std::string{text};
}
template <class ValueOf>
Option text(Option option, ValueOf value_of) {
  option.type = "text";
  return scalar(option, value_of, parse_text, [](const std::string& value) { return value; });
}
[[nodiscard]] inline core::Result<std::string> parse_choice(std::string_view text, const Names& names) {
  if (std::find(names.begin(), names.end(), text) != names.end()) return std::string{text};
  return core::invalid_input({}, fmt::format("must be {}, is {}", choices(names), quoted(text)),
                             suggestion(text, names));
}
template <class ValueOf>
Option choice(Option option, ValueOf value_of, Names names) {
  option.type = "choice";
  return scalar(
      option, value_of, [names](std::string_view text) { return parse_choice(text, names); },
      [](const std::string& value) { return value; });
}
template <class ValueOf>
Option list(Option option, ValueOf value_of) {
  option.type = "list";
  option.list = true;
  option.put = [=](OptionTarget target, Values values) -> core::Result<void> {
    if (values.empty()) return core::invalid_input({}, "must have at least one item");
    for (const std::string& value : values)
      if (auto checked = parse_text(value); !checked) return tl::make_unexpected(checked.error());
    value_of(target.replay, target.pool).assign(values.begin(), values.end());
    return {};
  };
  option.show = [=](const ReplaySettings& replay, const PoolSettings& pool) { return joined(value_of(replay, pool)); };
  return option;
}

inline Option row(std::string_view group, std::string_view key, std::string_view flag, std::string_view help,
                  std::string_view implied = {}) {
  Option option;
  option.group = group;
  option.key = key;
  option.flag = flag;
  option.help = help;
  option.implied = implied;
  return option;
}

}  // namespace penstock::config::rows

// Fields, for the functions above. The two parameters are the replay and the pool.
#define PENSTOCK_FIELD(field)             \
  [](auto& replay, auto& pool) -> auto& { \
    static_cast<void>(replay);            \
    static_cast<void>(pool);              \
    return field;                         \
  }
