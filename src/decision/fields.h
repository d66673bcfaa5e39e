// The table of the fields of a decision. Logs, the decision store, reports and the live page are written from it, and
// logs and the store are read with it. A new field is one row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/result.h"
#include "decision/decision.h"

namespace penstock::decision {

// Empty if the decision has no value.
using FieldValue = std::variant<std::monostate, std::string, std::uint32_t, double>;

// The outputs of a field. A log and the decision store have the same fields.
enum class Rendering : std::uint8_t { kLog = 1, kReport = 2, kReportHold = 4, kLivePage = 8 };

struct Field {
  enum class Kind : std::uint8_t { kText, kCount, kFigure, kTime };  // A time is in seconds since the start.
  std::string_view group;  // The object of the log that contains the field, or empty.
  std::string_view name;
  Kind kind;
  bool always;              // Written also if it is empty; an error if a log lacks it.
  std::uint8_t renderings;  // A set of Rendering.
  FieldValue (*get)(const DecisionRecord& record);
  // Returns false for an unknown name or an invalid value. Null if the field follows from others and is not read.
  bool (*set)(DecisionRecord& record, const FieldValue& value);

  [[nodiscard]] bool is_in(Rendering rendering) const {
    return (renderings & static_cast<std::uint8_t>(rendering)) != 0;
  }
  [[nodiscard]] std::string column() const {  // The name in outputs without objects.
    return group.empty() ? std::string{name} : std::string{group} + "_" + std::string{name};
  }
};

// In the order of the outputs. Evidence and candidates are lists and follow the field with this name.
inline constexpr std::string_view kBeforeLists = "limited_by";
[[nodiscard]] std::span<const Field> fields();

}  // namespace penstock::decision
