// Tells the configuration of gateway and planner from the input of `penstock allocate`: both are YAML, and share keys.
#pragma once

#include "cli/arguments.h"
#include "core/result.h"
#include "options/reading.h"
#include "options/table.h"

namespace penstock::cli {

// An error if the file has keys at its top that only `other` knows, and none that only `own` knows. `what` is the whole
// error, as "is the input of `penstock allocate`", and `hint` names the command. A file that is not valid YAML is no
// error here.
[[nodiscard]] core::Result<void> check_file_kind(const options::Source& source, const options::Table& own,
                                                 const options::Table& other, const char* what, const char* hint);

}  // namespace penstock::cli
