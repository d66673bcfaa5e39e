// Output to the terminal, error messages, and interrupts.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::cli {

// Writes to standard output. Returns kGood; if that fails, reports the error and returns kEnvironment.
[[nodiscard]] int print(std::string_view text);
void print_error_text(std::string_view text);
// Prints each as "penstock: warning: …" on standard error.
void print_warnings(std::span<const std::string> warnings);
// Prints the page of a run for people: to standard error if one of the run's outputs goes to standard output ("-").
[[nodiscard]] int print_page(std::string_view text, std::initializer_list<std::string_view> outputs);

// Prints "penstock: where: what; hint" as one line on standard error and returns the exit code.
int report_error(const core::Error& error);
int report_error(std::span<const core::Error> errors);  // Returns the highest exit code.
// Returns kGood without an error.
[[nodiscard]] int report_failure(const core::Result<void>& done);
// The same for input: a file that cannot be read counts as invalid input.
int report_input_error(core::Error error);

[[nodiscard]] bool stdout_has_colour();  // It is a terminal, and NO_COLOR is not set.
[[nodiscard]] bool stderr_is_terminal();
// Columns of the terminal that standard output is; empty for files and pipes.
[[nodiscard]] std::optional<std::size_t> terminal_width();

// Takes the place of each standard descriptor that the caller has closed: the next file or connection would get its
// number, and output would be written into it. Before anything is opened.
void hold_standard_descriptors();
// After this call SIGINT and SIGTERM end the program at once with exit code 128 + the signal's number.
void end_on_interrupt();

// Delays SIGINT and SIGTERM during its lifetime, so that no temporary output file is left behind. Must be created while
// no other thread runs.
class InterruptLater {
 public:
  InterruptLater();
  ~InterruptLater();
  InterruptLater(const InterruptLater&) = delete;
  InterruptLater& operator=(const InterruptLater&) = delete;
};

}  // namespace penstock::cli
