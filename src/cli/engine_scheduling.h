// What the scheduler of a real engine can do as the simulated one does: flags, and notes on the rest.
#pragma once

#include <string>
#include <vector>

#include "deployment/engine_manifests.h"
#include "engine/config.h"

namespace penstock::cli {

[[nodiscard]] const char* engine_name(deployment::EngineKind kind);  // "vLLM".

// Sets the scheduling of the pool. Returns a line for each setting that the engine does not follow, or not quite.
[[nodiscard]] std::vector<std::string> set_scheduling(deployment::EngineKind kind, const engine::EngineConfig& engine,
                                                      deployment::EnginePool& pool);

}  // namespace penstock::cli
