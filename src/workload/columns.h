// What the columns of a table hold: the usual names, names given by the user, and suggestions for other names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::workload {

enum class Column : std::uint8_t {
  kTime,
  kInput,
  kOutput,
  kTenant,
  kSession,
  kClass,
  kPriority,
  kStreamed,
  kPrefixGroup,
  kPrefixTokens,
  kModel,
};
inline constexpr std::size_t kColumns = 11;
[[nodiscard]] std::string_view to_string(Column column);  // Returns "time", "input", "output", "tenant", ….

// The column of a table for each value, as given by --columns; empty means that the usual names apply.
class ColumnMapping {
 public:
  // Accepts "time=Request Time,input=Prompt Tok,output=Answer Tok". A part in double quotes may contain commas.
  [[nodiscard]] static core::Result<ColumnMapping> parse(std::string_view text);
  [[nodiscard]] std::string text() const;  // parse() reads it back.

  [[nodiscard]] const std::string& name(Column column) const { return names_[static_cast<std::size_t>(column)]; }
  [[nodiscard]] bool empty() const;

 private:
  std::array<std::string, kColumns> names_;
};

// Returns `name` in lower case, with one `_` for each run of other characters than letters and digits.
[[nodiscard]] std::string words_of(std::string_view name);

// The option that maps these columns, ready for a shell: "--columns 'time=When,input=Prompt Tok,output=COLUMN'". The
// columns are guessed from their names; COLUMN stands for a value that no column seems to hold.
[[nodiscard]] std::string suggested_mapping(std::span<const std::string_view> header);
// Returns false if no name of a column speaks for times.
[[nodiscard]] bool may_have_times(std::span<const std::string_view> header);
// Returns `"Request Time", "Prompt Tok"` for a message, at most the first thirty.
[[nodiscard]] std::string listed(std::span<const std::string_view> header);

}  // namespace penstock::workload
