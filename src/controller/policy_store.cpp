#include "controller/policy_store.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "net/unix_time.h"

namespace penstock::controller {
namespace {

// By how much the clocks of two machines may differ.
constexpr std::chrono::milliseconds kClockDifferenceMax = std::chrono::minutes{5};

}  // namespace

void PolicyStateFile::load(Loaded loaded) {
  auto saved = connect::load_policy_state(path_);
  if (saved) return loaded(StoredState{*std::move(saved), {}});
  // A file system that fails says nothing about the text.
  if (saved.error().code != core::ErrorCode::kInvalidInput) return loaded(tl::make_unexpected(saved.error()));
  const std::string kept = path_ + ".unusable";
  std::error_code failed;
  std::filesystem::rename(path_, kept, failed);
  if (failed) return loaded(core::environment_error(kept, fmt::format("cannot be written: {}", failed.message())));
  loaded(StoredState{{}, fmt::format("{}; it is kept as {}", saved.error().message(), kept)});
}

PolicyStateConfigMap::PolicyStateConfigMap(std::unique_ptr<connect::KubernetesClient> api,
                                           const connect::ObjectName& name)
    : where_(fmt::format("ConfigMap {}/{}", name.in_namespace, name.name)),
      api_(std::move(api)),
      text_(*api_, name, "policy.json") {}

void PolicyStateConfigMap::load(Loaded loaded) {
  text_.load([this, loaded = std::move(loaded)](const core::Result<std::optional<std::string>>& text) {
    if (!text) return loaded(tl::make_unexpected(text.error()));
    if (!*text) return loaded(StoredState{});
    auto state = connect::read_policy_state(**text, where_);
    if (state) return loaded(StoredState{*std::move(state), {}});
    loaded(StoredState{{},
                       fmt::format("{}; what the policy learned and the GPU cost so far are lost with the next write",
                                   state.error().message())});
  });
}

void PolicyStateConfigMap::save(const connect::SavedPolicyState& state, Saved saved) {
  text_.save(connect::policy_state_text(state), std::move(saved));
}

std::int64_t PolicyKeeper::unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(net::unix_time()).count();
}

void PolicyKeeper::log_restored(const core::Result<void>& restored) {
  log_.write(
      logging::Event::kPolicyState,
      {{"message", restored ? std::string{"restored"} : fmt::format("ignored: {}", restored.error().message())}});
}

void PolicyKeeper::restore(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now,
                           std::function<void()> done) {
  has_read_ = has_failed_ = false;
  read(loop, costs, std::move(now), std::move(done));
}

void PolicyKeeper::restore_again(decision::DecisionLoop& loop, GpuCostMeter& costs,
                                 std::function<core::Instant()> now) {
  if (!has_read() && !is_reading_) read(loop, costs, std::move(now), [] {});
}

void PolicyKeeper::read(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now,
                        std::function<void()> done) {
  if (!store_) return done();
  is_reading_ = true;
  store_->load([this, &loop, &costs, number = ++loads_, now = std::move(now), done = std::move(done),
                alive = std::weak_ptr<int>{alive_}](core::Result<StoredState> stored) {
    if (alive.expired() || number != loads_) return;
    is_reading_ = false;
    if (stored)
      take(loop, costs, now(), *std::move(stored));
    else
      take_failure(costs, stored.error());
    done();
  });
}

void PolicyKeeper::take_failure(GpuCostMeter& costs, const core::Error& error) {
  follow_error(
      fmt::format("the saved state cannot be read, and nothing is saved until it can be: {}", error.message()));
  if (std::exchange(has_failed_, true)) return;
  // A planner that followed has counted what the leader of that time has saved.
  counted_before_ = costs.costs();
  costs.restore({counted_before_.since_unix_ms});
}

void PolicyKeeper::take(decision::DecisionLoop& loop, GpuCostMeter& costs, core::Instant now, StoredState stored) {
  has_read_ = true;
  restored_ = std::move(stored.state);
  std::optional<decision::GpuCosts> sums = restored_ ? std::exchange(restored_->costs, std::nullopt) : std::nullopt;
  if (has_failed_) {
    if (!sums) sums = std::move(counted_before_);
    decision::add_costs(*sums, costs.costs(), GpuCostMeter::kTenantsMax, GpuCostMeter::kOther);
  }
  if (sums) costs.restore(*std::move(sums));
  if (!stored.unusable_because.empty())
    log_.write(logging::Event::kPolicyState, {{"message", "ignored: " + stored.unusable_because}});
  if (!restored_) return;  // For example at the first start.
  if (restore_start_up_) restore_start_up_(restored_->start_up);
  if (restored_->state.policy.empty())
    return log_.write(logging::Event::kPolicyState,
                      {{"message", "restored: the GPU cost of a time without decisions"}});
  // The loop may have ticked meanwhile. It keeps what it has learned if the state does not fit.
  if (has_failed_) loop.reset(loop.snapshot());
  std::chrono::milliseconds passed{unix_ms() - restored_->saved_unix_ms};
  if (passed < core::Duration{} && passed > -kClockDifferenceMax) passed = {};
  log_restored(loop.restore(restored_->state, pools_, now, passed));
}

void PolicyKeeper::save(decision::DecisionLoop& loop, const decision::GpuCosts& costs, std::function<void()> done) {
  if (!store_ || !has_read_) {
    if (done) done();
    return;
  }
  connect::SavedPolicyState made;
  if (auto state = loop.save()) {
    restored_.reset();
    made = {*std::move(state), ticked_unix_ms_, {}};
  } else if (restored_) {
    made = *restored_;
  } else {
    made.saved_unix_ms = unix_ms();  // Its policy has no name: nothing was decided.
  }
  made.costs = costs;
  if (measured_start_up_) made.start_up = measured_start_up_();
  store_->save(made,
               [this, done = std::move(done), alive = std::weak_ptr<int>{alive_}](const core::Result<void>& saved) {
                 if (alive.expired()) return;
                 follow_error(saved ? "" : saved.error().message());
                 if (done) done();
               });
}

void PolicyKeeper::follow_error(std::string error) {
  if (error.empty() != save_error_.empty())
    log_.write(error.empty() ? logging::Event::kFileWritable : logging::Event::kFileUnwritable,
               {{"error", error.empty() ? save_error_ : error}});
  save_error_ = std::move(error);
}

}  // namespace penstock::controller
