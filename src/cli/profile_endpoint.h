// `penstock profile URL`: measures a live endpoint.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"
#include "cli/profile_page.h"
#include "load/endpoint.h"
#include "options/table.h"
#include "profiling/measurement_grid.h"

namespace penstock::cli {

struct EndpointProfileOptions {
  load::EndpointOptions endpoint;
  profiling::GridLimits grid;
  std::uint64_t requests_max = 5000;
  core::Duration duration = std::chrono::minutes{15}, timeout = std::chrono::minutes{2};
  bool completions = false;
};
void add_endpoint_profile(options::Table& table, EndpointProfileOptions& options);

// What the flags say about the replica. 0 if a flag was not given.
struct GivenLimits {
  double max_sequences = 0.0, max_batched_tokens = 0.0, kv_tokens = 0.0;
};

// Prints the page and writes the profile to `json`, if it is not empty. Returns the exit code.
[[nodiscard]] int profile_endpoint(const std::string& url, const EndpointProfileOptions& options, const Parsed& parsed,
                                   const GivenLimits& given, ProfiledReplica replica, const std::string& json);

}  // namespace penstock::cli
