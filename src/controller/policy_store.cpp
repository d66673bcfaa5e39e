#include "controller/policy_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/unix_time.h"

namespace penstock::controller {
namespace {

// By how much the clocks of two machines may differ.
constexpr std::chrono::milliseconds kClockDifferenceMax = std::chrono::minutes{5};

}  // namespace

PolicyStateConfigMap::PolicyStateConfigMap(std::unique_ptr<connect::KubernetesClient> api,
                                           const connect::ObjectName& name)
    : where_(fmt::format("ConfigMap {}/{}", name.in_namespace, name.name)),
      api_(std::move(api)),
      text_(*api_, name, "policy.json") {}

void PolicyStateConfigMap::load(Loaded loaded) {
  text_.load([this, loaded = std::move(loaded)](const core::Result<std::optional<std::string>>& text) {
    if (!text) return loaded(tl::make_unexpected(text.error()));
    if (!*text) return loaded(std::optional<connect::SavedPolicyState>{});
    auto state = connect::read_policy_state(**text, where_);
    if (!state) return loaded(tl::make_unexpected(state.error()));
    loaded(std::optional{*std::move(state)});
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
  if (!store_) return done();
  store_->load([this, &loop, &costs, number = ++loads_, now = std::move(now), done = std::move(done),
                alive = std::weak_ptr<int>{alive_}](core::Result<std::optional<connect::SavedPolicyState>> saved) {
    if (alive.expired() || number != loads_) return;
    if (saved && !*saved) return done();  // The first start.
    if (saved && (*saved)->costs) costs.restore(*std::move((*saved)->costs));
    log_restored(std::move(saved).and_then([&](const std::optional<connect::SavedPolicyState>& found) {
      std::chrono::milliseconds passed{unix_ms() - found->saved_unix_ms};
      if (passed < core::Duration{} && passed > -kClockDifferenceMax) passed = {};
      return loop.restore(found->state, pools_, now(), passed);
    }));
    done();
  });
}

void PolicyKeeper::save(decision::DecisionLoop& loop, const decision::GpuCosts& costs, std::function<void()> done) {
  auto state = store_ ? loop.save() : std::nullopt;
  if (!state) {
    if (done) done();
    return;
  }
  store_->save({*std::move(state), ticked_unix_ms_, costs},
               [this, done = std::move(done), alive = std::weak_ptr<int>{alive_}](const core::Result<void>& saved) {
                 if (alive.expired()) return;
                 const std::string error = saved ? "" : saved.error().message();
                 if (error.empty() != save_error_.empty())
                   log_.write(saved ? logging::Event::kFileWritable : logging::Event::kFileUnwritable,
                              {{"error", saved ? save_error_ : error}});
                 save_error_ = error;
                 if (done) done();
               });
}

}  // namespace penstock::controller
