// What `penstock check` finds wrong with what a live planner uses.
#pragma once

#include "configuration/configuration.h"
#include "options/reading.h"

namespace penstock::cli {

// Reports each address of a Prometheus server, of Dynamo's discovery, of its event plane and of exporters that a live
// planner cannot use, and each credential for them that cannot be read. `made` is of one deployment, whose scope the
// reading has.
void check_planner_sources(const configuration::Configuration& made, options::Reading& reading);

}  // namespace penstock::cli
