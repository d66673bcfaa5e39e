#include <gtest/gtest.h>

#include <chrono>

#include "report/metrics.h"

namespace penstock::report {
namespace {

bool is_exported(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

signals::PoolObservation pool_with_role(signals::Role role, core::Duration switch_time) {
  signals::PoolObservation pool;
  pool.name = to_string(role);
  pool.role = role;
  pool.switch_time = switch_time;
  return pool;
}

PlannerMetrics disaggregated(core::Duration switch_time) {
  PlannerMetrics metrics;
  metrics.observation.pools = {pool_with_role(signals::Role::kPrefill, switch_time),
                               pool_with_role(signals::Role::kDecode, switch_time)};
  metrics.decision.pools.resize(2);
  return metrics;
}

TEST(SourceWriters, DeferredRequestsAreThoseOfTheGateway) {
  PlannerMetrics metrics = disaggregated({});
  EXPECT_EQ(to_prometheus_text(metrics).find("\npenstock_gateway_deferr"), std::string::npos) << "a replay has none";
  metrics.deferral = {12, 41.5, 100, 70, 15, 3};
  std::string text = to_prometheus_text(metrics);
  for (const char* line :
       {"penstock_gateway_deferred_requests 12", "penstock_gateway_deferred_next_due_seconds 41.5",
        "# TYPE penstock_gateway_deferrals_total counter", "penstock_gateway_deferrals_total{event=\"deferred\"} 100",
        "penstock_gateway_deferrals_total{event=\"sent_spare\"} 70",
        "penstock_gateway_deferrals_total{event=\"sent_due\"} 15",
        "penstock_gateway_deferrals_total{event=\"missed\"} 3"})
    EXPECT_TRUE(is_exported(text, line)) << line << "\n" << text;
  metrics.deferral->waiting = 0;
  metrics.deferral->next_due_s.reset();
  text = to_prometheus_text(metrics);
  EXPECT_TRUE(is_exported(text, "penstock_gateway_deferred_requests 0"));
  EXPECT_EQ(text.find("\npenstock_gateway_deferred_next_due_seconds "), std::string::npos);

  metrics.data = DataSources{.state = signals::DataState::kNoGateway};
  text = to_prometheus_text(metrics);
  EXPECT_EQ(text.find("\npenstock_gateway_deferred_requests "), std::string::npos) << "the number is not known";
  EXPECT_TRUE(is_exported(text, "penstock_gateway_deferrals_total{event=\"missed\"} 3")) << "a counter goes on";
}

TEST(SourceWriters, RoleSwitchesHaveADirection) {
  PlannerMetrics metrics = disaggregated(std::chrono::seconds{5});
  metrics.observation.pools[1].switching = 2;
  metrics.role_switches = {{"decode", "prefill", 0}, {"prefill", "decode", 7}};
  const std::string text = to_prometheus_text(metrics);
  for (const char* line :
       {"penstock_role_switches_total{pool=\"decode\",from=\"prefill\"} 7",
        "penstock_role_switches_total{pool=\"prefill\",from=\"decode\"} 0",
        "penstock_replicas_switching{pool=\"decode\"} 2", "penstock_replicas_switching{pool=\"prefill\"} 0"})
    EXPECT_TRUE(is_exported(text, line)) << line << "\n" << text;
  EXPECT_EQ(to_prometheus_text(disaggregated({})).find("\npenstock_replicas_switching{"), std::string::npos)
      << "without a switch_time no replica changes its role";
}

}  // namespace
}  // namespace penstock::report
