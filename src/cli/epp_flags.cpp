#include "cli/epp_flags.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace penstock::cli {
namespace {

// Source: https://github.com/llm-d/llm-d-router/blob/main/pkg/epp/server/options.go, and the flags of zap in
// https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/log/zap/zap.go
enum class EppFlagKind : std::uint8_t {
  kPort,
  kSwitch,
  kFolder,
  kText,
  kEncoder,
  kPorts,
  kAlwaysOn,
  kIgnored,
  kIgnoredSwitch
};

struct EppFlag {
  std::string_view name;
  EppFlagKind kind = EppFlagKind::kIgnored;
  std::string_view flag{};  // Of the gateway.
  std::string_view help{}, fallback{};

  [[nodiscard]] bool is_switch() const {
    return kind == EppFlagKind::kSwitch || kind == EppFlagKind::kAlwaysOn || kind == EppFlagKind::kIgnoredSwitch;
  }
  [[nodiscard]] bool is_ignored() const { return kind == EppFlagKind::kIgnored || kind == EppFlagKind::kIgnoredSwitch; }
};

constexpr std::array kEppFlags{
    EppFlag{"--grpc-port", EppFlagKind::kPort, "--endpoint-picker-listen", "port where Envoy asks, on all addresses",
            "9002"},
    EppFlag{"--grpc-health-port", EppFlagKind::kPort, "--endpoint-picker-health-listen",
            "port of gRPC health checks, on all addresses", "9003"},
    EppFlag{"--metrics-port", EppFlagKind::kPort, "--admin-listen",
            "port of the metrics and of the planner's feed, on all addresses", "9090"},
    EppFlag{"--secure-serving", EppFlagKind::kSwitch, "--endpoint-picker-tls", "TLS at the port where Envoy asks",
            "true"},
    EppFlag{"--cert-path", EppFlagKind::kFolder, {}, "folder with tls.crt and tls.key; by default self-signed", {}},
    EppFlag{"--config-file", EppFlagKind::kText, {}, "an EndpointPickerConfig; --config FILE overrides it", {}},
    EppFlag{"--config-text", EppFlagKind::kText, {}, "the same as text", {}},
    EppFlag{"--zap-encoder", EppFlagKind::kEncoder, "--log-format", "json or console: lines on standard error", {}},
    EppFlag{"--endpoint-target-ports", EppFlagKind::kPorts, "--endpoint-target-ports"},
    EppFlag{"--v"},
    EppFlag{"-v"},
    EppFlag{"--zap-devel", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--zap-log-level"},
    EppFlag{"--zap-stacktrace-level"},
    EppFlag{"--zap-time-encoding"},
    EppFlag{"--ha-enable-leader-election", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--tracing", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--health-checking", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--enable-pprof", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--enable-cert-reload", EppFlagKind::kAlwaysOn},
    EppFlag{"--metrics-endpoint-auth", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--disable-endpoint-subset-filter", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--refresh-metrics-interval"},
    EppFlag{"--refresh-prometheus-metrics-interval"},
    EppFlag{"--metrics-staleness-threshold"},
    EppFlag{"--model-server-metrics-scheme"},
    EppFlag{"--model-server-metrics-path"},
    EppFlag{"--model-server-metrics-port"},
    EppFlag{"--model-server-metrics-https-insecure-skip-verify", EppFlagKind::kIgnoredSwitch},
    EppFlag{"--total-queued-requests-metric"},
    EppFlag{"--total-running-requests-metric"},
    EppFlag{"--kv-cache-usage-percentage-metric"},
    EppFlag{"--lora-info-metric"},
    EppFlag{"--cache-info-metric"},
};

void add_epp_flag(const EppFlag& flag, const std::string& value, EppCommandLine& made) {
  const auto add = [&](std::string_view name, std::string text) {
    made.gateway.emplace_back(name);
    made.gateway.push_back(std::move(text));
  };
  switch (flag.kind) {
    case EppFlagKind::kPort: return add(flag.flag, ":" + value);
    case EppFlagKind::kSwitch: return add(flag.flag, value);
    case EppFlagKind::kEncoder: return add(flag.flag, value == "console" ? "text" : value);
    case EppFlagKind::kFolder:
      add("--endpoint-picker-certificate", value + "/tls.crt");
      return add("--endpoint-picker-key", value + "/tls.key");
    case EppFlagKind::kText: (flag.name == "--config-file" ? made.config_file : made.config_text) = value; return;
    case EppFlagKind::kPorts: {  // Each use adds ports.
      const auto known = std::find(made.gateway.begin(), made.gateway.end(), flag.flag);
      if (known == made.gateway.end()) return add(flag.flag, value);
      *(known + 1) += "," + value;
      return;
    }
    case EppFlagKind::kAlwaysOn: return;
    case EppFlagKind::kIgnored:
    case EppFlagKind::kIgnoredSwitch: break;
  }
  made.warnings.push_back(std::string{flag.name} + " has no counterpart and is ignored");
}

}  // namespace

core::Result<EppCommandLine> read_epp_words(const Arguments& words) {
  EppCommandLine made;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto flag =
        std::find_if(kEppFlags.begin(), kEppFlags.end(), [&](const EppFlag& each) { return each.name == name; });
    if (flag == kEppFlags.end()) {
      made.gateway.push_back(word);
      continue;
    }
    std::string value = "true";
    if (equals != std::string::npos)
      value = word.substr(equals + 1);
    else if (!flag->is_switch() && i + 1 < words.size())
      value = words[++i];
    else if (!flag->is_switch())
      return core::invalid_input(name, "needs a value");
    add_epp_flag(*flag, value, made);
  }
  return made;
}

std::vector<options::Flag> epp_flags() {
  std::vector<options::Flag> flags;
  for (const EppFlag& flag : kEppFlags) {
    if (flag.is_ignored() || flag.help.empty()) continue;
    const bool has_value = !flag.is_switch();
    flags.push_back({"Flags of llm-d's endpoint picker",
                     std::string{flag.name},
                     has_value ? (flag.kind == EppFlagKind::kPort ? "PORT" : "TEXT") : "BOOLEAN",
                     std::string{flag.help},
                     std::string{flag.fallback},
                     {}});
  }
  return flags;
}

}  // namespace penstock::cli
