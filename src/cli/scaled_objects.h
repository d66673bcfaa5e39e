// The ScaledObjects of `penstock replay --emit keda`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/keda_settings.h"
#include "configuration/configuration.h"
#include "deployment/scaled_object.h"
#include "options/reading.h"
#include "options/table.h"
#include "planner/policy.h"
#include "report/run_info.h"

namespace penstock::cli {

enum class Emit : std::uint8_t { kNothing, kKeda };

struct EmitOptions {
  Emit kind = Emit::kNothing;
  std::string in_namespace = "default";
  KedaFlags flags;
  std::vector<deployment::ScaleTarget> targets;    // By pool; set by check_emit().
  std::vector<deployment::KedaSettings> settings;  // By pool; set by check_emit().
};

// The flags, which bind to the options.
[[nodiscard]] options::Table emit_table(EmitOptions& made);

// Reports pools that no ScaledObject can scale, engines without known series, and a list of policies of which KEDA can
// run none. To be called before the runs.
void check_emit(EmitOptions& options, const configuration::Configuration& made, options::Reading& reading);

// YAML of a ScaledObject for each pool, with the thresholds of the cheapest policy that reaches the goal and that KEDA
// can run; comments name what is cheaper and why KEDA cannot run it. `capacities` are those of the replay.
[[nodiscard]] std::string scaled_objects(const EmitOptions& options, const configuration::Configuration& made,
                                         const std::vector<planner::ReplicaCapacity>& capacities,
                                         const report::Report& report);

}  // namespace penstock::cli
