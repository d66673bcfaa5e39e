// Stage changes of each replica from its observation and deadlines.
#include <fmt/format.h>

#include <algorithm>

#include "actuation/steps.h"

namespace penstock::actuation {

namespace {

double seconds_since(core::Instant then, core::Instant now) { return core::to_seconds(now - then); }

bool healthy_since(const Seen* seen, core::Instant since) {
  return seen != nullptr && seen->engine && seen->engine->healthy && seen->engine->at >= since;
}

std::string exit_text(const Seen& seen) {
  return seen.exit_message.empty() ? "" : fmt::format(": {}", seen.exit_message);
}

// Describes the possibly open work, for a note.
std::string open_text(const Seen* seen) {
  std::string text;
  if (seen != nullptr && seen->gateway) text += fmt::format("{} at the gateway", seen->gateway->open_requests);
  if (seen != nullptr && seen->engine && seen->engine->open)
    text += fmt::format("{}{} requests and {} KV transfers at the engine", text.empty() ? "" : ", ",
                        seen->engine->open->requests, seen->engine->open->transfers);
  return text.empty() ? "the number of open requests is unknown" : "open: " + text;
}

void process_is_gone(Tick& tick, Replica& replica, const Seen& seen) {
  const Stage before = replica.stage;
  tick.enter(replica, before == Stage::kStopping && !replica.given_up ? Stage::kStopped : Stage::kFailed);
  if (before == Stage::kStopping) return;
  if (before == Stage::kDraining) {
    tick.note(true, replica,
              fmt::format("{} died while it drained{}; {}", name_of(replica), exit_text(seen), open_text(&seen)));
    return;
  }
  const core::Instant next = count_crash(pool_state(tick.fleet, replica.pool), tick.limits, tick.now);
  tick.note(true, replica,
            fmt::format("{} died while {}{}; the pool starts its next replica in {:.0f} s at the earliest",
                        name_of(replica), to_string(before), exit_text(seen), core::to_seconds(next - tick.now)));
}

void give_up(Tick& tick, Replica& replica, const std::string& what) {
  const core::Instant next = count_crash(pool_state(tick.fleet, replica.pool), tick.limits, tick.now);
  tick.note(true, replica,
            fmt::format("{} {}; it is stopped, and the pool starts its next replica in {:.0f} s at the earliest",
                        name_of(replica), what, core::to_seconds(next - tick.now)));
  replica.given_up = true;
  tick.stop(replica, StepReason::kStartDeadline);
}

// The replica can serve: it does, or sleeps.
void become_ready(Tick& tick, Replica& replica, StepReason why) {
  return replica.to_sleep ? tick.sleep(replica, why) : tick.admit(replica, why);
}

void follow_start(Tick& tick, Replica& replica, const Seen* seen) {
  if (healthy_since(seen, replica.since)) {
    if (!tick.limits.warm_up) return become_ready(tick, replica, StepReason::kHealthy);
    tick.enter(replica, Stage::kWarming);
    return tick.step(StepKind::kWarmUp, replica, StepReason::kHealthy);
  }
  if (tick.now - replica.since >= tick.limits.start_deadline)
    give_up(tick, replica, fmt::format("was not healthy after {:.0f} s", seconds_since(replica.since, tick.now)));
}

void follow_warm_up(Tick& tick, Replica& replica, const Seen* seen) {
  if (seen != nullptr && seen->warm_up && seen->warm_up->answered >= seen->warm_up->prompts)
    return become_ready(tick, replica, StepReason::kWarm);
  const core::Duration age = tick.now - replica.since;
  if (age < tick.limits.warm_up_deadline) return;
  if (healthy_since(seen, replica.since)) {
    tick.note(false, replica,
              fmt::format("{} serves although only {} of {} warm-up prompts were answered in {:.0f} s",
                          name_of(replica), seen->warm_up ? seen->warm_up->answered : 0,
                          seen->warm_up ? seen->warm_up->prompts : 0, core::to_seconds(age)));
    return become_ready(tick, replica, StepReason::kWarmUpLate);
  }
  // A missing report is no reason to give up before the start deadline.
  const bool reported_unhealthy = seen != nullptr && seen->engine && !seen->engine->healthy;
  if (reported_unhealthy || age >= tick.limits.start_deadline)
    give_up(tick, replica, "was not healthy after its warm-up");
}

void follow_waking(Tick& tick, Replica& replica, const Seen* seen) {
  if (healthy_since(seen, replica.since) && !seen->engine->asleep)
    return become_ready(tick, replica, StepReason::kAwake);
  if (tick.now - replica.since >= tick.limits.start_deadline)
    give_up(tick, replica, fmt::format("was not awake after {:.0f} s", seconds_since(replica.since, tick.now)));
}

void follow_switch(Tick& tick, Replica& replica, const Seen* seen) {
  if (healthy_since(seen, replica.since) && !seen->engine->switching) return tick.admit(replica, StepReason::kSwitched);
  if (tick.now - replica.since >= tick.limits.start_deadline)
    give_up(tick, replica, fmt::format("had no new role after {:.0f} s", seconds_since(replica.since, tick.now)));
}

void follow_health(Replica& replica, const Seen* seen) {
  if (seen == nullptr || !seen->engine || seen->engine->at < replica.since) return;
  if (seen->engine->healthy)
    replica.unhealthy_since.reset();
  else if (!replica.unhealthy_since)
    replica.unhealthy_since = seen->engine->at;
}

bool is_idle(const Seen* seen) {
  return seen != nullptr && seen->engine && seen->engine->open && seen->engine->open->requests == 0 &&
         seen->engine->open->transfers == 0;
}

// Requests may be in transit from the gateway to the engine. Therefore the gateway must report that it sends nothing
// and has nothing open, and the engine must have been queried after that.
bool is_drained(const Tick& tick, Replica& replica, const Seen* seen) {
  if (tick.limits.gateway) {
    if (seen == nullptr || !seen->gateway || seen->gateway->at <= replica.since) return false;
    if (seen->gateway->routes || seen->gateway->open_requests > 0) {
      replica.quiet_since.reset();
      return false;
    }
    if (!replica.quiet_since) replica.quiet_since = seen->gateway->at;
    return is_idle(seen) && seen->engine->at > *replica.quiet_since;
  }
  if (seen == nullptr || !seen->engine || seen->engine->at <= replica.since) return false;
  if (!is_idle(seen)) {
    replica.quiet_since.reset();
    return false;
  }
  if (!replica.quiet_since) replica.quiet_since = seen->engine->at;
  return seen->engine->at - *replica.quiet_since >= tick.limits.drain_quiet;
}

// Fewer replicas are asleep than wanted. Those that start up in order to sleep do not count: they are given up for one
// that is ready.
bool is_wanted_asleep(const Tick& tick, const Replica& replica) {
  const PoolWant* const want = tick.want_of(replica.pool);
  if (want == nullptr || replica.revision != want->revision || replica.unhealthy_since) return false;
  const auto asleep = std::count_if(tick.fleet.replicas.begin(), tick.fleet.replicas.end(), [&](const Replica& each) {
    return each.pool == replica.pool && each.stage == Stage::kAsleep;
  });
  return static_cast<std::uint64_t>(asleep) < want->asleep;
}

// The engine answers neither the planner nor requests. Without a gateway's report since it went silent, requests may
// still be answered.
bool is_dead(const Tick& tick, const Replica& replica, const Seen* seen) {
  if (!replica.unhealthy_since || tick.now - *replica.unhealthy_since < tick.unhealthy_drain_deadline(replica))
    return false;
  if (!tick.limits.gateway) return true;
  if (seen == nullptr || !seen->gateway || seen->gateway->at <= *replica.unhealthy_since) return false;
  return seen->gateway->open_requests == 0 || !seen->gateway->healthy;
}

void follow_drain(Tick& tick, Replica& replica, const Seen* seen) {
  follow_health(replica, seen);
  if (is_drained(tick, replica, seen)) {
    learn_drain_time(pool_state(tick.fleet, replica.pool).drain_time, tick.now - replica.since);
    if (const PoolWant* const to = replica.switch_to.empty() ? nullptr : tick.want_of(replica.switch_to))
      return tick.switch_role(replica, *to);
    return is_wanted_asleep(tick, replica) ? tick.sleep(replica, StepReason::kDrained)
                                           : tick.stop(replica, StepReason::kDrained);
  }
  if (is_dead(tick, replica, seen)) {
    tick.note(true, replica,
              fmt::format("{} is stopped although it did not drain: its engine has not answered for {:.0f} s; {}",
                          name_of(replica), seconds_since(*replica.unhealthy_since, tick.now), open_text(seen)));
    return tick.stop(replica, StepReason::kUnhealthy);
  }
  if (tick.now - replica.since < tick.drain_deadline(replica)) return;
  tick.note(true, replica,
            fmt::format("{} is stopped although it did not drain in {:.0f} s; {}", name_of(replica),
                        seconds_since(replica.since, tick.now), open_text(seen)));
  tick.stop(replica, StepReason::kDrainDeadline);
}

void follow_stop(Tick& tick, Replica& replica) {
  if (tick.now - replica.since < tick.limits.stop_deadline) return;
  if (!replica.killed)
    tick.note(true, replica,
              fmt::format("{} did not end {:.0f} s after SIGTERM, and is killed", name_of(replica),
                          seconds_since(replica.since, tick.now)));
  replica.killed = true;
  replica.since = tick.now;  // SIGKILL is repeated after the same time if the process does not end.
  tick.step(StepKind::kKill, replica, StepReason::kStopDeadline);
}

}  // namespace

void follow_replicas(Tick& tick) {
  for (Replica& replica : tick.fleet.replicas) {
    const Seen* const seen = tick.seen_of(replica.id);
    if (replica.stage == Stage::kRequested || has_ended(replica.stage)) continue;
    if (seen != nullptr && seen->process == ProcessSeen::kGone) {
      process_is_gone(tick, replica, *seen);
      continue;
    }
    switch (replica.stage) {
      case Stage::kStarting: follow_start(tick, replica, seen); break;
      case Stage::kWarming: follow_warm_up(tick, replica, seen); break;
      case Stage::kWaking: follow_waking(tick, replica, seen); break;
      case Stage::kSwitching: follow_switch(tick, replica, seen); break;
      case Stage::kServing:
      case Stage::kAsleep: follow_health(replica, seen); break;
      case Stage::kDraining: follow_drain(tick, replica, seen); break;
      case Stage::kStopping: follow_stop(tick, replica); break;
      case Stage::kRequested:
      case Stage::kStopped:
      case Stage::kFailed: break;
    }
  }
}

}  // namespace penstock::actuation
