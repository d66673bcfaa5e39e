// The requests of engines that no gateway reports, made from the differences of their metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/gateway_feed.h"
#include "core/time.h"
#include "telemetry/adapters.h"
#include "telemetry/histogram.h"

namespace penstock::controller {

// Metrics count requests and do not name them. Their numbers are exact: as many requests end as the counters say, and
// as many arrive as explains the change of those that wait and run. Lengths and latencies are drawn from the histograms
// of the engine, in a fixed sequence, so that equal scrapes make equal requests. There are no tenants, and a prompt has
// the share of cached tokens that the engine reports. Times are within the interval of two scrapes.
//
// An engine that restarts, or is not read for more than a minute, gives no traffic for that time. Requests that were
// open when it was read first are never reported, and neither are those whose length is not known yet.
class EngineTraffic {
 public:
  // Tokens that one key of a prefix stands for.
  static constexpr std::uint32_t kKeyTokens = 256;

  // The scrapes of each engine in their order; one that is not newer than the last is ignored.
  void observe(const std::string& engine, const telemetry::EngineScrape& scrape, core::Instant at);
  // It is not observed any more.
  void forget(const std::string& engine, core::Instant at);
  // The events since the last call, in the order of their times.
  [[nodiscard]] std::vector<TrafficItem> take();

 private:
  struct Open {
    std::uint64_t request = 0;
    std::uint32_t input_tokens = 0, cached_tokens = 0;
    core::Instant latest;  // Its last event.
    bool answered = false;
  };
  struct Read {
    telemetry::EngineScrape scrape;
    core::Instant at;
  };
  // Lengths of prompts or answers.
  struct Lengths {
    Lengths() = default;
    explicit Lengths(telemetry::Histogram lengths);
    std::optional<telemetry::Histogram> spread;  // Of recent requests; empty: the engine has none.
    double mean = 0.0, scale = 1.0;              // `scale` corrects the mean of what the buckets give.
    [[nodiscard]] std::uint32_t draw(double share) const;
  };
  struct Engine {
    std::deque<Read> reads;  // The latest, and earlier ones at intervals, at most kLengthsOver old.
    std::deque<Open> open;   // In the order of arrival.
    // Requests that are open and not reported, and those of them that have no first token yet.
    std::uint64_t unreported = 0, unreported_waiting = 0;
    std::uint64_t drawn = 0;
  };
  struct Interval {
    core::Instant from, to;
    // Of `count` events that are spread over it.
    [[nodiscard]] core::Instant time_of(std::uint64_t index, std::uint64_t count) const;
  };

  void begin(Engine& engine, const telemetry::EngineScrape& scrape);
  void give_up(Engine& engine, std::uint64_t count, const std::string& name, core::Instant at);
  void arrive(Engine& engine, const telemetry::EngineScrape& now, std::uint64_t count, const Interval& interval);
  void answer(Engine& engine, const telemetry::EngineScrape& now, const Interval& interval);
  void end(Engine& engine, const std::string& name, const telemetry::EngineScrape& now, const Interval& interval);
  void first_token(Open& open, double ttft_s, core::Instant at);
  [[nodiscard]] static Lengths lengths_of(const Engine& engine, const telemetry::EngineScrape& now, bool prompts);
  [[nodiscard]] static Lengths answer_lengths(const Engine& engine, const telemetry::EngineScrape& now);
  [[nodiscard]] static double cached_share(const Engine& engine, const telemetry::EngineScrape& now);
  [[nodiscard]] static double next_share(Engine& engine);
  TrafficItem& add(TrafficItem::Kind kind, std::uint64_t request, core::Instant at);

  std::map<std::string, Engine> engines_;
  std::vector<TrafficItem> items_;
  std::uint64_t next_request_ = 1;
};

}  // namespace penstock::controller
