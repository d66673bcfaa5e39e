// Random arrivals, attempts, failures, cancellations and replicas. Whatever happens, every request ends exactly once,
// limits are never exceeded and all sums balance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
using ledger::Outcome;
using signals::Role;

constexpr std::uint32_t kConcurrent = 3;
constexpr std::size_t kOutcomes = 7;

// What the ledger wrote.
struct Written {
  std::set<std::uint64_t> opened, closed;
  std::array<std::uint64_t, kOutcomes> outcomes{};
};

class CheckedSink final : public LedgerSink {
 public:
  explicit CheckedSink(Written& written) : written_(written) {}
  void opened(const ledger::Entry& entry) override {
    EXPECT_TRUE(written_.opened.insert(entry.id).second) << "an entry is opened once";
    EXPECT_FALSE(written_.closed.contains(entry.id)) << "an entry is opened before it is closed";
  }
  void closed(const ledger::Entry& entry) override {
    EXPECT_TRUE(written_.closed.insert(entry.id).second) << "an entry is closed once";
    EXPECT_EQ(ledger::imbalance(entry), "");
    ++written_.outcomes[static_cast<std::size_t>(entry.outcome)];
  }

 private:
  Written& written_;
};

DispatchOptions random_options(core::RandomStream random) {
  DispatchOptions options;
  options.seed = random.next();
  options.strategy = static_cast<routing::Strategy>(random.below(5));
  options.tenants.resize(4);
  options.tenants[0].name = "free";
  options.tenants[1].name = "busy";
  options.tenants[1].concurrent = kConcurrent;
  options.tenants[1].over_budget = OverBudget::kQueue;
  options.tenants[2].name = "metered";
  options.tenants[2].budget = {40'000.0, 8'000.0};
  options.tenants[3].name = "both";
  options.tenants[3].weight = 3.0;
  options.tenants[3].tier = 1;
  options.tenants[3].concurrent = kConcurrent;
  options.tenants[3].budget = {60'000.0, 0.0};
  options.tenants[3].over_budget = OverBudget::kQueue;
  for (Tenant& tenant : options.tenants)
    if (random.below(2) == 0) tenant.reserve = admission::Reserve::kExpected;
  options.models = {{"m", {1.0, 0.5, 2.0}, 16'384}, {"split", {1.0, 0.5, 2.0}, 16'384}};
  options.interactive.queue_time = random.below(2) == 0 ? 2s : 0s;
  options.batch.queue_time = 20s;
  options.batch.budget = {200'000.0, 0.0};
  for (ClassOptions* each : {&options.interactive, static_cast<ClassOptions*>(&options.batch)}) {
    each->overload = static_cast<admission::OverloadAction>(random.below(admission::kOverloadActions));
    each->degrade = {1'000 + random.below(20'000), static_cast<std::uint32_t>(1 + random.below(100))};
  }
  if (random.below(2) == 0) options.batch.completion_window = std::chrono::seconds{20 + random.below(100)};
  if (random.below(4) == 0) options.batch.near_deadline = NearDeadline::kRefuse;
  options.queue.requests = 1 + static_cast<std::uint32_t>(random.below(64));
  options.pressure.prefill_tokens_per_replica = 1'000 + random.below(32'000);
  options.retries = static_cast<std::uint32_t>(random.below(4));
  options.retry_share = 0.5;
  options.circuit_breaker.failures = 2;
  options.circuit_breaker.open = 500ms;
  options.circuit_breaker.window_requests = 5;
  return options;
}

