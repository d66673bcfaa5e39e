// Random bursts of requests of every shape at tenants and classes with budgets. Engines use whatever their requests
// permit. However they arrive, fail, wait, are cancelled and end, no budget is exceeded by more than one request.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
using testing::TestListener;

constexpr core::Instant kStart{1'000h};

// What was used of one budget, with all that its running requests may still use.
struct Use {
  admission::BudgetLimits limits;
  std::uint64_t ended = 0, running = 0, largest = 0;

  void admitted(std::uint64_t most) {
    running += most;
    largest = std::max(largest, most);
  }
  void check(core::Instant now) const {
    if (!limits.limited()) return;
    const double granted = limits.capacity() + limits.tokens_per_minute * core::to_seconds(now - kStart) / 60.0;
    EXPECT_LE(static_cast<double>(ended + running), granted + static_cast<double>(largest) + 1.0);
  }
};

// A ledger that outlives dispatchers.
class Memory final : public LedgerSink {
 public:
  explicit Memory(std::map<std::uint64_t, ledger::Entry>& entries) : entries_(entries) {}
  void opened(const ledger::Entry& entry) override { entries_[entry.id] = entry; }
  void closed(const ledger::Entry& entry) override { entries_[entry.id] = entry; }
  std::vector<ledger::PastUse> uses_since(std::int64_t unix_ms) override {
    std::vector<ledger::PastUse> uses;
    for (const auto& [id, entry] : entries_)
      if (entry.opened_unix_ms >= unix_ms) uses.push_back(ledger::use_of(entry));
    return uses;
  }

 private:
  std::map<std::uint64_t, ledger::Entry>& entries_;
};

class Bursts {
 public:
  explicit Bursts(std::uint64_t seed) : random_(core::RandomStream{seed}), options_(testing::options_for_tests()) {
    options_.tenants.resize(3);
    const char* const names[] = {"rejects", "waits", "unlimited"};
    for (std::size_t i = 0; i < 3; ++i) {
      Tenant& tenant = options_.tenants[i];
      tenant.name = names[i];
      if (i < 2)
        tenant.budget = {1'000.0 + random_.uniform() * 50'000.0,
                         random_.below(2) == 0 ? 0.0 : 500.0 + random_.uniform() * 60'000.0};
      tenants_[i].limits = tenant.budget;
    }
    options_.tenants[1].over_budget = OverBudget::kQueue;
    if (random_.below(2) == 0) options_.batch.budget = {5'000.0 + random_.uniform() * 50'000.0, 0.0};
    if (random_.below(4) == 0) options_.interactive.budget = {5'000.0 + random_.uniform() * 50'000.0, 0.0};
    classes_[0].limits = options_.interactive.budget;
    classes_[1].limits = options_.batch.budget;
    options_.max_tokens_default = static_cast<std::uint32_t>(1 + random_.below(8'000));
    options_.retry_share = 1.0;
    open();
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      act();
      take_grants();
      for (const Use& use : tenants_) use.check(now_);
      for (const Use& use : classes_) use.check(now_);
      ASSERT_EQ(dispatcher_->invariant_violation(now_), "");
    }
  }
  [[nodiscard]] int admitted() const { return admitted_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  struct Running {
    std::uint32_t tenant = 0;
    std::size_t of_class = 0;
    std::uint64_t prompt_most = 0, answers = 1;
    std::optional<std::uint32_t> max_tokens;  // As the engine gets it.
    bool granted = false;
    [[nodiscard]] std::uint64_t most() const { return prompt_most + answers * max_tokens.value_or(10'000); }
  };

  void open() {
    dispatcher_ = std::make_unique<Dispatcher>(options_, std::make_unique<Memory>(entries_), now_,
                                               now_.time_since_epoch() + 10'000h);
    dispatcher_->set_replicas({testing::replica_named("r1"), testing::replica_named("r2")}, now_);
  }

  void act() {
    switch (random_.below(12)) {
      case 0: now_ += std::chrono::milliseconds{random_.below(20'000)}; return dispatcher_->tick(now_);
      case 1: return fail_attempt();
      case 2:
      case 3:
      case 4:
      case 5: return end();
      case 6:
        if (random_.below(20) == 0) restart();
        return;
      default:
        for (std::uint64_t burst = 1 + random_.below(10); burst > 0; --burst) arrive();
    }
  }

  void arrive() {
    Running request;
    RequestInfo info = testing::info_of(1 + random_.below(random_.below(4) == 0 ? 40'000 : 2'000));
    info.tenant = request.tenant = static_cast<std::uint32_t>(random_.below(3));
    info.traffic_class = random_.below(3) == 0 ? admission::Class::kBatch : admission::Class::kInteractive;
    request.of_class = index_of(info.traffic_class);
    info.text_kind = static_cast<admission::TextKind>(random_.below(2));
    if (random_.below(4) == 0) info.prompt_tokens_given = static_cast<std::uint32_t>(1 + random_.below(4'000));
    if (random_.below(4) == 0) info.media_tokens = static_cast<std::uint32_t>(random_.below(3'000));
    info.template_tokens = static_cast<std::uint32_t>(random_.below(100));
    request.prompt_most = (info.prompt_tokens_given > 0 ? info.prompt_tokens_given : info.text_bytes) +
                          info.media_tokens + info.template_tokens;
    info.answers = request.answers = random_.below(3) > 0 ? 1 : 1 + random_.below(64);
    if (random_.below(3) > 0) info.max_tokens = static_cast<std::uint32_t>(random_.below(5'000));
    if (!info.max_tokens && random_.below(3) == 0) info.max_tokens_default = 16;
    request.max_tokens = info.max_tokens;
    info.stream = random_.below(2) == 0;
    info.received_at = now_;
    const ArrivalResult result = dispatcher_->arrive(info, listener_, now_);
    if (result.refusal) {
      ++refused_;
      return;
    }
    open_.emplace(result.ticket, request);
    if (result.grant) granted(result.ticket, *result.grant);
  }

  void granted(Ticket ticket, const Grant& grant) {
    Running& request = open_.at(ticket);
    if (grant.max_tokens) request.max_tokens = grant.max_tokens;
    request.granted = true;
    ++admitted_;
    if (request.tenant < 2) {
      ASSERT_TRUE(request.max_tokens) << "an answer of a tenant with a budget has a limit";
    }
    tenants_[request.tenant].admitted(request.most());
    classes_[request.of_class].admitted(request.most());
  }

  void take_grants() {
    for (const auto& [ticket, grant] : std::exchange(listener_.grants, {})) granted(ticket, grant);
    for (const auto& [ticket, refusal] : std::exchange(listener_.refusals, {})) {
      open_.erase(ticket);
      ++refused_;
    }
  }

  std::map<Ticket, Running>::iterator some_open() {
    if (open_.empty()) return open_.end();
    return std::next(open_.begin(), static_cast<std::ptrdiff_t>(random_.below(open_.size())));
  }

  void fail_attempt() {
    const auto at = some_open();
    if (at == open_.end() || !at->second.granted) return;
    dispatcher_->attempt_ended(at->first, Attempt::kFaulted, now_);
    const auto again = dispatcher_->route_again(at->first, now_);
    if (!again) return close(at, ledger::Outcome::kFailed, std::nullopt);
    Running& request = at->second;
    for (Use* use : {&tenants_[request.tenant], &classes_[request.of_class]}) use->running -= request.most();
    if (again->max_tokens) request.max_tokens = again->max_tokens;
    for (Use* use : {&tenants_[request.tenant], &classes_[request.of_class]}) use->admitted(request.most());
  }

  // The engine may compute all that it is permitted.
  void end() {
    const auto at = some_open();
    if (at == open_.end()) return;
    now_ += std::chrono::milliseconds{random_.below(200)};
    if (!at->second.granted) return close(at, ledger::Outcome::kCancelled, std::nullopt);
    dispatcher_->answered(at->first, now_);
    const bool all = random_.below(3) > 0;
    const std::uint64_t output = at->second.most() - at->second.prompt_most;
    TokenUsage usage;
    usage.prompt_tokens =
        static_cast<std::uint32_t>(all ? at->second.prompt_most : 1 + random_.below(at->second.prompt_most));
    usage.output_tokens = static_cast<std::uint32_t>(all ? output : random_.below(output + 1));
    close(at, static_cast<ledger::Outcome>(random_.below(4)), usage);
  }

  void close(std::map<Ticket, Running>::iterator at, ledger::Outcome outcome, std::optional<TokenUsage> usage) {
    const auto [ticket, request] = *at;
    open_.erase(at);
    RequestOutcome ending;
    ending.outcome = outcome;
    ending.usage = usage;
    ending.last_token_at = now_;
    const std::uint64_t used = usage ? std::uint64_t{usage->prompt_tokens} + usage->output_tokens : 0;
    if (request.granted)
      for (Use* use : {&tenants_[request.tenant], &classes_[request.of_class]}) {
        use->running -= request.most();
        use->ended += used;
      }
    dispatcher_->ended(ticket, ending, now_);
  }

  // The process ends, and with it all its requests. Engines may have computed all that they were permitted.
  void restart() {
    for (const auto& [ticket, request] : open_) {
      if (!request.granted) continue;
      for (Use* use : {&tenants_[request.tenant], &classes_[request.of_class]}) {
        use->running -= request.most();
        use->ended += request.most();
      }
    }
    open_.clear();
    listener_ = {};
    dispatcher_.reset();
    now_ += std::chrono::milliseconds{random_.below(2'000)};
    open();
  }

  core::RandomStream random_;
  core::Instant now_ = kStart;
  DispatchOptions options_;
  std::map<std::uint64_t, ledger::Entry> entries_;
  TestListener listener_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::map<Ticket, Running> open_;
  std::array<Use, 3> tenants_;
  std::array<Use, 2> classes_;
  int admitted_ = 0, refused_ = 0;
};

TEST(BudgetProperty, NoBurstExceedsABudgetByMoreThanOneRequest) {
  int admitted = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Bursts bursts{seed};
    bursts.run(400);
    if (::testing::Test::HasFailure()) return;
    admitted += bursts.admitted();
    refused += bursts.refused();
  }
  EXPECT_GT(admitted, 10'000);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace penstock::dispatch
