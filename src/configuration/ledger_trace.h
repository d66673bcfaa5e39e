// The ledger of a gateway as a trace.
#pragma once

#include <string>

#include "core/result.h"
#include "workload/reader.h"
#include "workload/request.h"

namespace penstock::configuration {

// Reads the requests of the ledger at `path` in the order of their arrival. Requests that are open or have no prompt or
// output tokens, such as failed ones, are left out and counted in the report.
[[nodiscard]] core::Result<workload::Workload> read_ledger(const std::string& path,
                                                           const workload::ReadOptions& options,
                                                           workload::ReadReport* report);

}  // namespace penstock::configuration
