// Measurements as CSV: an error names one line, and every row that is read has a key and a fit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fidelity/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fidelity;
  const auto rows = read_silicon({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
  if (!rows) {
    if (rows.error().where.rfind("fuzz.csv", 0) != 0) std::abort();
    return 0;
  }
  for (const SiliconRow& row : *rows) {
    if (row.key().empty()) std::abort();
    static_cast<void>(in_calibration_half(row));
    if (!is_covered(row)) continue;
    const auto estimate = aggregated_serving(penstock::engine::Roofline{row.spec, {}}, calibration_point(row).at);
    if (!(estimate.tpot_ms > 0.0 && estimate.running >= 1.0)) std::abort();
  }
  return 0;
}
