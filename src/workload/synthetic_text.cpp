// parse_synthetic: parses "synthetic:rate=5,duration=10m,…".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "workload/fields.h"
#include "workload/synthetic.h"

namespace penstock::workload {
namespace {

constexpr std::string_view kKind = "synthetic";
constexpr std::size_t kNameMax = 60;

Parsed<double> parse_decimal(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0.0)
    return tl::make_unexpected(fmt::format("must be a number, is {}", quoted_text(text)));
  return value;
}

template <class Integer>
Parsed<Integer> parse_count(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return tl::make_unexpected(fmt::format("must be a whole number, is {}", quoted_text(text)));
  return value;
}

Parsed<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto value = parse_decimal(percent ? text.substr(0, text.size() - 1) : text);
  if (!value) return tl::make_unexpected(fmt::format("must be a share like 0.3 or 30%, is {}", quoted_text(text)));
  return percent ? *value / 100.0 : *value;
}

// "90s", "1h30m", "500ms": a sum of numbers with units.
Parsed<core::Duration> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr std::array<Unit, 5> kUnits = {
      {{"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}}};
  const auto wrong = [&] {
    return tl::make_unexpected(fmt::format("must be a time like 90s, 1h30m or 500ms, is {}", quoted_text(text)));
  };
  if (text == "0") return core::Duration{};
  double total_s = 0.0;
  std::string_view rest = text;
  do {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789."), rest.size());
    const std::size_t end = std::min(rest.find_first_of("0123456789.", digits), rest.size());
    const auto value = parse_decimal(rest.substr(0, digits));
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                   [&](const Unit& one) { return one.name == rest.substr(digits, end - digits); });
    if (!value || unit == kUnits.end()) return wrong();
    total_s += *value * unit->seconds;
    rest.remove_prefix(end);
  } while (!rest.empty());
  if (total_s > core::to_seconds(kDurationMax)) return wrong();
  return core::from_seconds(total_s);
}

// The given settings, before defaults that depend on several of them.
struct Draft {
  SyntheticSpec spec;
  std::optional<RateShape> shape;
  bool range = false;  // The form rate=LOW..HIGH.
  std::optional<core::Duration> duration, at, length;
};

// Errors describe the value; the caller adds the setting.
using Outcome = core::Result<void>;

Outcome wrong_value(std::string what) { return core::invalid_input({}, std::move(what)); }

template <class Value, class Target>
Outcome store(Parsed<Value> parsed, Target& target) {
  if (!parsed) return wrong_value(parsed.error());
  target = *parsed;
  return {};
}

Outcome set_rate(Draft& draft, std::string_view text) {
  const std::size_t dots = text.find("..");
  draft.range = dots != std::string_view::npos;
  if (!draft.range) return store(parse_decimal(text), draft.spec.rate.low);
  const auto low = parse_decimal(text.substr(0, dots));
  const auto high = parse_decimal(text.substr(dots + 2));
  if (!low || !high) return wrong_value(fmt::format("must be one rate or two like 2..20, is {}", quoted_text(text)));
  draft.spec.rate.low = *low;
  draft.spec.rate.high = *high;
  return {};
}

Outcome set_shape(Draft& draft, std::string_view text) {
  static constexpr std::array<std::string_view, 5> kNames = {"constant", "ramp", "step", "burst", "diurnal"};
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end())
    return wrong_value(fmt::format("must be {}, is {}", fmt::join(kNames, " or "), quoted_text(text)));
  draft.shape = static_cast<RateShape>(found - kNames.begin());
  return {};
}

Outcome set_lengths(Draft& draft, std::string_view text) {
  auto pairs = read_lengths(std::string{text});
  if (!pairs) return tl::make_unexpected(pairs.error());
  draft.spec.lengths = std::move(*pairs);
  return {};
}

Outcome set_name(Draft& draft, std::string_view text) {
  if (text.empty() || text.size() > kNameMax || printable(text) != text)
    return wrong_value(fmt::format("must be 1 to {} letters on one line, is {}", kNameMax, quoted_text(text)));
  draft.spec.name = text;
  return {};
}

Outcome set_requests(Draft& draft, std::string_view text) {
  auto stored = store(parse_count<std::uint64_t>(text), draft.spec.requests_max);
  if (stored && draft.spec.requests_max == 0) return wrong_value("must be at least 1, is 0");
  return stored;
}

struct Word {
  std::string_view name;
  Outcome (*set)(Draft& draft, std::string_view text);
};

constexpr std::array<Word, 23> kWords = {{
    {"name", set_name},
    {"rate", set_rate},
    {"shape", set_shape},
    {"at", [](Draft& d, std::string_view t) { return store(parse_duration(t), d.at); }},
    {"length", [](Draft& d, std::string_view t) { return store(parse_duration(t), d.length); }},
    {"period", [](Draft& d, std::string_view t) { return store(parse_duration(t), d.length); }},
    {"duration", [](Draft& d, std::string_view t) { return store(parse_duration(t), d.duration); }},
    {"requests", set_requests},
    {"cv", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.arrival_cv); }},
    {"input", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.input.mean); }},
    {"input_cv", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.input.cv); }},
    {"input_max", [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.input.max); }},
    {"output", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.output.mean); }},
    {"output_cv", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.output.cv); }},
    {"output_max",
     [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.output.max); }},
    {"lengths", set_lengths},
    {"tenants", [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.tenants); }},
    {"batch", [](Draft& d, std::string_view t) { return store(parse_share(t), d.spec.batch_share); }},
    {"prefix_groups",
     [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.prefix_groups); }},
    {"prefix_tokens",
     [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.prefix_tokens); }},
    {"turns", [](Draft& d, std::string_view t) { return store(parse_decimal(t), d.spec.turns); }},
    {"think", [](Draft& d, std::string_view t) { return store(parse_duration(t), d.spec.think_time); }},
    {"block", [](Draft& d, std::string_view t) { return store(parse_count<std::uint32_t>(t), d.spec.block_tokens); }},
}};

