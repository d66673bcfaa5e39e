// What an engine's state looks like from outside.
#pragma once

#include "core/time.h"
#include "engine/engine.h"
#include "signals/observation.h"

namespace penstock::simulation {

[[nodiscard]] signals::EngineSample sample_of(const engine::EngineState& state, core::Instant now);

}  // namespace penstock::simulation
