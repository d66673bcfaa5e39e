// What promtool would say of a text that Penstock shows at /metrics: the parts of the format that a reader need not check.
#pragma once

#include <string>
#include <vector>

#include "telemetry/exposition.h"

namespace penstock::telemetry {

// One line for each fault: a family without help or type, or with two, or in two places; a sample that its family's type
// does not have; a counter without `_total`; a negative counter; a repeated series; a histogram whose buckets shrink, have
// no le="+Inf", or disagree with its count. Empty: none.
[[nodiscard]] std::vector<std::string> check_exposition(const Exposition& exposition);

}  // namespace penstock::telemetry