class RandomWorld final : GrantListener {
 public:
  explicit RandomWorld(std::uint64_t seed)
      : random_(core::RandomStream{seed}),
        dispatcher_(std::make_unique<Dispatcher>(random_options(random_.fork("options")),
                                                 std::make_unique<CheckedSink>(written_), now_, 1'000h)) {}

  void run(int steps) {
    change_replicas();
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      act();
      check();
    }
    end_all();
    check_sums();
  }
  [[nodiscard]] const std::string& story() const { return story_; }
  [[nodiscard]] const std::set<RefusalReason>& reasons() const { return reasons_; }
  [[nodiscard]] int granted_later() const { return granted_later_; }
  [[nodiscard]] bool deferred() const { return deferred_ > 0; }

 private:
  struct Open {
    std::uint32_t tenant = 0;
    bool granted = false, answered = false;
    Grant grant;
  };

  void deliver(Ticket ticket, const Grant& grant) override {
    const auto found = open_.find(ticket);
    ASSERT_TRUE(found != open_.end() && !found->second.granted) << "only what waits is granted later, once";
    found->second.granted = true;
    ++granted_later_;
    note_grant(found->second, grant);
  }
  void deliver(Ticket ticket, const Refusal& refusal) override {
    const auto found = open_.find(ticket);
    ASSERT_TRUE(found != open_.end() && !found->second.granted) << "only what waits is refused later, once";
    EXPECT_FALSE(refusal.message.empty());
    note_refusal(refusal);
    open_.erase(found);
    ++refused_;
  }
  void note_refusal(const Refusal& refusal) {
    story_ += to_string(refusal.reason);
    reasons_.insert(refusal.reason);
  }
  void note_grant(Open& request, const Grant& grant) {
    request.grant = grant;
    EXPECT_TRUE(serving_.contains(grant.replica)) << "only a serving replica is chosen";
    story_ += "->" + std::to_string(grant.replica) + ' ';
  }

  void act() {
    switch (random_.below(16)) {
      case 0: return change_replicas();
      case 1: return change_health();
      case 2: return report_load();
      case 3: return kv_events();
      case 4: now_ += core::Duration{static_cast<std::int64_t>(random_.below(3'000'000'000))}; return tick();
      case 5: {
        const core::Instant wake = dispatcher_->next_wake(now_);
        if (wake != core::kNever) now_ = std::max(now_, wake);
        return tick();
      }
      case 6: return fail_attempt();
      case 7: return end_one(Outcome::kCancelled);
      case 8:
      case 9:
      case 10: return progress();
      default: return arrive();
    }
  }

  void tick() { dispatcher_->tick(now_); }

  void arrive() {
    now_ += std::chrono::microseconds{random_.below(20'000)};
    std::vector<std::uint64_t> keys;
    const std::uint64_t family = random_.below(4);
    for (std::uint64_t i = 0; i < random_.below(12); ++i) keys.push_back(100 * family + i);
    RequestInfo info;
    info.model = random_.below(20) == 0 ? "unknown" : random_.below(3) == 0 ? "split" : "m";
    if (random_.below(2) == 0) info.model_number = dispatcher_->model_number(info.model);
    info.tenant = static_cast<std::uint32_t>(random_.below(4));
    info.traffic_class = random_.below(3) == 0 ? admission::Class::kBatch : admission::Class::kInteractive;
    info.text_bytes = 1 + random_.below(random_.below(20) == 0 ? 500'000 : 20'000);
    if (random_.below(2) == 0) info.max_tokens = static_cast<std::uint32_t>(1 + random_.below(1'000));
    info.stream = random_.below(3) > 0;
    info.splits = random_.below(8) > 0;
    info.affinity = random_.below(5);
    info.keys = keys;
    info.received_at = now_;
    if (random_.below(4) == 0) info.completion_window = std::chrono::seconds{10 + random_.below(50)};
    const ArrivalResult result = dispatcher_->arrive(info, *this, now_);
    ++arrived_;
    deferred_ += dispatcher_->counters().deferral.deferred > 0 ? 1 : 0;
    if (result.refusal) {
      EXPECT_FALSE(result.grant);
      EXPECT_FALSE(result.refusal->message.empty());
      note_refusal(*result.refusal);
      ++refused_;
      return;
    }
    ASSERT_NE(result.ticket, 0U);
    const auto [at, is_new] = open_.emplace(result.ticket, Open{info.tenant, result.grant.has_value(), false, {}});
    ASSERT_TRUE(is_new && !ended_.contains(result.ticket)) << "a ticket is never used twice";
    if (result.grant) note_grant(at->second, *result.grant);
  }

  std::map<Ticket, Open>::iterator some_open() {
    if (open_.empty()) return open_.end();
    return std::next(open_.begin(), static_cast<std::ptrdiff_t>(random_.below(open_.size())));
  }

  // The next passage in the life of a request.
  void progress() {
    const auto at = some_open();
    if (at == open_.end() || !at->second.granted) return;
    now_ += std::chrono::microseconds{random_.below(50'000)};
    if (at->second.grant.prefill_only) return to_decode(at);
    if (at->second.answered) return end(at, Outcome::kCompleted);
    dispatcher_->attempt_ended(at->first, Attempt::kAnswered, now_);
    dispatcher_->answered(at->first, now_);
    at->second.answered = true;
  }

  void to_decode(std::map<Ticket, Open>::iterator at) {
    dispatcher_->attempt_ended(at->first, Attempt::kAnswered, now_);
    if (random_.below(2) == 0) dispatcher_->prefilled(at->first, now_);
    if (random_.below(8) == 0) dispatcher_->tick(now_);
    const auto grant = dispatcher_->route_decode(at->first, now_);
    if (!grant) return end(at, Outcome::kFailed);
    note_grant(at->second, *grant);
    EXPECT_FALSE(grant->prefill_only);
  }

  void fail_attempt() {
    const auto at = some_open();
    if (at == open_.end() || !at->second.granted) return;
    dispatcher_->attempt_ended(at->first, random_.below(4) == 0 ? Attempt::kBusy : Attempt::kFaulted, now_);
    const auto again = at->second.answered ? std::nullopt : dispatcher_->route_again(at->first, now_);
    if (!again) return end(at, Outcome::kFailed);
    note_grant(at->second, *again);
  }

  void end_one(Outcome outcome) {
    const auto at = some_open();
    if (at == open_.end()) return;
    dispatcher_->attempt_ended(at->first, Attempt::kAbandoned, now_);
    end(at, outcome);
  }

  void end(std::map<Ticket, Open>::iterator at, Outcome outcome) {
    const Ticket ticket = at->first;
    RequestOutcome ending;
    ending.outcome = outcome;
    if (at->second.granted) {
      ++outcomes_[static_cast<std::size_t>(outcome)];
      if (outcome == Outcome::kCompleted || random_.below(3) == 0) {
        const auto prompt = static_cast<std::uint32_t>(1 + random_.below(5'000));
        ending.usage = TokenUsage{prompt, static_cast<std::uint32_t>(random_.below(300)),
                                  static_cast<std::uint32_t>(random_.below(prompt)), random_.below(2) == 0};
        prompt_tokens_ += ending.usage->prompt_tokens;
        output_tokens_ += ending.usage->output_tokens;
      } else {
        // A request that a replica had is charged, too.
        estimated_ = true;
        ending.output.events = at->second.answered ? 7 : 0;
      }
    } else {
      ++refused_;
    }
    ending.last_token_at = now_;
    open_.erase(at);
    ended_.insert(ticket);
    dispatcher_->ended(ticket, ending, now_);
    // Calls for a ticket that has ended do nothing.
    dispatcher_->answered(ticket, now_);
    dispatcher_->attempt_ended(ticket, Attempt::kFaulted, now_);
    EXPECT_FALSE(dispatcher_->route_again(ticket, now_) || dispatcher_->route_decode(ticket, now_));
    dispatcher_->ended(ticket, ending, now_);
  }

  void end_all() {
    while (!open_.empty() && !::testing::Test::HasFailure()) {
      end_one(Outcome::kTimedOut);
      check();
    }
  }

  void change_replicas() {
    std::vector<ReplicaSpec> specs;
    serving_.clear();
    for (std::uint64_t number = 0; number < 8; ++number) {
      if (random_.below(4) == 0) continue;
      ReplicaSpec spec;
      spec.id = "replica-" + std::to_string(number);
      spec.number = random_.below(12) == 0 ? number + 100 : number;  // now and then another one of the same name
      spec.model = number < 4 ? "m" : "split";
      spec.role = number < 4 ? Role::kAggregated : number < 6 ? Role::kPrefill : Role::kDecode;
      spec.phase = static_cast<ReplicaPhase>(random_.below(6) < 4 ? 1 : random_.below(3));
      spec.weight = 1.0 + static_cast<double>(random_.below(3));
      spec.kv_tokens = random_.below(2) * 20'000;
      if (spec.phase == ReplicaPhase::kServing) serving_.insert(spec.number);
      specs.push_back(spec);
    }
    dispatcher_->set_replicas(specs, now_);
  }

  std::optional<std::uint32_t> some_slot() {
    return dispatcher_->slot_of("replica-" + std::to_string(random_.below(8)));
  }
  void change_health() {
    if (const auto slot = some_slot())
      dispatcher_->set_health(*slot, static_cast<ReplicaHealth>(random_.below(3)), now_);
  }
  void report_load() {
    const auto slot = some_slot();
    if (!slot) return;
    routing::ReportedLoad load;
    load.at = now_;
    load.running = static_cast<std::uint32_t>(random_.below(20));
    load.kv_usage = random_.uniform();
    dispatcher_->report_load(*slot, load);
  }
  void kv_events() {
    const auto slot = some_slot();
    const std::vector<std::uint64_t> keys{100 * random_.below(4) + random_.below(12)};
    if (slot) dispatcher_->kv_event(*slot, static_cast<KvChange>(random_.below(4)), keys);
  }

  void check() {
    EXPECT_EQ(dispatcher_->invariant_violation(now_), "");
    EXPECT_EQ(dispatcher_->open_requests(), open_.size());
    std::array<std::uint32_t, 4> running{};
    for (const auto& [ticket, request] : open_) running[request.tenant] += request.granted ? 1 : 0;
    for (std::uint32_t tenant = 0; tenant < running.size(); ++tenant)
      EXPECT_EQ(dispatcher_->tenant(tenant, now_).running, running[tenant]);
    EXPECT_LE(running[1], kConcurrent);
    EXPECT_LE(running[3], kConcurrent);
  }

  void check_sums() {
    ledger::Sums all;
    for (const auto& [key, sums] : dispatcher_->balance().sums()) {
      all.opened += sums.opened;
      all.closed += sums.closed;
      all.refused += sums.refused;
      all.completed += sums.completed;
      all.prompt_tokens += sums.prompt_tokens;
      all.output_tokens += sums.output_tokens;
    }
    EXPECT_EQ(all.opened, all.closed);
    EXPECT_EQ(all.opened + all.refused, arrived_) << "every request ends exactly once";
    EXPECT_EQ(all.refused, refused_);
    EXPECT_EQ(all.completed, outcomes_[static_cast<std::size_t>(Outcome::kCompleted)]);
    if (!estimated_) {
      EXPECT_EQ(all.output_tokens, output_tokens_);
      EXPECT_EQ(all.prompt_tokens, prompt_tokens_);
    }
    EXPECT_EQ(written_.closed.size(), all.closed);
    EXPECT_EQ(written_.outcomes, outcomes_);
    EXPECT_EQ(dispatcher_->balance().open_entries(), 0U);
    for (const ReplicaStatus& status : dispatcher_->replicas(now_)) {
      EXPECT_EQ(status.load.open_requests, 0U) << status.spec.id;
      EXPECT_EQ(status.open_transfers, 0U) << status.spec.id;
      EXPECT_EQ(status.load.prefill_tokens, 0U) << status.spec.id;
      EXPECT_EQ(status.load.context_tokens, 0U) << status.spec.id;
    }
    for (std::uint32_t tenant = 0; tenant < 4; ++tenant) {
      const auto figures = dispatcher_->tenant(tenant, now_);
      EXPECT_EQ(figures.reserved_tokens, 0U);
      EXPECT_EQ(figures.reserved_total, figures.settled_total);
    }
    const std::size_t opened = written_.opened.size();
    dispatcher_.reset();
    EXPECT_EQ(written_.opened.size(), opened) << "nothing is left open";
  }

  core::RandomStream random_;
  core::Instant now_ = core::kStart + 1h;
  Written written_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::map<Ticket, Open> open_;
  std::set<Ticket> ended_;
  std::set<std::uint64_t> serving_;  // by number
  std::uint64_t arrived_ = 0, refused_ = 0, prompt_tokens_ = 0, output_tokens_ = 0;
  std::array<std::uint64_t, kOutcomes> outcomes_{};
  bool estimated_ = false;  // some prompts are in the ledger by their estimates
  std::string story_;
  std::set<RefusalReason> reasons_;
  int granted_later_ = 0, deferred_ = 0;
};

TEST(DispatcherProperty, EveryRequestEndsOnceAndAllSumsBalance) {
  std::set<RefusalReason> reasons;
  int granted_later = 0, worlds_that_defer = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world{seed};
    world.run(300);
    if (HasFailure()) return;
    reasons.insert(world.reasons().begin(), world.reasons().end());
    granted_later += world.granted_later();
    worlds_that_defer += world.deferred() ? 1 : 0;
  }
  EXPECT_EQ(reasons.size(), kRefusalReasons) << "the worlds meet every reason";
  EXPECT_GT(granted_later, 1'000) << "requests wait and are granted";
  EXPECT_GT(worlds_that_defer, 20) << "batch requests wait for spare capacity";
}

TEST(DispatcherProperty, TheSameSeedGivesTheSameEvents) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomWorld one{seed}, two{seed};
    one.run(200);
    two.run(200);
    EXPECT_EQ(one.story(), two.story()) << "seed " << seed;
  }
}

struct NoListener final : GrantListener {
  void deliver(Ticket, const Grant&) override { ++grants; }
  void deliver(Ticket, const Refusal&) override { ++refusals; }
  int grants = 0, refusals = 0;
};

// With the router of a peer and no limits, the dispatcher adds nothing to what that router does.
TEST(UnlimitedDispatcher, AdmitsAllThatAReplicaCanTakeAndTakesTheRoutersChoice) {
  DispatchOptions options = unlimited_options();
  options.strategy = routing::Strategy::kKv;
  options.key_tokens = 16;
  Dispatcher dispatcher{options, nullptr, core::kStart, 0s};
  routing::Router router{routing::Strategy::kKv, 16,
                         core::RandomStream{options.seed}.fork("fleet").fork("router").fork(0)};
  std::vector<ReplicaSpec> specs;
  for (std::uint32_t number = 0; number < 4; ++number) {
    specs.push_back({"r" + std::to_string(number), number, "m", "default"});
    router.set_eligible(number, true);
  }
  dispatcher.set_replicas(specs, core::kStart);
  NoListener listener;
  core::RandomStream random{3};
  core::Instant now = core::kStart;
  for (int i = 0; i < 2'000; ++i) {
    now += 1ms;
    const auto input = static_cast<std::uint32_t>(1 + random.below(2'000'000));
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < std::min<std::uint64_t>(input / 16, 40); ++key)
      keys.push_back(100 * random.below(2) + key);
    RequestInfo info;
    info.model = "m";
    info.prompt_tokens_given = input;
    info.stream = true;
    info.keys = keys;
    info.received_at = now;
    const ArrivalResult result = dispatcher.arrive(info, listener, now);
    ASSERT_TRUE(result.grant) << i;
    const auto choice = router.choose({input, keys});
    ASSERT_EQ(result.grant->slot, choice->slot) << i;
    EXPECT_FALSE(result.grant->max_tokens);
    const std::uint32_t charged = input - std::min(input, choice->overlap_blocks * 16);
    router.dispatched(choice->slot, charged, (input + 15) / 16);
    const std::uint64_t key = random.below(200);
    const std::vector<std::uint64_t> stored{key};
    dispatcher.kv_event(choice->slot, KvChange::kStored, stored);
    router.index().stored(choice->slot, key);
    if (random.below(3) > 0) {
      dispatcher.answered(result.ticket, now);
      router.first_token(choice->slot, charged);
      dispatcher.ended(result.ticket, {}, now);
      router.finished(choice->slot, (input + 15) / 16);
    }
  }
  EXPECT_EQ(dispatcher.next_wake(now), core::kNever);
  EXPECT_EQ(dispatcher.invariant_violation(now), "");
}

TEST(UnlimitedDispatcher, RequestsWithoutAReplicaWaitInOrder) {
  DispatchOptions options = unlimited_options();
  options.strategy = routing::Strategy::kRoundRobin;
  options.models = {{"m", {}, UINT32_MAX}};
  Dispatcher dispatcher{options, nullptr, core::kStart, 0s};
  NoListener listener;
  for (int i = 0; i < 500; ++i) {
    RequestInfo info;
    info.model = "m";
    info.prompt_tokens_given = 100'000;
    EXPECT_FALSE(dispatcher.arrive(info, listener, core::kStart).refusal);
  }
  dispatcher.tick(core::kStart + 1h);
  EXPECT_EQ(listener.refusals, 0);
  dispatcher.set_replicas({{"r", 0, "m", "default"}}, core::kStart + 2h);
  EXPECT_EQ(listener.grants, 500);
}

}  // namespace
}  // namespace penstock::dispatch
