// The sleep mode of an engine, as vLLM's: its state, who waits for a change of it, and the requests that wait until the
// engine is awake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "api/kv_transfer.h"
#include "api/request.h"
#include "core/time.h"
#include "engine_server/live_answer.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::engine_server {

// An engine that falls asleep completes its open requests. One that is not awake lets new requests wait.
enum class SleepState : std::uint8_t { kAwake, kFallingAsleep, kAsleep, kWaking };

// A request that waits until the engine is awake.
struct HeldRequest {
  api::InferenceRequest request;
  api::KvTransfer transfer;
  core::Instant arrived;  // By the engine's clock.
  std::unique_ptr<LiveAnswer> answer;
};

// What sleep needs of the engine.
struct SleepHooks {
  std::function<std::size_t()> open_work;
  std::function<void()> abort_open;  // Ends all open requests.
  std::function<void()> discard_kv;
  std::function<core::Duration()> wake_time;  // By the wall clock.
  std::function<void(std::uint64_t key, HeldRequest)> resume;
};

// Belongs to the loop's thread.
class SleepMode {
 public:
  SleepMode(net::Loop& loop, SleepHooks hooks);
  ~SleepMode();
  SleepMode(const SleepMode&) = delete;
  SleepMode& operator=(const SleepMode&) = delete;

  // Returns true for /sleep, /wake_up and /is_sleeping.
  [[nodiscard]] static bool has_path(std::string_view path);
  // Answers a request for one of these paths: at once, or when the engine is asleep or awake.
  void answer(net::Exchange& exchange);

  [[nodiscard]] SleepState state() const { return state_; }
  [[nodiscard]] bool is_awake() const { return state_ == SleepState::kAwake; }
  [[nodiscard]] bool is_sleeping() const { return state_ >= SleepState::kAsleep; }  // As the engine reports it.
  [[nodiscard]] std::uint32_t level() const { return is_sleeping() ? level_ : 0; }

  void hold(std::uint64_t key, HeldRequest request) { held_.emplace(key, std::move(request)); }
  void forget(std::uint64_t key) { held_.erase(key); }  // The client has left.
  [[nodiscard]] std::size_t held() const { return held_.size(); }

  void settle();  // Something has ended: an engine that falls asleep may be idle now.
  void end_wake_up();

 private:
  class PendingAnswer;
  void sleep(net::Exchange& exchange, std::uint32_t level, bool waits);
  void wake_up(net::Exchange& exchange);
  void respond_pending();

  net::Loop& loop_;
  SleepHooks hooks_;
  SleepState state_ = SleepState::kAwake;
  std::uint32_t level_ = 1;
  std::map<std::uint64_t, HeldRequest> held_;            // In the order of arrival.
  std::vector<std::unique_ptr<PendingAnswer>> pending_;  // In the order of their requests.
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::engine_server
