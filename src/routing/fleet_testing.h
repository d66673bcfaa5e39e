// A small fleet behind an endpoint picker, for tests: its engines prefill in chunks, decode in batches and cache
// prefixes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "routing/endpoint_picker.h"
#include "routing/recent_keys.h"

namespace penstock::routing {

// An engine iteration computes up to 2,048 prompt tokens in order of arrival and one token for each running sequence.
struct TestEngine {
  struct Request {
    std::vector<std::uint64_t> keys;
    std::uint32_t input_tokens = 0;
    std::uint32_t output_tokens = 0;
    std::uint32_t output_left = 0;
    std::uint64_t affinity = 0;
    core::Instant arrived_at{};
    Selection selection{};
    double prefill_left = 0.0;
    double ttft_ms = 0.0;
  };

  double tokens_per_s = 8000.0;
  double iteration_ms = 5.0;
  double sequence_ms = 0.15;
  std::uint32_t cache_keys = 4096;
  core::Instant now{};  // End of the current iteration.
  std::deque<Request> waiting;
  std::vector<Request> running;
  RecentKeys cache;
  std::uint64_t hit_keys = 0, requested_keys = 0, served = 0;

  void arrive(Request request, std::uint32_t key_tokens) {
    std::uint32_t held = 0;
    while (held < request.keys.size() && cache.find(request.keys[held]) != RecentKeys::kNone) ++held;
    hit_keys += held;
    requested_keys += request.keys.size();
    request.prefill_left = std::max(1.0, 1.0 * request.input_tokens - 1.0 * held * key_tokens);
    for (std::size_t i = request.keys.size(); i-- > 0;) {
      if (const auto node = cache.find(request.keys[i]); node != RecentKeys::kNone) {
        cache.touch(node);
      } else {
        if (cache.size() >= cache_keys) cache.erase(cache.oldest());
        cache.insert(request.keys[i]);
      }
    }
    waiting.push_back(std::move(request));
  }

  [[nodiscard]] bool idle() const { return waiting.empty() && running.empty(); }

  void step(const std::function<void(Request&)>& first_token, const std::function<void(Request&)>& finished) {
    double budget = 2048.0;
    std::vector<Request> answered;
    while (!waiting.empty() && budget > 0.0) {
      const double part = std::min(budget, waiting.front().prefill_left);
      budget -= part;
      waiting.front().prefill_left -= part;
      if (waiting.front().prefill_left > 0.0) break;
      answered.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    now += core::from_milliseconds(iteration_ms + (2048.0 - budget) / tokens_per_s * 1e3 +
                                   sequence_ms * static_cast<double>(running.size()));
    for (Request& request : running) --request.output_left;
    const auto ended = std::stable_partition(running.begin(), running.end(),
                                             [](const Request& request) { return request.output_left > 0; });
    std::vector<Request> done(std::make_move_iterator(ended), std::make_move_iterator(running.end()));
    running.erase(ended, running.end());
    for (Request& request : answered) {
      request.ttft_ms = core::to_milliseconds(now - request.arrived_at);
      first_token(request);
      running.push_back(std::move(request));
    }
    for (Request& request : done) finished(request);
    served += done.size();
  }
};

class TestFleet {
 public:
  using Choose = std::function<Selection(const PickRequest&, core::Instant)>;
  static constexpr std::uint32_t kKeyTokens = 256;

  TestFleet(std::uint32_t replicas, EndpointPicker& picker) : engines(replicas), picker_(picker) {
    for (std::uint32_t slot = 0; slot < replicas; ++slot) {
      picker.add(slot, core::kStart);
      picker.set_capacity(slot, engines[slot].cache_keys);
    }
    choose = [&](const PickRequest& request, core::Instant at) { return *picker.choose(request, at); };
  }

  // Runs the engines up to `until` and then sets the clock to `until`.
  void run_to(core::Instant until) {
    for (;;) {
      // The engine with the earliest time steps first, so that reports arrive in order of time.
      std::uint32_t next = 0;
      core::Instant earliest = core::kNever;
      for (std::uint32_t slot = 0; slot < engines.size(); ++slot)
        if (!engines[slot].idle() && engines[slot].now < earliest) {
          earliest = engines[slot].now;
          next = slot;
        }
      if (earliest >= until) break;
      step(next);
    }
    now = std::max(now, until);
  }

  void send(TestEngine::Request request) {
    const PickRequest pick{.keys = request.keys,
                           .input_tokens = request.input_tokens,
                           .key_tokens = kKeyTokens,
                           .affinity = request.affinity,
                           .output_tokens = request.output_tokens};
    request.selection = choose(pick, now);
    request.arrived_at = now;
    picker_.dispatched(pick, request.selection, now);
    TestEngine& engine = engines[request.selection.slot];
    if (engine.idle()) engine.now = now;
    ++sent[request.selection.slot];
    request.output_left = request.output_tokens;
    engine.arrive(std::move(request), kKeyTokens);
  }

  [[nodiscard]] double mean_ttft_ms() const { return answered_ == 0 ? 0.0 : ttft_ms_ / static_cast<double>(answered_); }
  [[nodiscard]] double hit_rate() const {
    std::uint64_t hits = 0, requested = 0;
    for (const TestEngine& engine : engines) {
      hits += engine.hit_keys;
      requested += engine.requested_keys;
    }
    return requested == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(requested);
  }

  std::vector<TestEngine> engines;
  Choose choose;
  std::function<void(const TestEngine::Request&)> ended = [](const TestEngine::Request&) {};
  core::Instant now{};
  std::vector<std::uint64_t> sent = std::vector<std::uint64_t>(engines.size());

 private:
  void step(std::uint32_t slot) {
    TestEngine& engine = engines[slot];
    engine.step(
        [&](TestEngine::Request& request) {
          ttft_ms_ += request.ttft_ms;
          ++answered_;
          picker_.first_token(slot, request.selection.uncached_tokens, engine.now - request.arrived_at, engine.now);
        },
        [&](TestEngine::Request& request) {
          picker_.finished(slot, request.selection.uncached_tokens, request.input_tokens, request.output_tokens, true);
          ended(request);
        });
  }

  EndpointPicker& picker_;
  double ttft_ms_ = 0.0;
  std::uint64_t answered_ = 0;
};

}  // namespace penstock::routing
