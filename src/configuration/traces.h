// Workloads by name: trace files, descriptions of synthetic traffic, or the built-in workload.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "workload/reader.h"
#include "workload/request.h"

namespace penstock::configuration {

// Prefix of descriptions of synthetic traffic.
inline constexpr std::string_view kSyntheticTrace = "synthetic:";

struct Trace {
  workload::Workload workload;  // After cropping and scaling.
  std::string format;           // "mooncake", …, "synthetic" or "built-in".
  workload::ReadReport report;  // Only of a file.
};

// Returns one trace for each name, in their order. Errors name the file and line, or the part of a description.
[[nodiscard]] core::Result<std::vector<Trace>> load_traces(const TraceOptions& options, std::uint64_t seed);

// Fails if options of sessions are given and none of the traces has whole sessions, on which alone they act.
[[nodiscard]] core::Result<void> check_session_options(const std::vector<Trace>& traces, const TraceOptions& options);

// A sentence for each long time of a workload without requests, at `speed` times its speed. `option` leaves out what
// arrives at the time that follows it: "--to".
[[nodiscard]] std::vector<std::string> gap_warnings(const workload::Workload& workload, std::string_view option,
                                                    double speed = 1.0);

// Merges the traces into one workload with blocks of `block_tokens`.
[[nodiscard]] core::Result<workload::Workload> join_traces(std::vector<Trace> traces, std::uint32_t block_tokens);

}  // namespace penstock::configuration
