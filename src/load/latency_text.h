// A latency quantile as text, in the common format of all outputs of a run.
#pragma once

#include <string>

#include "core/sketch.h"
#include "report/format.h"

namespace penstock::load {

[[nodiscard]] inline std::string latency_text(const core::QuantileSketch& milliseconds, double quantile) {
  return milliseconds.count() == 0 ? "–" : report::format_milliseconds(milliseconds.quantile(quantile));
}

}  // namespace penstock::load
