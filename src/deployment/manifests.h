// The objects of Kubernetes that run a gateway or a planner.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deployment/access_rules.h"
#include "deployment/scaled_object.h"

namespace penstock::deployment {

// Folders of a container. Its root is read-only.
inline constexpr const char* kConfigurationFile = "/etc/penstock/penstock.yaml";
inline constexpr const char* kSecretsFolder = "/etc/penstock-secrets";  // Of the Secret NAME-secrets.
inline constexpr const char* kStateFolder = "/var/lib/penstock";        // The only one that can be written.
inline constexpr std::uint32_t kUser = 65532;
inline constexpr const char* kStateSuffix =
    "-state";  // Of the ConfigMap in which a leader finds what the one before has learned.
inline constexpr std::size_t kSuffixBytesMax = 8;  // Of names that are made from the name of a program.

// What gateway and planner have in common. Names, image and variables are valid, and all texts are UTF-8.
struct ProgramManifest {
  std::string name, in_namespace, image;
  std::string configuration;             // Text of the file.
  bool configuration_is_secret = false;  // It contains keys.
  bool mounts_secrets = false;           // It names files below kSecretsFolder.
  std::vector<std::string> variables;    // Environment variables, which come from the same Secret.
  std::vector<std::string> hosts;        // Further host names of its address for operators.
  std::vector<AccessRule> access;
  std::vector<std::string> arguments;  // After those that the manifest itself needs.
  bool pod_monitor = false;            // For the operator of Prometheus.
  std::string metrics_token_key;       // Key of the Secret with the token for /metrics; empty: none.
  std::string metrics_ca_key;          // Key of the Secret with the CA of /metrics; empty: one that Prometheus trusts.
};

struct GatewayManifest : ProgramManifest {
  std::uint16_t port = 8000, admin_port = 8081;
  bool admin_has_tls = false;
  std::uint16_t picker_port = 0;  // Of its endpoint picker; 0: none.
  bool picker_has_tls = false;
  std::uint32_t replicas = 1;
  bool shares_budgets = false;      // The pods report to each other what they took from budgets.
  std::uint64_t memory_mib = 1024;  // Limit of the container, which requests half of it.
  std::int64_t drain_time_s = 0;    // From SIGTERM until requests that are open are cut.
  // In kStateFolder, which outlives a single pod. Several pods have a ledger each, which ends with its pod, unless each
  // pod has a claim of its own.
  bool keeps_ledger = false, has_ledger_claims = false;
};
[[nodiscard]] std::vector<nlohmann::ordered_json> manifests_of(const GatewayManifest& gateway);

enum class Autoscaler : std::uint8_t { kNone, kKeda, kHpa };

struct PlannerManifest : ProgramManifest {
  std::uint16_t port = 8080;   // Of the live page and the metrics.
  std::uint32_t replicas = 1;  // One leads by a Lease and the others follow.
  std::string gateway;         // Admin addresses of the gateways: "penstock-gateway-admin.prod:8081".
  Autoscaler autoscaler = Autoscaler::kNone;
  std::vector<ScaleTarget> targets;  // Of the autoscaler.
  std::vector<KedaSettings> keda;    // By target; for kKeda.
  std::string ca_bundle;             // Text of the PEM file that verifies the external metrics; for kHpa.
};
[[nodiscard]] std::vector<nlohmann::ordered_json> manifests_of(const PlannerManifest& planner);

// Returns the rules of packaging/monitoring/penstock-rules.yaml as a PrometheusRule of the program, in YAML. Templates
// in their texts stay as they are. `runbooks` is the address of docs/ for the links of the alerts; empty: none.
[[nodiscard]] std::string prometheus_rule_of(const ProgramManifest& program, std::string_view runbooks);

}  // namespace penstock::deployment
