// The saved state of a policy with any damage: it is refused with one line, or restored, and then the policy decides
// and saves a state that can be restored.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "connect/policy_state_file.h"
#include "decision/decision_loop.h"
#include "planner/penstock/penstock_planner.h"
#include "planner/policy.h"

namespace {

using namespace penstock;

constexpr std::size_t kPoolsMax = 4;

// Every fleet serves every request.
class Trials final : public planner::FleetTrials {
 public:
  void load(const planner::TrialTraffic& traffic) override { requests_ = static_cast<double>(traffic.requests.size()); }
  planner::TrialOutcome attempt(std::span<const std::uint32_t>) override {
    const planner::TrialCounts counts{requests_, requests_};
    return {counts, counts, counts, {}};
  }
  void correct(std::span<const planner::EngineCorrection>) override {}

 private:
  double requests_ = 0.0;
};

std::unique_ptr<decision::Policy> policy_named(const std::string& name) {
  if (name == "penstock") return planner::make_penstock_planner(std::make_shared<Trials>(), {});
  auto made = planner::make_policy(name, {});
  return made ? *std::move(made) : nullptr;
}

signals::Observation observation(const std::vector<std::string>& pools, core::Instant now) {
  signals::Observation made;
  made.now = now;
  for (const std::string& name : pools) {
    signals::PoolObservation pool;
    pool.name = name;
    pool.max_replicas = 8;
    pool.ready = pool.target_replicas = 2;
    pool.replicas.resize(2);
    made.pools.push_back(std::move(pool));
  }
  return made;
}

void check_message(const core::Error& error) {
  if (error.message().find('\n') != std::string::npos) std::abort();
}

void run_loop(const decision::PolicyState& state, bool must_restore) {
  const auto policy = policy_named(state.policy);
  if (!policy) return;
  decision::DecisionLoop loop{*policy};
  const core::Instant now = core::kStart + std::chrono::seconds{5};
  const auto restored = loop.restore(state, state.pools, now, std::chrono::seconds{60});
  if (!restored) {
    if (must_restore) std::abort();
    check_message(restored.error());
  }
  for (int i = 0; i < 3; ++i) {
    const auto seen = observation(state.pools, now + i * policy->interval());
    const auto tick = loop.tick(seen, [](std::size_t, std::uint32_t target) { return target <= 8; });
    if (tick.decision.pools.size() != state.pools.size()) std::abort();
  }
  if (!must_restore) run_loop(*loop.save(), true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto saved = connect::read_policy_state({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!saved) {
    check_message(saved.error());
    return 0;
  }
  const std::string text = connect::policy_state_text(*saved);
  const auto again = connect::read_policy_state(text, "again.json");
  if (!again || connect::policy_state_text(*again) != text) std::abort();
  if (!saved->state.pools.empty() && saved->state.pools.size() <= kPoolsMax) run_loop(saved->state, false);
  return 0;
}