// Levenshtein distance.
std::size_t edits_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

tl::unexpected<core::Error> unknown_word(std::string_view word) {
  std::array<std::string_view, kWords.size()> names;
  std::transform(kWords.begin(), kWords.end(), names.begin(), [](const Word& known) { return known.name; });
  std::string hint = fmt::format("there are {}", fmt::join(names, ", "));
  if (word.size() <= 32) {  // Longer text is not a misspelling.
    const auto nearest = std::min_element(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
      return edits_between(word, a) < edits_between(word, b);
    });
    // Short names are close to every other name.
    if (edits_between(word, *nearest) <= std::min<std::size_t>(2, word.size() / 2))
      hint = fmt::format("did you mean {}? {}", *nearest, hint);
  }
  return core::invalid_input(std::string{kKind}, fmt::format("unknown setting {}", quoted_text(word)), std::move(hint));
}

tl::unexpected<core::Error> wrong_word(std::string_view word, std::string what, std::string hint = {}) {
  return core::invalid_input(fmt::format("{}: {}", kKind, printable(word)), std::move(what), std::move(hint));
}

// Settings that do not apply to the shape are errors, because the user intended an effect.
core::Result<void> resolve_rate(Draft& draft, core::Duration span) {
  RateCurve& rate = draft.spec.rate;
  rate.shape = draft.shape.value_or(draft.range ? RateShape::kRamp : RateShape::kConstant);
  const bool constant = rate.shape == RateShape::kConstant;
  if (constant && draft.range) return wrong_word("rate", "must be one rate where shape is constant");
  if (!constant && !draft.range) return wrong_word("rate", "must be two rates like 2..20 where shape is not constant");
  if (constant && draft.at) return wrong_word("at", "does not apply to a constant rate", "give a shape and rate=2..20");
  const bool has_length = !constant && rate.shape != RateShape::kStep;
  if (!has_length && draft.length) return wrong_word("length", "does not apply to a constant rate or to steps");
  const bool in_the_middle = rate.shape == RateShape::kStep || rate.shape == RateShape::kBurst;
  rate.at = draft.at.value_or(in_the_middle ? span / 2 : core::Duration{});
  if (!has_length) return {};
  switch (rate.shape) {
    case RateShape::kRamp: rate.length = span - rate.at; break;
    case RateShape::kBurst: rate.length = span / 10; break;
    default: rate.length = span;
  }
  rate.length = draft.length.value_or(rate.length);
  return {};
}

core::Result<SyntheticSpec> resolve(Draft draft) {
  SyntheticSpec& spec = draft.spec;
  core::Duration span = draft.duration.value_or(spec.duration);
  if (draft.duration) {
    spec.duration = *draft.duration;
  } else if (spec.requests_max > 0) {
    const double rate = draft.range ? 0.5 * (spec.rate.low + spec.rate.high) : spec.rate.low;
    const double span_s = rate > 0.0 ? static_cast<double>(spec.requests_max) / rate : 0.0;
    span = core::from_seconds(std::min(span_s, core::to_seconds(kDurationMax)));
    spec.duration = kDurationMax;
  }
  const auto resolved = resolve_rate(draft, span);
  if (!resolved) return tl::make_unexpected(resolved.error());
  const auto sound = check(spec);
  if (!sound) return tl::make_unexpected(sound.error());
  return std::move(spec);
}

}  // namespace

core::Result<SyntheticSpec> parse_synthetic(std::string_view text) {
  Draft draft;
  if (text == kKind) return resolve(std::move(draft));
  if (!text.starts_with(kKind) || text.substr(kKind.size(), 1) != ":")
    return core::invalid_input(std::string{kKind}, fmt::format("does not begin with synthetic: {}", quoted_text(text)));
  std::vector<std::string_view> seen;
  std::string_view rest = text.substr(kKind.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);  // The colon or a comma.
    const std::string_view part = trimmed(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.find(','), rest.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return core::invalid_input(std::string{kKind}, fmt::format("expected setting=value, found {}", quoted_text(part)),
                                 "for example synthetic:rate=5,duration=10m");
    const std::string_view name = trimmed(part.substr(0, equals));
    const auto word = std::find_if(kWords.begin(), kWords.end(), [&](const Word& known) { return known.name == name; });
    if (word == kWords.end()) return unknown_word(name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) return wrong_word(name, "is given twice");
    seen.push_back(name);
    if (draft.length && (name == "length" || name == "period")) return wrong_word(name, "duplicates length");
    auto done = word->set(draft, trimmed(part.substr(equals + 1)));
    if (!done) {
      core::Error error = std::move(done.error());
      error.where = fmt::format("{}: {}{}{}", kKind, name, error.where.empty() ? "" : ": ", error.where);
      return tl::make_unexpected(std::move(error));
    }
  }
  return resolve(std::move(draft));
}

}  // namespace penstock::workload
