// A YAML file that configures a replay, up to its contradictions, and the flags that say the same.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/replay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::config;
  static constexpr std::array<std::string_view, 2> kPolicies = {"static", "hpa-rate"};
  const std::string text{reinterpret_cast<const char*>(data), size};

  ReplaySources sources;
  sources.file = "fuzz.yaml";
  sources.yaml = text;
  sources.policies.assign(kPolicies.begin(), kPolicies.end());
  sources.predictors = {"auto", "constant"};
  const auto from_file = load_replay(sources);
  if (!from_file)
    for (const auto& error : from_file.error())
      if (error.message().find('\n') != std::string::npos) std::abort();

  ReplaySources flags;
  flags.policies = sources.policies;
  for (const char* flag : {"--slo", "--pool", "--frontier", "--start-up", "--policy", "--kv-bandwidth", "--watermark",
                           "--target", "--load-interval", "--gpu-budget", "--predictor"})
    flags.flags.push_back({flag, text});
  static_cast<void>(load_replay(flags));
  return 0;
}
