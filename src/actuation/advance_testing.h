// For tests: a fleet of one pool whose replicas behave well unless a test changes that.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "actuation/advance.h"

namespace penstock::actuation {

using Steps = std::vector<Step>;

[[nodiscard]] constexpr core::Instant at(core::Duration time) { return core::kStart + time; }

class AdvanceTest : public testing::Test {
 protected:
  Steps tick(core::Duration time) {
    now_ = at(time);
    for (Seen& one : seen_) {
      if (one.engine) one.engine->at = now_;
      if (one.gateway) one.gateway->at = now_;
    }
    Advance result = advance(fleet_, std::vector{want_}, seen_, limits_, now_);
    notes_ = result.notes;
    return result.steps;
  }

  void start(std::uint32_t id) { started(fleet_, id, {1000 + id, 7}, now_); }

  Seen& seen(std::uint32_t id) {
    const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.replica == id; });
    if (found != seen_.end()) return *found;
    seen_.push_back({id, ProcessSeen::kAlive, EngineSeen{now_, true, OpenWork{}}, GatewaySeen{now_, true, 0}});
    return seen_.back();
  }

  // Replicas 1 … count have served since `time`.
  void serve(std::uint32_t count, core::Duration time = {}) {
    want_.replicas = count;
    limits_.warm_up = false;
    tick(time);
    for (std::uint32_t id = fleet_.next_id - count; id < fleet_.next_id; ++id) {
      start(id);
      seen(id);
    }
    tick(time);
    tick(time + std::chrono::seconds{1});  // The gateway routes to them now.
  }

  Stage stage(std::uint32_t id) { return fleet_.find(id)->stage; }
  bool told(bool warning, std::string_view text) {
    return std::any_of(notes_.begin(), notes_.end(), [&](const Note& note) {
      return note.warning == warning && note.text.find(text) != std::string::npos;
    });
  }

  FleetState fleet_;
  PoolWant want_{"default", 0, "r1"};
  Limits limits_;
  std::vector<Seen> seen_;
  std::vector<Note> notes_;
  core::Instant now_ = core::kStart;
};

}  // namespace penstock::actuation
