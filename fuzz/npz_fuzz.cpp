// NumPy archives as Dynamo's profiler writes them: whatever the bytes, an answer, and no array beyond the limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "engine/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::engine;
  NpzLimits limits;
  limits.array_bytes_max = 1 << 20;
  limits.total_bytes_max = 1 << 21;
  const auto arrays = read_npz({data, size}, "fuzz.npz", limits);
  if (!arrays) {
    if (arrays.error().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const auto& [name, array] : *arrays) {
    std::size_t count = 1;
    for (const std::size_t length : array.shape) count *= length;
    if (count != array.values.size() || count > limits.array_bytes_max) std::abort();
  }
  return 0;
}
