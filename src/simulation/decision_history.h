// What a run keeps of its decisions: records, and points of forecasts and evidence for charts.
#pragma once

#include <utility>
#include <vector>

#include "core/time.h"
#include "decision/decision_loop.h"
#include "decision/figures.h"
#include "decision/run_result.h"
#include "simulation/fleet.h"

namespace penstock::simulation {

class DecisionHistory {
 public:
  // Takes a tick, whose targets the pools have. Ticks are closer to each other than a chart has points.
  void add(core::Instant now, decision::Tick tick, core::Duration point_width, const std::vector<Pool>& pools) {
    for (decision::DecisionRecord& record : tick.records)
      (record.changes() ? decisions_ : holds_).push_back(std::move(record));
    if (forecasts_.empty() || now - forecasts_.back().at >= point_width)
      if (auto point = decision::forecast_point(now, tick.decision)) forecasts_.push_back(*std::move(point));
    if (!evidence_.empty() && now - evidence_.back().at < point_width) return;
    decision::EvidencePoint& point = evidence_.emplace_back();
    point.at = now;
    for (std::size_t pool = 0; pool < tick.decision.pools.size(); ++pool) {
      point.target_by_pool.push_back(pools[pool].target);
      point.by_pool.push_back(std::move(tick.decision.pools[pool].evidence));
    }
  }

  void move_to(decision::RunResult& result) {
    result.decisions = std::move(decisions_);
    result.holds = std::move(holds_);
    result.forecasts = std::move(forecasts_);
    result.evidence = std::move(evidence_);
  }

 private:
  std::vector<decision::DecisionRecord> decisions_, holds_;
  std::vector<decision::ForecastPoint> forecasts_;
  std::vector<decision::EvidencePoint> evidence_;
};

}  // namespace penstock::simulation
