// `penstock size TRACE`: the smallest fixed fleet of each of several engines for recorded traffic.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "options/table.h"

namespace penstock::cli {

struct SizeTraceOptions {
  std::vector<std::string> gpu_types, precisions, tensor_parallel;
  std::uint32_t autoscaled = 2;  // Candidates that also run with the policy penstock.
};

[[nodiscard]] options::Table size_trace_table(SizeTraceOptions& made);

// The flags that a sizing for a trace takes beside those that every sizing takes: rows of `penstock replay`, and those
// of size_trace_table().
[[nodiscard]] std::vector<Flag> size_trace_flags(const options::Table& own);

// Reports errors and returns the exit code. `parsed` has been checked for flags that a trace contradicts.
[[nodiscard]] int size_trace(const SizeTraceOptions& made, const Usage& usage, const Parsed& parsed);

}  // namespace penstock::cli
