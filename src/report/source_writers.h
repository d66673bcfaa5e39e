// Writers of what a live planner sees of its gateway, its engines and its pods.
#pragma once

#include <string>

#include "report/family_writer.h"
#include "signals/data_state.h"
#include "signals/role_switch.h"

namespace penstock::report {

constexpr FamilyWriter kHeld{"pool, cause, by", [](const MetricFigures& f, Samples& s) {
                               for (const PodScaling& pool : f.from.pods)
                                 s.add(pool.held_by_cause == "none" ? 0.0 : 1.0,
                                       {{"pool", pool.pool}, {"cause", pool.held_by_cause}, {"by", pool.held_by}});
                             }};
template <auto kCount>
constexpr FamilyWriter kPods{"pool", [](const MetricFigures& f, Samples& s) {
                               for (const PodScaling& pool : f.from.pods)
                                 s.add(static_cast<double>(pool.*kCount), {{"pool", pool.pool}});
                             }};
constexpr FamilyWriter kStartUp{"pool, statistic", [](const MetricFigures& f, Samples& s) {
                                  for (const PodScaling& pool : f.from.pods)
                                    for (const auto& [statistic, seconds] : pool.start_up_s)
                                      s.add(seconds, {{"pool", pool.pool}, {"statistic", statistic}});
                                }};

constexpr FamilyWriter kGatewayUp{"", [](const MetricFigures& f, Samples& s) {
                                    if (f.from.data) s.add(f.from.data->gateway_up ? 1.0 : 0.0);
                                  }};
constexpr FamilyWriter kLeader{"", [](const MetricFigures& f, Samples& s) {
                                 if (f.from.data && f.from.data->leads) s.add(*f.from.data->leads ? 1.0 : 0.0);
                               }};
constexpr FamilyWriter kEngineUp{
    "pool, worker_id", [](const MetricFigures& f, Samples& s) {
      if (!f.from.data) return;
      for (const PoolFigures& pool : f.pools)
        for (const signals::ReplicaObservation& replica : pool.seen.replicas)
          if (replica.state == signals::ReplicaState::kReady)
            s.add(signals::is_reporting(replica, f.from.observation.now, kSampleAgeMax) ? 1.0 : 0.0,
                  {{"pool", pool.seen.name}, {"worker_id", std::to_string(replica.replica)}});
    }};
constexpr FamilyWriter kLeftOut{"", [](const MetricFigures& f, Samples& s) {
                                  if (f.from.data) s.add(static_cast<double>(f.from.data->replicas_left_out));
                                }};
constexpr FamilyWriter kDataStates{"state", [](const MetricFigures& f, Samples& s) {
                                     if (!f.from.data) return;
                                     for (const signals::DataState state : signals::kDataStates)
                                       s.add(state == f.from.data->state ? 1.0 : 0.0, {{"state", to_string(state)}});
                                   }};

constexpr FamilyWriter kRoleSwitches{
    "pool, from", [](const MetricFigures& f, Samples& s) {
      for (const RoleSwitchCount& count : f.from.role_switches)
        s.add(static_cast<double>(count.switches), {{"pool", count.to}, {"from", count.from}});
    }};
constexpr FamilyWriter kSwitching{
    "pool", [](const MetricFigures& f, Samples& s) {
      for (std::size_t i = 0; i < f.from.observation.pools.size(); ++i)
        if (signals::switch_partner(f.from.observation.pools, i))
          s.add(f.from.observation.pools[i].switching, {{"pool", f.from.observation.pools[i].name}});
    }};

constexpr FamilyWriter kDeferredRequests{"", [](const MetricFigures& f, Samples& s) {
                                           if (f.from.deferral) s.add(static_cast<double>(f.from.deferral->waiting));
                                         }};
constexpr FamilyWriter kNextDue{"", [](const MetricFigures& f, Samples& s) {
                                  if (f.from.deferral) s.add(f.from.deferral->next_due_s);
                                }};
constexpr FamilyWriter kDeferrals{
    "event", [](const MetricFigures& f, Samples& s) {
      if (!f.from.deferral) return;
      const DeferralFigures& seen = *f.from.deferral;
      for (const auto& [event, count] : {std::pair{"deferred", seen.deferred}, std::pair{"sent_spare", seen.sent_spare},
                                         std::pair{"sent_due", seen.sent_due}, std::pair{"missed", seen.missed}})
        s.add(static_cast<double>(count), {{"event", event}});
    }};

}  // namespace penstock::report
