// Triggers of KEDA's cron scaler: from texts of flags, and from `planner.schedules`.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"
#include "deployment/scaled_object.h"

namespace penstock::cli {

// Reads "TIMEZONE; START; END; REPLICAS", as "Europe/Berlin; 0 8 * * 1-5; 0 18 * * 1-5; 6".
[[nodiscard]] core::Result<deployment::CronTrigger> parse_cron_trigger(std::string_view text);

// The trigger that asks for replicas from each start of `cron` for `length`. KEDA has a second expression for the
// end instead of a length, and timezones instead of offsets: an error states what they cannot express.
[[nodiscard]] core::Result<deployment::CronTrigger> cron_trigger_of(std::string_view cron, core::Duration length,
                                                                    core::Duration utc_offset, std::uint32_t replicas);

}  // namespace penstock::cli
