#include "controller/scaling_reports.h"

namespace penstock::controller {

void ScalingReports::report(bool warning, const std::string& pool, const std::string& text) {
  events_.add(loop_.now(), warning, pool, text);
  events_.log().write(warning ? logging::Event::kActuationWarning : logging::Event::kActuation,
                      {{"pool", pool}, {"message", text}});
}

void ScalingReports::step(const ScaledPool& pool, const actuation::PodStep& step, const std::string& text) {
  events_.add(loop_.now(), false, pool.configured.name, text);
  events_.log().write(logging::Event::kReplicaStep,
                      {{"pool", pool.configured.name}, {"replica", step.pod}, {"step", to_string(step.kind)}});
}

void ScalingReports::hold(ScaledPool& pool, actuation::PodHold hold) {
  using actuation::HoldCause;
  // The time without data grows in its text, and so does the pause of a container that crashes.
  const bool is_same = pool.hold.cause == hold.cause && pool.hold.by == hold.by;
  const actuation::PodHold before = std::exchange(pool.hold, std::move(hold));
  const bool is_changing = pool.hold.cause == HoldCause::kNoData || pool.hold.cause == HoldCause::kBlocked;
  if (is_same && (is_changing || pool.hold.text == before.text)) return;
  // A drain is no reason to act, and a planner that starts knows nothing yet.
  const auto is_shown = [&](HoldCause cause) {
    const bool knows_pods = pool.scale && (pool.pods == nullptr || pool.pods->confirmed_at());
    return cause != HoldCause::kNone && cause != HoldCause::kDraining && (cause != HoldCause::kNoData || knows_pods);
  };
  const std::string& name = pool.configured.name;
  if (is_shown(pool.hold.cause)) {
    events_.add(loop_.now(), true, name, pool.hold.text);
    write_event(pool, true, "ScalingHeld", "Hold", pool.hold.text);
    events_.log().write(logging::Event::kPoolHeld, {{"pool", name},
                                                    {"cause", actuation::to_string(pool.hold.cause)},
                                                    {"by", pool.hold.by},
                                                    {"message", pool.hold.text}});
  } else if (is_shown(before.cause)) {
    events_.add(loop_.now(), false, name, "the planner scales again");
    write_event(pool, false, "ScalingResumed", "Resume", "the planner scales again");
    events_.log().write(logging::Event::kPoolReleased,
                        {{"pool", name}, {"cause", actuation::to_string(before.cause)}, {"by", before.by}});
  }
}

void ScalingReports::write_event(const ScaledPool& pool, bool warning, const char* reason, const char* action,
                                 const std::string& note) {
  const auto object = reference_of(pool, in_namespace_);
  if (writer_ == nullptr || !object || (may_write_ && !may_write_())) return;
  writer_->write({*object, warning, reason, action, note});
}

}  // namespace penstock::controller
