// NumPy's .npz format: a ZIP archive of .npy arrays, as Dynamo's profiler writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::engine {

struct NpzLimits {
  std::size_t entries_max = 256;
  std::size_t array_bytes_max = std::size_t{64} << 20;  // Size of one unpacked array.
  std::size_t total_bytes_max = std::size_t{128} << 20;
  std::size_t header_bytes_max = std::size_t{64} << 10;
  std::size_t dimensions_max = 8;
};

// One numeric array in C order.
struct NumberArray {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

// Returns the arrays by name without ".npy". Entries may be stored or deflated; arrays are little-endian f4, f8, i4 or
// i8, of format 1, 2 or 3. Errors name `where` and the array. Damaged or encrypted archives, ZIP64 sizes, other types,
// Fortran order with more than one dimension and exceeded limits are errors. Never reads beyond `bytes`.
[[nodiscard]] core::Result<std::map<std::string, NumberArray>> read_npz(std::span<const std::uint8_t> bytes,
                                                                        std::string_view where,
                                                                        const NpzLimits& limits = {});

}  // namespace penstock::engine
