// Random call sequences: the picker's accounting matches a simple model, and an ineligible replica is never chosen.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "routing/endpoint_picker.h"

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;

struct Open {
  std::uint32_t slot, uncached, input, output;
  core::Instant at;
  bool answered = false;
};

class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed), picker_(options(), core::RandomStream{seed}.fork("picker")) {}

  void step() {
    now_ += core::from_milliseconds(random_.exponential(20.0));
    const auto slot = static_cast<std::uint32_t>(random_.below(kSlots));
    const bool known = known_.count(slot) != 0;
    switch (random_.below(16)) {
      case 0: return known ? forget(slot) : add(slot);
      case 1: {
        const bool eligible = random_.below(3) != 0;
        picker_.set_eligible(slot, eligible, now_);
        if (known) known_[slot] = eligible;
        return;
      }
      case 2: return picker_.busy(slot, now_, 500ms);
      case 3: return hear(slot);
      case 4: return event(slot);
      case 5:
      case 6:
      case 7: return answer();
      case 8:
      case 9:
      case 10: return end();
      default: return send();
    }
  }

  void check() {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      std::uint32_t requests = 0;
      std::uint64_t prefill = 0, context = 0;
      for (const Open& open : open_) {
        if (open.slot != slot) continue;
        ++requests;
        prefill += open.answered ? 0 : open.uncached;
        context += open.input + open.output;
      }
      const EndpointPicker::Load load = picker_.load(slot, now_);
      ASSERT_EQ(load.open_requests, requests);
      ASSERT_EQ(load.prefill_tokens, prefill);
      ASSERT_EQ(load.context_tokens, context);
      ASSERT_EQ(load.eligible, known_.count(slot) != 0 && known_[slot]);
      ASSERT_LE(load.keys, load.by_events ? 4 * kCapacity : kCapacity);
    }
  }

  std::vector<std::uint32_t> chosen;

 private:
  static constexpr std::uint32_t kSlots = 9, kCapacity = 50;

  static EndpointPickerOptions options() {
    EndpointPickerOptions options;
    options.keys_per_replica = kCapacity;
    options.sessions = 8;
    return options;
  }

  void add(std::uint32_t slot) {
    picker_.add(slot, now_, 0.5 + random_.uniform());
    known_[slot] = true;
  }

  void forget(std::uint32_t slot) {
    picker_.forget(slot);
    known_.erase(slot);
    open_.erase(std::remove_if(open_.begin(), open_.end(), [&](const Open& open) { return open.slot == slot; }),
                open_.end());
  }

  void hear(std::uint32_t slot) {
    ReportedLoad report{.at = now_ - 100ms,
                        .waiting = static_cast<std::uint32_t>(random_.below(5)),
                        .running = static_cast<std::uint32_t>(random_.below(20)),
                        .waiting_prefill_tokens = {},
                        .kv_usage = {}};
    if (random_.below(2) == 0) report.waiting_prefill_tokens = random_.below(30'000);
    if (random_.below(2) == 0) report.kv_usage = random_.uniform();
    picker_.report_load(slot, report);
  }

  void event(std::uint32_t slot) {
    const std::uint64_t key = random_.below(300);
    switch (slot % 3 == 0 ? random_.below(20) : 99) {  // The other slots never publish events.
      case 0: return picker_.cleared(slot);
      case 1:
      case 2:
      case 3: return picker_.removed(slot, key);
      case 99: return;
      default: return picker_.stored(slot, key);
    }
  }

  void send() {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = random_.below(10) * 30, end = key + random_.below(30); key < end; ++key)
      keys.push_back(key);
    std::vector<std::uint32_t> without;
    for (std::uint64_t i = random_.below(4); i > 0; --i)
      without.push_back(static_cast<std::uint32_t>(random_.below(kSlots + 3)));
    const PickRequest request{.keys = keys,
                              .input_tokens = static_cast<std::uint32_t>(keys.size() * 256 + random_.below(256)),
                              .affinity = random_.below(20),
                              .output_tokens = static_cast<std::uint32_t>(random_.below(500)),
                              .without = without};
    const auto excluded = [&](std::uint32_t slot) {
      return std::find(without.begin(), without.end(), slot) != without.end();
    };
    const auto selection = picker_.choose(request, now_);
    const bool can = std::any_of(known_.begin(), known_.end(),
                                 [&](const auto& entry) { return entry.second && !excluded(entry.first); });
    ASSERT_EQ(selection.has_value(), can);
    if (!selection) return;
    ASSERT_TRUE(known_.count(selection->slot) != 0 && known_[selection->slot]);
    ASSERT_FALSE(excluded(selection->slot));
    ASSERT_LE(selection->overlap_keys, keys.size());
    ASSERT_LE(selection->uncached_tokens, request.input_tokens);
    ASSERT_GE(selection->expected_ttft_ms, 0.0);
    chosen.push_back(selection->slot);
    if (random_.below(8) == 0) return;  // The request was refused after the choice.
    picker_.dispatched(request, *selection, now_);
    open_.push_back({selection->slot, selection->uncached_tokens, request.input_tokens, request.output_tokens, now_});
  }

  void answer() {
    if (open_.empty()) return;
    Open& open = open_[random_.below(open_.size())];
    if (open.answered) return;
    open.answered = true;
    picker_.first_token(open.slot, open.uncached, now_ - open.at, now_);
  }

  void end() {
    if (open_.empty()) return;
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(random_.below(open_.size()));
    picker_.finished(at->slot, at->uncached, at->input, at->output, at->answered);
    open_.erase(at);
  }

  core::RandomStream random_;
  EndpointPicker picker_;
  core::Instant now_ = core::kStart + 1s;
  std::map<std::uint32_t, bool> known_;  // Maps each slot to its eligibility.
  std::vector<Open> open_;
};

TEST(EndpointPickerProperty, AccountingMatchesTheModelAndIneligibleReplicasAreNotChosen) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Life life{seed};
    for (int i = 0; i < 4'000; ++i) {
      life.step();
      if (i % 16 == 0) life.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    EXPECT_GT(life.chosen.size(), 500U);
  }
}

// As many prompts of 1 to 10 s as there are replicas, sent within a second, in any order of lengths.
TEST(EndpointPickerProperty, LongPromptsDoNotShareAReplicaWhileAnotherIsIdle) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    core::RandomStream random{seed};
    EndpointPicker picker{{}, random.fork("picker")};
    const auto replicas = static_cast<std::uint32_t>(2 + random.below(15));
    for (std::uint32_t slot = 0; slot < replicas; ++slot) picker.add(slot, core::kStart);
    std::vector<int> sent(replicas);
    core::Instant now = core::kStart + 1000s;
    for (std::uint32_t i = 0; i < replicas; ++i, now += 1s / replicas) {
      PickRequest request;
      request.input_tokens = static_cast<std::uint32_t>(8'000 + random.below(72'000));
      const auto selection = picker.choose(request, now);
      ASSERT_TRUE(selection);
      picker.dispatched(request, *selection, now);
      ++sent[selection->slot];
    }
    EXPECT_EQ(sent, std::vector<int>(replicas, 1)) << "seed " << seed;
  }
}

TEST(EndpointPickerProperty, TheSameCallsAndSeedGiveTheSameChoices) {
  Life one{3}, two{3}, other{4};
  for (int i = 0; i < 4'000; ++i) {
    one.step();
    two.step();
    other.step();
  }
  EXPECT_EQ(one.chosen, two.chosen);
  EXPECT_NE(one.chosen, other.chosen);
}

}  // namespace
}  // namespace penstock::routing
