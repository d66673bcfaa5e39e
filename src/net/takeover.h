// How a process takes the addresses of another one over, so that at every moment one of them listens.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "net/loop.h"

namespace penstock::net {

// Both processes belong to one user of one machine; the name stands for their addresses. The next process asks whether
// it may listen beside the first one, listens, and reports that once it accepts connections. The first one then stops
// listening.

// The side of the process that listens. Lives on one loop.
class TakeoverOffer {
 public:
  enum class Condition : char { kIfDraining = 'd', kAlways = 't' };
  // Returns whether another process may listen beside this one.
  using Allows = std::function<bool(Condition condition)>;

  // `on_successor` is called once, when the next process accepts connections. Without the name, because another process
  // has it, there is no offer.
  TakeoverOffer(Loop& loop, std::string name, Allows allows, std::function<void()> on_successor);
  ~TakeoverOffer();
  TakeoverOffer(const TakeoverOffer&) = delete;
  TakeoverOffer& operator=(const TakeoverOffer&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The side of the next process.
class Takeover {
 public:
  // Returns nothing if no process offers the name, or if the one that does refuses. Blocks for at most two seconds.
  [[nodiscard]] static std::optional<Takeover> request(const std::string& name, TakeoverOffer::Condition condition);
  ~Takeover();
  Takeover(Takeover&& other) noexcept;
  Takeover& operator=(Takeover&& other) noexcept;

  void report_listening();  // This process accepts connections now.

 private:
  explicit Takeover(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace penstock::net
