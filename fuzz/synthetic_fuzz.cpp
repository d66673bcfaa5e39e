// The words of a synthetic workload, and the workload that they make.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workload/synthetic.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::workload;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (text.find("lengths") != std::string_view::npos) return 0;  // it would open any file of the machine
  auto spec = parse_synthetic(text);
  if (!spec) {
    if (spec.error().message().find('\n') != std::string::npos) std::abort();
    return 0;
  }
  // Small, whatever was asked for; the settings stay sound.
  const std::uint64_t most = 200;
  spec->requests_max = spec->requests_max == 0 ? most : std::min(spec->requests_max, most);
  spec->turns = std::min(spec->turns, 5.0);
  spec->tenants = std::min(spec->tenants, 100U);
  spec->prefix_groups = std::min(spec->prefix_groups, 100U);
  const auto workload = make_synthetic(*spec, 1);
  if (!workload) return 0;
  std::uint64_t blocks = 0;
  auto last = penstock::core::kStart;
  for (const auto& request : workload->requests) {
    if (request.arrival < last || request.arrival.time_since_epoch() >= spec->duration) std::abort();
    if (request.input_tokens == 0 || request.input_tokens > spec->input.max || request.output_tokens == 0) std::abort();
    if (request.tenant >= workload->tenants.size()) std::abort();
    last = request.arrival;
    blocks += request.block_count;
  }
  if (blocks != workload->block_ids.size() || workload->requests.size() > most) std::abort();
  return 0;
}
