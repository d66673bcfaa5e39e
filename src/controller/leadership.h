// Which of several planners of a fleet may act.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::controller {

class Leadership {
 public:
  virtual ~Leadership() = default;
  // Whether this planner leads. It reads a clock, and is called right before each action.
  [[nodiscard]] virtual bool may_act() const = 0;
  // Another number whenever another planner may have led in between; 0: this one has never led.
  [[nodiscard]] virtual std::uint64_t term() const = 0;
  // The planner that leads; empty: none, or unknown.
  [[nodiscard]] virtual std::string leader() const = 0;
  // Whether another planner is known to lead now.
  [[nodiscard]] virtual bool follows() const { return false; }
  // The targets that it has published lately, as format_targets() writes them; empty: none.
  [[nodiscard]] virtual std::string targets_of_leader() const { return {}; }
};

}  // namespace penstock::controller
