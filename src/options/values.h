// Values of every type that an option can have, bound to a field. Bounds are part of the value.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/time.h"
#include "options/scalars.h"
#include "options/table.h"
#include "options/timestamps.h"

namespace penstock::options {

template <class Field>
struct FieldOf {
  using Type = Field;
};
template <class Field>
struct FieldOf<std::optional<Field>> {
  using Type = Field;
};

// A value of a field, which may be optional. `parse` reads it from one text and `format` writes it.
template <class Field, class Parse, class Format>
[[nodiscard]] Value value(std::string_view type, Field& field, Parse parse, Format format) {
  Value made;
  made.type = type;
  made.parse = [&field, parse](std::span<const std::string> texts) -> core::Result<void> {
    auto parsed = parse(std::string_view{texts.front()});
    if (!parsed) return tl::make_unexpected(parsed.error());
    field = static_cast<typename FieldOf<Field>::Type>(*std::move(parsed));
    return {};
  };
  made.format = [&field, format]() -> std::string {
    if constexpr (std::is_same_v<Field, typename FieldOf<Field>::Type>)
      return format(field);
    else
      return field ? format(*field) : std::string{};
  };
  return made;
}

[[nodiscard]] inline Value bounded(Value made, double low, double high) {
  made.low = low;
  made.high = high;
  return made;
}

template <class Field>
[[nodiscard]] Value count(Field& field, std::uint64_t low, std::uint64_t high) {
  return bounded(value(
                     "count", field, [=](std::string_view text) { return parse_count(text, low, high); },
                     [](auto content) { return std::to_string(content); }),
                 static_cast<double>(low), static_cast<double>(high));
}
// A list of different whole numbers: one or a list in YAML, separated by commas in a flag.
template <class Count>
[[nodiscard]] Value counts(std::vector<Count>& field, std::uint64_t low, std::uint64_t high) {
  Value made;
  made.type = "counts";
  made.is_list = made.splits_text = true;
  made.parse = [&field, low, high](std::span<const std::string> parts) -> core::Result<void> {
    std::vector<Count> parsed;
    for (const std::string& part : parts) {
      const auto number = parse_count(part, low, high);
      if (!number) return tl::make_unexpected(number.error());
      const auto item = static_cast<Count>(*number);
      if (std::find(parsed.begin(), parsed.end(), item) != parsed.end())
        return core::invalid_input({}, "has " + quote(part) + " twice");
      parsed.push_back(item);
    }
    field = std::move(parsed);
    return {};
  };
  made.format = [&field] { return fmt::format("{}", fmt::join(field, ",")); };
  return made;
}
// 0 means no limit.
template <class Count>
[[nodiscard]] Value limit(std::optional<Count>& field, std::uint64_t high) {
  Value made = count(field, 0, high);
  made.parse = [&field, parse = std::move(made.parse)](std::span<const std::string> texts) {
    return parse(texts).map([&field] {
      if (*field == 0) field.reset();
    });
  };
  made.format = [&field] { return std::to_string(field.value_or(0)); };
  return made;
}
// Accepts whole numbers from -bound to bound.
template <class Field>
[[nodiscard]] Value whole_number(Field& field, std::uint64_t bound) {
  const auto parse = [=](std::string_view text) -> core::Result<std::int64_t> {
    const bool negative = text.starts_with('-');
    const auto digits = parse_count(negative ? text.substr(1) : text, 0, bound);
    if (!digits)
      return core::invalid_input({},
                                 fmt::format("must be a whole number from -{0} to {0}, is {1}", bound, quote(text)));
    return negative ? -static_cast<std::int64_t>(*digits) : static_cast<std::int64_t>(*digits);
  };
  const auto high = static_cast<double>(bound);
  return bounded(value("whole number", field, parse, [](auto content) { return std::to_string(content); }), -high,
                 high);
}

template <class Field>
[[nodiscard]] Value number(Field& field, double low, double high) {
  return bounded(value(
                     "number", field, [=](std::string_view text) { return parse_number(text, low, high); },
                     [](auto content) { return format_number(static_cast<double>(content)); }),
                 low, high);
}
template <class Field>
[[nodiscard]] Value number_above_zero(Field& field, double high) {
  const auto parse = [=](std::string_view text) -> core::Result<double> {
    auto parsed = parse_number(text, 0.0, high);
    if (parsed && *parsed <= 0.0) return core::invalid_input({}, "must be above 0, is " + quote(text));
    return parsed;
  };
  return bounded(value("number", field, parse, format_number), 0.0, high);
}
[[nodiscard]] inline Value share(double& field, double low = 0.0, double high = 1.0) {
  const auto parse = [=](std::string_view text) -> core::Result<double> {
    auto parsed = parse_share(text);
    if (parsed && (*parsed < low || *parsed > high))
      return core::invalid_input(
          {}, fmt::format("must be from {} to {}, is {}", format_number(low), format_number(high), quote(text)));
    return parsed;
  };
  return bounded(value("share", field, parse, format_number), low, high);
}

template <class Field>
[[nodiscard]] Value duration(Field& field) {
  return value("duration", field, parse_duration, format_duration);
}
template <class Field>
[[nodiscard]] Value duration_above_zero(Field& field) {
  const auto parse = [](std::string_view text) -> core::Result<core::Duration> {
    auto parsed = parse_duration(text);
    if (parsed && *parsed <= core::Duration{})
      return core::invalid_input({}, "must be longer than 0, is " + quote(text));
    return parsed;
  };
  return value("duration", field, parse, format_duration);
}
[[nodiscard]] inline Value timestamp(core::Duration& since_1970) {
  return value("timestamp", since_1970, parse_timestamp, format_timestamp);
}
[[nodiscard]] inline Value utc_offset(core::Duration& field) {
  return value("offset", field, parse_utc_offset, format_utc_offset);
}

template <class Field>
[[nodiscard]] Value bytes(Field& field) {
  return value(
      "bytes", field, [](std::string_view text) { return parse_bytes(text, false); },
      [](auto content) { return format_bytes(static_cast<double>(content)); });
}
[[nodiscard]] inline Value bytes_per_second(double& field) {
  return value(
      "bytes per second", field, [](std::string_view text) { return parse_bytes(text, true); },
      [](double content) { return format_bytes(content) + "/s"; });
}

[[nodiscard]] inline Value boolean(bool& field) {
  return value("boolean", field, parse_boolean, [](bool content) { return content ? "true" : "false"; });
}

[[nodiscard]] inline Value text(std::string& field) {
  return value("text", field, parse_text, [](const std::string& content) { return content; });
}
[[nodiscard]] inline Value word(std::string& field, std::size_t bytes_max) {
  return value(
      "name", field, [=](std::string_view text) { return parse_word(text, bytes_max); },
      [](const std::string& content) { return content; });
}
// An address such as "127.0.0.1:8000". The module that listens or connects parses it.
[[nodiscard]] inline Value address(std::string& field) {
  Value made = text(field);
  made.type = "address";
  return made;
}
// A list of texts: a list or one text in YAML, separated by commas in a flag.
[[nodiscard]] Value texts(std::vector<std::string>& field);
// The same for texts without commas: one text in YAML may also contain several.
[[nodiscard]] Value names(std::vector<std::string>& field);

// A range such as "1..8"; an empty range means none.
[[nodiscard]] inline Value range(CountRange& field, std::uint32_t high) {
  return value(
      "range", field, [=](std::string_view text) { return parse_range(text, high); },
      [](const CountRange& content) {
        return content.empty() ? std::string{} : fmt::format("{}..{}", content.first, content.last);
      });
}

// A choice between names, each of which sets the field to its content.
template <class Field, class Content>
[[nodiscard]] Value choice_of(Field& field, std::vector<std::pair<std::string_view, Content>> names) {
  std::vector<std::string_view> choices;
  choices.reserve(names.size());
  for (const auto& [name, content] : names) choices.push_back(name);
  const auto parse = [names, choices](std::string_view text) -> core::Result<Content> {
    for (const auto& [name, content] : names)
      if (name == text) return content;
    return core::invalid_input({}, fmt::format("must be {}, is {}", options::choices(choices), quote(text)),
                               suggestion(text, choices));
  };
  const auto format = [names](const Content& content) {
    for (const auto& [name, known] : names)
      if (known == content) return std::string{name};
    return std::string{};
  };
  Value made = value("choice", field, parse, format);
  made.choices = std::move(choices);
  return made;
}
// A choice between enumerators, which are named by to_string() of their module.
template <class Enum>
[[nodiscard]] Value choice(Enum& field, std::initializer_list<typename FieldOf<Enum>::Type> enumerators) {
  using Type = typename FieldOf<Enum>::Type;
  std::vector<std::pair<std::string_view, Type>> names;
  for (const Type enumerator : enumerators) names.emplace_back(to_string(enumerator), enumerator);
  return choice_of(field, std::move(names));
}
template <class Enum>
[[nodiscard]] Value named_choice(
    Enum& field, std::initializer_list<std::pair<std::string_view, typename FieldOf<Enum>::Type>> names) {
  return choice_of(field, std::vector<std::pair<std::string_view, typename FieldOf<Enum>::Type>>{names});
}
[[nodiscard]] inline Value text_choice(std::string& field, std::initializer_list<std::string_view> names) {
  std::vector<std::pair<std::string_view, std::string>> known;
  for (const std::string_view name : names) known.emplace_back(name, std::string{name});
  return choice_of(field, std::move(known));
}

}  // namespace penstock::options
