// Calls of the dispatcher in any order: arrivals, attempts, ends, replicas that change, time that passes. Its
// invariants hold after each call, and in the end every request has ended once.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/dispatcher.h"

namespace {

using namespace penstock;
using namespace penstock::dispatch;

void check(bool holds) {
  if (!holds) std::abort();
}

// Numbers from the bytes of the input; 0 when they are used up.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::uint64_t below(std::uint64_t end) {
    std::uint64_t number = 0;
    for (std::uint64_t range = 1; range < end && !bytes_.empty(); range *= 256) {
      number = number * 256 + bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return number % end;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Counts {
  std::uint64_t opened = 0, closed = 0;
};

class Sink final : public LedgerSink {
 public:
  explicit Sink(Counts& counts) : counts_(counts) {}
  void opened(const ledger::Entry&) override { ++counts_.opened; }
  void closed(const ledger::Entry& entry) override {
    check(ledger::imbalance(entry).empty());
    ++counts_.closed;
  }

 private:
  Counts& counts_;
};

DispatchOptions options_from(Input& input) {
  DispatchOptions options;
  options.strategy = static_cast<routing::Strategy>(input.below(5));
  options.tenants.resize(3);
  options.tenants[0].name = "free";
  options.tenants[1].name = "limited";
  options.tenants[1].concurrent = 1 + static_cast<std::uint32_t>(input.below(3));
  options.tenants[1].over_budget = OverBudget::kQueue;
  options.tenants[2].name = "metered";
  options.tenants[2].budget = {40'000.0, 8'000.0};
  options.models = {{"m", {1.0, 0.5, 2.0}, 16'384}};
  options.interactive.queue_time = input.below(2) == 0 ? std::chrono::seconds{2} : core::Duration{};
  options.queue.requests = 1 + static_cast<std::uint32_t>(input.below(16));
  options.retries = static_cast<std::uint32_t>(input.below(4));
  return options;
}

class World final : GrantListener {
 public:
  explicit World(Input& input)
      : input_(input),
        dispatcher_(options_from(input), std::make_unique<Sink>(counts_), now_, std::chrono::hours{1'000}) {
    change_replicas();
  }

  void run() {
    while (!input_.empty()) {
      act();
      verify();
    }
    while (!open_.empty()) {
      end(open_.begin(), ledger::Outcome::kTimedOut);
      verify();
    }
    check(counts_.opened <= counts_.closed);  // A request that is refused at once is closed only.
    check(dispatcher_.open_requests() == 0);
  }

 private:
  struct Open {
    bool granted = false, answered = false, prefill = false;
  };

  void deliver(Ticket ticket, const Grant& grant) override { granted(ticket, grant); }
  void deliver(Ticket ticket, const Refusal& refusal) override {
    check(!refusal.message.empty() && open_.erase(ticket) == 1);
  }
  void granted(Ticket ticket, const Grant& grant) {
    const auto found = open_.find(ticket);
    check(found != open_.end());
    found->second.granted = true;
    found->second.prefill = grant.prefill_only;
  }

  void act() {
    now_ += std::chrono::milliseconds{input_.below(256)};
    switch (input_.below(10)) {
      case 0: return change_replicas();
      case 1: return change_health();
      case 2: return dispatcher_.tick(now_ += std::chrono::milliseconds{input_.below(65'536)});
      case 3: return fail();
      case 4: return end(some_open(), ledger::Outcome::kCancelled);
      case 5:
      case 6: return progress();
      default: return arrive();
    }
  }

  void arrive() {
    std::vector<std::uint64_t> keys;
    const std::uint64_t family = input_.below(3);
    for (std::uint64_t i = 0, count = input_.below(6); i < count; ++i) keys.push_back(100 * family + i);
    RequestInfo info;
    info.model = input_.below(16) == 0 ? "unknown" : "m";
    info.tenant = static_cast<std::uint32_t>(input_.below(3));
    info.traffic_class = input_.below(3) == 0 ? admission::Class::kBatch : admission::Class::kInteractive;
    info.text_bytes = 1 + input_.below(65'536);
    if (input_.below(2) == 0) info.max_tokens = static_cast<std::uint32_t>(1 + input_.below(1'000));
    info.stream = input_.below(2) == 0;
    info.keys = keys;
    info.received_at = now_;
    const ArrivalResult result = dispatcher_.arrive(info, *this, now_);
    if (result.refusal) return check(!result.grant && !result.refusal->message.empty());
    check(result.ticket != 0 && open_.emplace(result.ticket, Open{}).second);
    if (result.grant) granted(result.ticket, *result.grant);
  }

  std::map<Ticket, Open>::iterator some_open() {
    if (open_.empty()) return open_.end();
    return std::next(open_.begin(), static_cast<std::ptrdiff_t>(input_.below(open_.size())));
  }

  void progress() {
    const auto at = some_open();
    if (at == open_.end() || !at->second.granted) return;
    if (at->second.answered) return end(at, ledger::Outcome::kCompleted);
    dispatcher_.attempt_ended(at->first, Attempt::kAnswered, now_);
    if (at->second.prefill) {
      const auto grant = dispatcher_.route_decode(at->first, now_);
      if (!grant) return end(at, ledger::Outcome::kFailed);
      return granted(at->first, *grant);
    }
    dispatcher_.answered(at->first, now_);
    at->second.answered = true;
  }

  void fail() {
    const auto at = some_open();
    if (at == open_.end() || !at->second.granted) return;
    dispatcher_.attempt_ended(at->first, input_.below(2) == 0 ? Attempt::kBusy : Attempt::kFaulted, now_);
    const auto grant = at->second.answered ? std::nullopt : dispatcher_.route_again(at->first, now_);
    if (!grant) return end(at, ledger::Outcome::kFailed);
    granted(at->first, *grant);
  }

  void end(std::map<Ticket, Open>::iterator at, ledger::Outcome outcome) {
    if (at == open_.end()) return;
    const Ticket ticket = at->first;
    RequestOutcome ending;
    ending.outcome = outcome;
    if (at->second.answered && input_.below(2) == 0) {
      const auto prompt = static_cast<std::uint32_t>(1 + input_.below(65'536));
      ending.usage = TokenUsage{prompt, static_cast<std::uint32_t>(input_.below(65'536)),
                                static_cast<std::uint32_t>(input_.below(prompt)), true};
    }
    ending.last_token_at = now_;
    dispatcher_.attempt_ended(ticket, Attempt::kAbandoned, now_);
    open_.erase(at);
    dispatcher_.ended(ticket, ending, now_);
    // Calls for a ticket that has ended do nothing.
    dispatcher_.ended(ticket, ending, now_);
    check(!dispatcher_.route_again(ticket, now_));
  }

  void change_replicas() {
    std::vector<ReplicaSpec> specs;
    for (std::uint64_t number = 0; number < 4; ++number) {
      const std::uint64_t kind = input_.below(8);
      if (kind == 0) continue;
      ReplicaSpec spec;
      spec.id = "replica-" + std::to_string(number);
      spec.number = kind == 1 ? number + 100 : number;
      spec.model = "m";
      spec.role = kind == 2 ? signals::Role::kPrefill : kind == 3 ? signals::Role::kDecode : signals::Role::kAggregated;
      spec.phase = kind == 4 ? ReplicaPhase::kDraining : ReplicaPhase::kServing;
      specs.push_back(spec);
    }
    dispatcher_.set_replicas(specs, now_);
  }
  void change_health() {
    const auto slot = dispatcher_.slot_of("replica-" + std::to_string(input_.below(4)));
    if (slot) dispatcher_.set_health(*slot, static_cast<ReplicaHealth>(input_.below(3)), now_);
  }

  void verify() {
    check(dispatcher_.invariant_violation(now_).empty());
    check(dispatcher_.open_requests() == open_.size());
  }

  Input& input_;
  core::Instant now_ = core::kStart;
  Counts counts_;
  Dispatcher dispatcher_;
  std::map<Ticket, Open> open_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{{data, std::min<std::size_t>(size, 4096)}};
  World{input}.run();
  return 0;
}
