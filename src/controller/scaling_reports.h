// What happens to a target of Kubernetes, for the live page, for the log and as Events on the target.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "actuation/pod_scaling.h"
#include "connect/kubernetes/event_writer.h"
#include "controller/fleet_events.h"
#include "controller/scaled_pool.h"
#include "net/loop.h"

namespace penstock::controller {

class ScalingReports {
 public:
  // No Events are written while `may_write` returns false; empty: they always are.
  ScalingReports(net::Loop& loop, FleetEvents& events, std::string in_namespace, std::function<bool()> may_write)
      : loop_(loop), events_(events), in_namespace_(std::move(in_namespace)), may_write_(std::move(may_write)) {}

  void write_events(connect::EventWriter& writer) { writer_ = &writer; }  // It outlives this.

  void report(bool warning, const std::string& pool, const std::string& text);
  void step(const ScaledPool& pool, const actuation::PodStep& step, const std::string& text);
  // The pool keeps the hold, which is reported if it is another one than before.
  void hold(ScaledPool& pool, actuation::PodHold hold);
  void write_event(const ScaledPool& pool, bool warning, const char* reason, const char* action,
                   const std::string& note);

 private:
  net::Loop& loop_;
  FleetEvents& events_;
  const std::string in_namespace_;
  const std::function<bool()> may_write_;
  connect::EventWriter* writer_ = nullptr;
};

}  // namespace penstock::controller
