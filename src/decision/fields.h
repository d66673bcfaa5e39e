// The table of a decision's fields: logs, the decision store, reports and the live page are written from it, and logs and
// the store are read by it. A new field is one row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/result.h"
#include "decision/decision.h"

namespace penstock::decision {

// Nothing: the decision does not say.
using FieldValue = std::variant<std::monostate, std::string, std::uint32_t, double>;

// Where a field is written. A log and the decision store have the same fields.
enum class Rendering : std::uint8_t { kLog = 1, kReport = 2, kReportHold = 4, kLivePage = 8 };

struct Field {
  enum class Kind : std::uint8_t { kText, kCount, kFigure, kTime };  // a time is seconds since the start
  std::string_view group;  // an object of the log that holds the field; empty: none
  std::string_view name;
  Kind kind;
  bool always;              // written also where it is empty, and an error where a log lacks it
  std::uint8_t renderings;  // a set of Rendering
  FieldValue (*get)(const DecisionRecord& record);
  // False: there is no such name, or no such value. Null: the field follows from others, and is not read.
  bool (*set)(DecisionRecord& record, const FieldValue& value);

  [[nodiscard]] bool is_in(Rendering rendering) const {
    return (renderings & static_cast<std::uint8_t>(rendering)) != 0;
  }
  [[nodiscard]] std::string column() const {  // its name where there are no objects
    return group.empty() ? std::string{name} : std::string{group} + "_" + std::string{name};
  }
};

// In the order in which they are written. Evidence and candidates are lists, and come after the field of this name.
inline constexpr std::string_view kBeforeLists = "limited_by";
[[nodiscard]] std::span<const Field> fields();

}  // namespace penstock::decision
