// A YAML file that configures replay, planner and gateway, up to its contradictions, and the flags that say the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "configuration/configuration.h"

namespace {

void load(const penstock::options::Source& source) {
  const auto made = penstock::configuration::load_configuration(source);
  if (made) return;
  if (made.error().empty()) std::abort();
  for (const auto& error : made.error())
    if (error.message().find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  load({"fuzz.yaml", text, {}});
  penstock::options::Source flags;
  for (const char* flag :
       {"--slo", "--pool", "--frontier", "--start-up", "--policy", "--kv-bandwidth", "--watermark", "--target",
        "--load-interval", "--gpu-budget", "--predictor", "--listen", "--threads", "--retries", "--anonymous"})
    flags.flags.push_back({flag, text});
  load(flags);
  return 0;
}
