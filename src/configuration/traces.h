// Where requests come from: files, descriptions of made-up traffic, or what is built in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "workload/reader.h"
#include "workload/request.h"

namespace penstock::configuration {

// Names that begin so describe traffic.
inline constexpr std::string_view kSyntheticTrace = "synthetic:";

struct Trace {
  workload::Workload workload;  // windowed and scaled
  std::string format;           // "mooncake", …, "synthetic", "built-in"
  workload::ReadReport report;  // Report on a file.
};

// One for each name, in their order. Errors name the file and the line, or the words of a description.
[[nodiscard]] core::Result<std::vector<Trace>> load_traces(const TraceOptions& options, std::uint64_t seed);

// All of them at once, with blocks of `block_tokens`.
[[nodiscard]] core::Result<workload::Workload> join_traces(std::vector<Trace> traces, std::uint32_t block_tokens);

}  // namespace penstock::configuration
