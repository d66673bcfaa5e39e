// A YAML file that configures a replay or a gateway, up to its contradictions, and the flags that say the same.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/gateway.h"
#include "config/replay.h"

namespace {

void expect_one_line_each(const penstock::config::Problems& problems) {
  for (const auto& error : problems)
    if (error.message().find('\n') != std::string::npos) std::abort();
}

}  // namespace

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
  if (!from_file) expect_one_line_each(from_file.error());

  GatewaySources of_gateway;
  of_gateway.file = sources.file;
  of_gateway.yaml = text;
  if (const auto gateway = load_gateway(of_gateway); !gateway) expect_one_line_each(gateway.error());

  ReplaySources flags;
  flags.policies = sources.policies;
  for (const char* flag : {"--slo", "--pool", "--frontier", "--start-up", "--policy", "--kv-bandwidth", "--watermark",
                           "--target", "--load-interval", "--gpu-budget", "--predictor"})
    flags.flags.push_back({flag, text});
  static_cast<void>(load_replay(flags));
  GatewaySources gateway_flags;
  for (const char* flag : {"--listen", "--threads", "--retries", "--anonymous"})
    gateway_flags.flags.push_back({flag, text});
  static_cast<void>(load_gateway(gateway_flags));
  return 0;
}
