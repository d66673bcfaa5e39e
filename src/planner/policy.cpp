#include "planner/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "planner/policies/policies.h"

namespace penstock::planner {

namespace {

struct Entry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Policy> (*make)(const PolicyContext&);
  CapacityNeeds needs = {};
  std::span<const PolicySetting> settings = {};
};

constexpr std::array kUtilisation{
    PolicySetting{"utilisation", 0.05, 3.0, "share of the load-tested capacity that a replica should carry"}};
constexpr std::array kPressure{
    PolicySetting{"up", 0.05, 2.0, "share of the latency target above which it grows, 0.55 by default"},
    PolicySetting{"down", 0.0, 2.0, "share of the latency target below which it shrinks, 0.40 by default",
                  SettingUnit::kShare, "up"}};
constexpr PolicySetting kRunningTarget{"running", 0.1, 10'000.0, "running requests of a replica, 16 by default",
                                       SettingUnit::kCount};
constexpr std::array kQueueTargets{
    PolicySetting{"queue", 0.1, 10'000.0, "waiting requests of a replica, 1 by default", SettingUnit::kCount},
    kRunningTarget};
constexpr std::array kSaturationTargets{
    PolicySetting{"saturation", 0.05, 1.0, "saturation of the pool for each replica, 0.7 by default"}, kRunningTarget};
constexpr std::array kTokenTargets{
    PolicySetting{"backlog", 0.05, 600.0, "seconds of prompts in flight of a replica, 1.5 by default",
                  SettingUnit::kSeconds},
    PolicySetting{"kv", 0.05, 1.0, "share of the KV cache of a replica, 0.8 by default"}};
constexpr std::array kKvUseSetting{PolicySetting{"kv", 0.01, 1.0, "mean KV use that it aims for, 0.5 by default"}};
constexpr std::array kTokens{
    PolicySetting{"up", 0.05, 2.0, "share of its learned capacity above which it grows, 0.85 by default"},
    PolicySetting{"down", 0.05, 2.0, "share of its learned capacity below which it shrinks, 0.70 by default",
                  SettingUnit::kShare, "up"}};
constexpr std::array kSlo{
    PolicySetting{"slo", 0.05, 2.0, "share of the latency targets that it aims for, 1 by default"}};
constexpr std::array kVelocity{
    PolicySetting{"headroom", 0.0, 5.0, "share by which the needed token rate is raised, 0 by default"},
    PolicySetting{"hold", 0.0, 3600.0, "seconds for which it keeps what was needed, 300 by default",
                  SettingUnit::kSeconds}};
constexpr std::array kFloor{
    PolicySetting{"headroom", -0.9, 5.0, "share by which the forecast load is raised, 0.1 by default"},
    PolicySetting{"up", 0.05, 3.0, "utilisation above which it grows, 0.7 by default"},
    PolicySetting{"down", 0.0, 3.0, "utilisation below which it shrinks, 0.3 by default", SettingUnit::kShare, "up"}};
constexpr std::array kGoal{
    PolicySetting{"goal", 0.5, 0.9999, "share of the requests within the SLO that it plans for, slo.goal by default"}};

constexpr CapacityNeeds kNothing{}, kRequestRate{.requests_per_s = true}, kConcurrency{.concurrency = true},
    kTokenRates{.input_tokens_per_s = true, .output_tokens_per_s = true};

constexpr std::array kPolicies{
    Entry{"static", "keeps the fleet as it is", make_static_fleet},
    Entry{"hpa-rate", "Kubernetes HPA on requests per second and replica, target 80 % of the load-tested rate",
          make_hpa_rate, kRequestRate, kUtilisation},
    Entry{"hpa-concurrency",
          "Kubernetes HPA on running and queued requests of a replica, target 80 % of the load-tested",
          make_hpa_concurrency, kConcurrency, kUtilisation},
    Entry{"keda-tokens", "KEDA on prompt and output tokens per second and on KV use: ceil(rate / (capacity x 0.75))",
          make_keda_tokens, kTokenRates, kUtilisation},
    Entry{"kpa", "Knative autoscaler on concurrency: windows of 60 s and 6 s, panic at 200 %, target 70 %", make_kpa,
          kConcurrency, kUtilisation},
    Entry{"apa", "AIBrix APA on KV use 0.5: +-10 % tolerance, at most x2 or /2 a step, 300 s before a step down",
          make_apa, kNothing, kKvUseSetting},
    Entry{"llmd-saturation-v1", "llm-d variant autoscaler on spare KV and queue slots, one replica a step",
          make_llmd_saturation_v1},
    Entry{"llmd-saturation-v2", "llm-d variant autoscaler on tokens in use and queued against learned capacity",
          make_llmd_saturation_v2, kNothing, kTokens},
    Entry{"llmd-slo", "llm-d SLO-aware KEDA: p90 latency over its target, up above 0.55, down below 0.40",
          make_llmd_slo, kNothing, kPressure},
    Entry{"llmd-queue",
          "llm-d KEDA on its endpoint picker: 1 waiting or 16 running requests a replica, windows of 300 s",
          make_llmd_queue, kNothing, kQueueTargets},
    Entry{"llmd-queue-guard", "the same, up at once, less the replicas that are starting", make_llmd_queue_guard,
          kNothing, kQueueTargets},
    Entry{"llmd-pool-saturation",
          "llm-d KEDA on its endpoint picker: saturation of the pool 0.7, or 16 running requests",
          make_llmd_pool_saturation, kNothing, kSaturationTargets},
    Entry{"llmd-token-aware", "llm-d KEDA on 1.5 s of prompts in flight and on KV use 0.8, one replica in 180 s",
          make_llmd_token_aware, kNothing, kTokenTargets},
    Entry{"dynamo-throughput", "NVIDIA Dynamo planner, target throughput: full queue or KV up, idle down, one a step",
          make_dynamo_throughput},
    Entry{"dynamo-latency", "NVIDIA Dynamo planner, target latency: 10 % queue or 40 % KV up, empty down, one a step",
          make_dynamo_latency},
    Entry{"dynamo-load", "NVIDIA Dynamo planner, target load: 8,192 queued tokens or 80 % KV up, 512 or 40 % down",
          make_dynamo_load},
    Entry{"dynamo-sla", "NVIDIA Dynamo planner, target sla: estimated TTFT and ITL of engines, floor from a forecast",
          make_dynamo_sla, kNothing, kSlo},
    Entry{"dynamo-sla-load", "the same without the forecast: estimated TTFT and ITL, one replica a step",
          make_dynamo_sla_load, kNothing, kSlo},
    Entry{"dynamo-sla-throughput", "the forecast alone: rate / what an engine serves within the SLO, every 3 min",
          make_dynamo_sla_throughput, kNothing, kSlo},
    Entry{"token-velocity", "TokenScale's rule: ceil(rate of arriving tokens / token velocity), by stage, over 15 s",
          make_token_velocity, kTokenRates, kVelocity},
    Entry{"hourly-floor", "after SageServe: a floor from an hourly forecast, +-1 by utilisation between",
          make_hourly_floor, kTokenRates, kFloor},
};

[[nodiscard]] const Entry* find(std::string_view name) {
  const auto* found = std::find_if(kPolicies.begin(), kPolicies.end(),
                                   [&](const Entry& e) { return e.name == decision::name_without_settings(name); });
  return found == kPolicies.end() ? nullptr : found;
}

[[nodiscard]] core::Result<void> positive(const char* where, double value, const char* hint = "") {
  if (std::isfinite(value) && value > 0.0) return {};
  return core::invalid_input(where, fmt::format("must be positive, is {}", value), hint);
}

// The rules divide by these values.
[[nodiscard]] core::Result<void> check(const PolicyContext& context) {
  return positive("slo.ttft", core::to_seconds(context.slo.ttft))
      .and_then([&] { return positive("slo.itl", core::to_seconds(context.slo.itl)); })
      .and_then([&] { return positive("context_length", static_cast<double>(context.context_length)); })
      .and_then([&] { return positive("idle_prompt_tokens_per_s", context.idle_prompt_tokens_per_s); });
}

[[nodiscard]] core::Result<void> check(const ReplicaCapacity& capacity, const CapacityNeeds& needs) {
  const auto divisor = [](bool is_needed, const char* where, double value) -> core::Result<void> {
    if (!is_needed) return {};
    return positive(where, value, "load-test one replica at an slo that it can keep");
  };
  return divisor(needs.requests_per_s, "capacity.requests_per_s", capacity.requests_per_s)
      .and_then(
          [&] { return divisor(needs.input_tokens_per_s, "capacity.input_tokens_per_s", capacity.input_tokens_per_s); })
      .and_then([&] {
        return divisor(needs.output_tokens_per_s, "capacity.output_tokens_per_s", capacity.output_tokens_per_s);
      })
      .and_then([&] { return divisor(needs.concurrency, "capacity.concurrency", capacity.concurrency); });
}

}  // namespace

core::Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyContext& context) {
  const Entry* entry = find(name);
  if (entry == nullptr)
    return core::invalid_input("policy", fmt::format("there is none named '{}'", name),
                               fmt::format("use one of: {}", fmt::join(policy_names(), ", ")));
  auto settings = parse_settings(name, entry->settings);
  if (!settings) return tl::make_unexpected(settings.error());
  core::Result<void> checked = check(context);
  if (checked) checked = check(context.capacity, entry->needs);
  if (!checked) return tl::make_unexpected(checked.error());
  PolicyContext set = context;
  set.settings = *std::move(settings);
  return entry->make(set);
}

core::Result<PolicySettings> settings_of(std::string_view policy) {
  const std::string_view name = decision::name_without_settings(policy);
  if (name == "penstock" || name == "clairvoyant") return parse_settings(policy, kGoal);
  const Entry* entry = find(policy);
  return parse_settings(policy, entry == nullptr ? std::span<const PolicySetting>{} : entry->settings);
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

CapacityNeeds capacity_needs(std::string_view policy) {
  const Entry* entry = find(policy);
  return entry == nullptr ? CapacityNeeds{} : entry->needs;
}

std::string_view policy_summary(std::string_view name) {
  const Entry* entry = find(name);
  return entry == nullptr ? std::string_view{} : entry->summary;
}

}  // namespace penstock::planner
