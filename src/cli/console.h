// What the program says to people, and how it ends when one of them says stop.
#pragma once

#include <span>
#include <string_view>

#include "core/result.h"

namespace penstock::cli {

// Writes to standard output. Returns kGood, or complains and returns kEnvironment when it cannot be written.
[[nodiscard]] int print(std::string_view text);
void print_error_text(std::string_view text);

// "penstock: where: what; hint", one line on standard error, and the exit code that goes with it.
int report_error(const core::Error& error);
int report_error(std::span<const core::Error> errors);  // Returns the exit code of the most severe error.
// The same for what the user brought along: a file that cannot be read is bad input, too.
int report_input_error(core::Error error);

[[nodiscard]] bool stdout_has_colour();  // a terminal, and NO_COLOR is not set
[[nodiscard]] bool stderr_is_terminal();

// From now on Ctrl-C (and a polite kill) ends the program at once with 128 + the signal's number.
void end_on_interrupt();

// While one of these lives, Ctrl-C waits, so that no half-written neighbour of an output file stays behind. To be made
// where no other thread runs.
class InterruptLater {
 public:
  InterruptLater();
  ~InterruptLater();
  InterruptLater(const InterruptLater&) = delete;
  InterruptLater& operator=(const InterruptLater&) = delete;
};

}  // namespace penstock::cli
