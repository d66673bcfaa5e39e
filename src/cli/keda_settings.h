// Flags on what a ScaledObject of KEDA does besides following its triggers: the fallback and times of the calendar.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "deployment/scaled_object.h"
#include "options/reading.h"
#include "options/table.h"

namespace penstock::cli {

// Each text is "[POOL:]VALUE". Triggers at times add up.
struct KedaFlags {
  std::vector<std::string> fallbacks, crons;
};

// Adds the rows of the flags. They must outlive the table.
void add_keda_flags(options::Table& table, KedaFlags& flags);
[[nodiscard]] std::span<const std::string_view> keda_flag_names();

// The settings of each target. Reports what KEDA refuses.
[[nodiscard]] std::vector<deployment::KedaSettings> keda_settings(const std::vector<deployment::ScaleTarget>& targets,
                                                                  const KedaFlags& flags, options::Reading& reading);

// Adds the triggers of `planner.schedules` to the settings of their pools. Returns a line on each schedule that KEDA
// cannot have.
[[nodiscard]] std::vector<std::string> add_schedules(const configuration::Configuration& made,
                                                     const std::vector<deployment::ScaleTarget>& targets,
                                                     std::vector<deployment::KedaSettings>& settings);

}  // namespace penstock::cli
