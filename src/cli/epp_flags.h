// Command lines of llm-d's endpoint picker as command lines of `penstock gateway`.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "core/result.h"
#include "options/arguments.h"

namespace penstock::cli {

struct EppCommandLine {
  Arguments gateway;                  // Words for `penstock gateway`.
  std::string config_file{};          // An EndpointPickerConfig; empty: none.
  std::string config_text{};          // The same as text.
  std::vector<std::string> warnings;  // Flags that have no counterpart.
};
// Flags may be written as in Go: `--tracing=false`, `--tracing`, `-v 4`. Other words stay as they are.
[[nodiscard]] core::Result<EppCommandLine> read_epp_words(const Arguments& words);

// The flags that are translated, for the help.
[[nodiscard]] std::vector<options::Flag> epp_flags();

}  // namespace penstock::cli
