// The change of an engine between prefill and decode, as SGLang's `POST /pd_role_switch`.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/time.h"
#include "net/loop.h"
#include "net/server.h"
#include "signals/observation.h"

namespace penstock::engine_server {

inline constexpr std::string_view kRoleSwitchPath = "/pd_role_switch";

// What a change needs of the engine.
struct RoleHooks {
  std::function<bool()> is_idle;
  std::function<signals::Role()> role;
  std::function<void(signals::Role)> set_role;  // The KV cache is discarded.
  std::function<core::Duration()> switch_time;  // By the wall clock.
};

// Belongs to the loop's thread. An engine that is not idle refuses, as SGLang's does. While it changes, it is to get no
// request.
class RoleSwitch {
 public:
  RoleSwitch(net::Loop& loop, RoleHooks hooks);
  ~RoleSwitch();
  RoleSwitch(const RoleSwitch&) = delete;
  RoleSwitch& operator=(const RoleSwitch&) = delete;

  // Answers {"new_role":"prefill"} or {"new_role":"decode"}: with an error at once, or when the engine has its role.
  void answer(net::Exchange& exchange);
  [[nodiscard]] bool is_switching() const { return timer_ != 0; }

 private:
  class PendingAnswer;
  void finish(signals::Role role);

  net::Loop& loop_;
  RoleHooks hooks_;
  net::Loop::Timer timer_ = 0;
  std::unique_ptr<PendingAnswer> pending_;
};

}  // namespace penstock::engine_server
