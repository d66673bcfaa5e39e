#include "decision/fields.h"

#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "decision/decision_text.h"

namespace penstock::decision {
namespace {

using Record = DecisionRecord;
using Value = FieldValue;
using Kind = Field::Kind;

constexpr std::uint8_t kLog = 1, kReport = 2, kReportHold = 4, kLivePage = 8;
constexpr std::uint8_t kDocuments = kReport | kReportHold | kLivePage, kEverywhere = kLog | kDocuments;
constexpr double kLatest_s = 100.0 * 365 * 24 * 3600;

template <auto field>
using Type = std::remove_cvref_t<decltype(std::declval<Record>().*field)>;

// For texts and counts.
template <auto field>
Value get(const Record& record) {
  return record.*field;
}
template <auto field>
bool set(Record& record, const Value& value) {
  record.*field = std::get<Type<field>>(value);
  return true;
}

template <auto field>
Value get_name(const Record& record) {
  return std::string{to_string(record.*field)};
}
template <auto field>
bool set_name(Record& record, const Value& value) {
  const auto parsed = parse_name<Type<field>>(std::get<std::string>(value));
  record.*field = parsed.value_or(record.*field);
  return parsed.has_value();
}
template <auto field>
Value get_optional_name(const Record& record) {
  return record.*field ? Value{std::string{to_string(*(record.*field))}} : Value{};
}
template <auto field>
bool set_optional_name(Record& record, const Value& value) {
  record.*field = parse_name<typename Type<field>::value_type>(std::get<std::string>(value));
  return (record.*field).has_value();
}

template <std::optional<double> Forecast::*field>
Value get_forecast(const Record& record) {
  return record.forecast && *record.forecast.*field ? Value{*(*record.forecast.*field)} : Value{};
}
// A figure that was not finite when it was written is unknown.
template <std::optional<double> Forecast::*field>
bool set_forecast(Record& record, const Value& value) {
  const double figure = std::get<double>(value);
  if (!std::isfinite(figure)) return true;
  if (!record.forecast) record.forecast.emplace();
  *record.forecast.*field = figure;
  return true;
}

Value get_time(const Record& record) { return core::to_seconds(record.at); }
bool set_time(Record& record, const Value& value) {
  const double seconds = std::get<double>(value);
  if (!(seconds >= 0.0 && seconds <= kLatest_s)) return false;
  record.at = core::kStart + core::from_seconds(seconds);
  return true;
}

Value get_next_phase_target(const Record& record) {
  return record.next_phase_target ? Value{*record.next_phase_target} : Value{};
}
bool set_next_phase_target(Record& record, const Value& value) {
  record.next_phase_target = std::get<std::uint32_t>(value);
  return true;
}

Value get_asleep(const Record& record) { return record.asleep > 0 ? Value{record.asleep} : Value{}; }

Value get_sentence(const Record& record) { return sentence(record.evidence); }
Value get_would_change(const Record& record) { return what_would_change(record); }

constexpr std::array kFields{
    Field{"", "at_s", Kind::kTime, true, kEverywhere, get_time, set_time},
    Field{"", "policy", Kind::kText, true, kLog, get<&Record::policy>, set<&Record::policy>},
    Field{"", "pool", Kind::kText, true, kEverywhere, get<&Record::pool>, set<&Record::pool>},
    Field{"", "current", Kind::kCount, true, kLog | kReport | kLivePage, get<&Record::current>, set<&Record::current>},
    Field{"", "target", Kind::kCount, true, kEverywhere, get<&Record::target>, set<&Record::target>},
    Field{"", "reason", Kind::kText, true, kEverywhere, get_name<&Record::reason>, set_name<&Record::reason>},
    Field{"", "limited_by", Kind::kText, true, kEverywhere, get_name<&Record::limited_by>,
          set_name<&Record::limited_by>},
    Field{"", "evidence", Kind::kText, true, kReport, get_sentence, nullptr},
    Field{"", "sentence", Kind::kText, true, kLivePage, get_sentence, nullptr},
    Field{"", "would_change", Kind::kText, true, kLog | kLivePage, get_would_change, nullptr},
    Field{"", "cause", Kind::kText, false, kEverywhere, get_optional_name<&Record::cause>,
          set_optional_name<&Record::cause>},
    Field{"", "diagnosis", Kind::kText, false, kEverywhere, get<&Record::diagnosis>, set<&Record::diagnosis>},
    Field{"", "phase", Kind::kText, false, kEverywhere, get_optional_name<&Record::phase>,
          set_optional_name<&Record::phase>},
    Field{"", "next_phase_target", Kind::kCount, false, kEverywhere, get_next_phase_target, set_next_phase_target},
    Field{"", "asleep", Kind::kCount, false, kEverywhere, get_asleep, set<&Record::asleep>},
    Field{"forecast", "requests_per_s", Kind::kFigure, false, kEverywhere, get_forecast<&Forecast::requests_per_s>,
          set_forecast<&Forecast::requests_per_s>},
    Field{"forecast", "input_tokens", Kind::kFigure, false, kLog | kLivePage, get_forecast<&Forecast::input_tokens>,
          set_forecast<&Forecast::input_tokens>},
    Field{"forecast", "output_tokens", Kind::kFigure, false, kLog | kLivePage, get_forecast<&Forecast::output_tokens>,
          set_forecast<&Forecast::output_tokens>},
    Field{"forecast", "error", Kind::kFigure, false, kLog | kLivePage, get_forecast<&Forecast::error>,
          set_forecast<&Forecast::error>},
    Field{"forecast", "naive_error", Kind::kFigure, false, kLog | kLivePage, get_forecast<&Forecast::naive_error>,
          set_forecast<&Forecast::naive_error>},
    Field{"", "started", Kind::kText, false, kLog, get<&Record::started>, set<&Record::started>},
};

}  // namespace

std::span<const Field> fields() { return kFields; }

}  // namespace penstock::decision
