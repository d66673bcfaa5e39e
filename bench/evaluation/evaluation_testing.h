// For tests: runs and an evaluation with figures that are easy to compute by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "evaluation/evaluation.h"

namespace penstock::evaluation::testing {

inline Run run(std::string policy, double attainment, double gpu_hours, std::optional<double> setting = {}) {
  Run made;
  made.policy = std::move(policy);
  made.attainment = attainment;
  made.gpu_hours = gpu_hours;
  made.setting = setting;
  made.requests = 1000;
  made.replicas = made.peak_replicas = 2;
  return made;
}

inline Run standard(Run made) {
  made.standard = true;
  return made;
}

inline PolicyRuns peer(std::string policy, std::string parameter, std::vector<Run> runs) {
  return {std::move(policy), std::move(parameter), std::move(runs)};
}

// Penstock: 5 GPU-hours for 95 %, 6 for 99 %. The best peer needs 8, the fixed fleet 9, the oracle 5.
inline Evaluation sample() {
  Evaluation evaluation;
  evaluation.command = "make evaluate QUICK=1";
  TraceEvaluation trace;
  trace.name = "sample";
  trace.title = "Sample <day>";
  trace.info.requests = 1000;
  trace.info.duration = std::chrono::hours{1};
  trace.info.start_up = std::chrono::seconds{120};
  trace.info.pools.resize(1);
  trace.info.pools.front().max_replicas = 8;
  trace.penstock =
      peer("penstock", "goal",
           {run("penstock:goal=0.95", 0.95, 5.0, 0.95), standard(run("penstock:goal=0.99", 0.99, 6.0, 0.99))});
  trace.peers = {peer("keda-tokens", "utilisation",
                      {run("keda-tokens:utilisation=0.5", 0.9999, 12.0, 0.5),
                       standard(run("keda-tokens:utilisation=0.75", 0.99, 8.0, 0.75)),
                       run("keda-tokens:utilisation=1", 0.97, 6.5, 1.0)}),
                 peer("dynamo-load", "", {standard(run("dynamo-load", 0.5, 2.0))})};
  trace.fixed = peer("static", "replicas", {run("static 2", 0.9, 4.5, 2.0), run("static 4", 0.995, 9.0, 4.0)});
  trace.oracle = {run("clairvoyant:goal=0.99", 0.99, 5.0, 0.99)};
  trace.first_half = run("static 4", 0.995, 9.0, 4.0);
  evaluation.traces.push_back(trace);
  return evaluation;
}

}  // namespace penstock::evaluation::testing
