#include "load/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "options/scalars.h"
#include "report/format.h"

namespace penstock::load {
namespace {

using Kind = Expectation::Kind;

constexpr std::array<std::string_view, 7> kLatencies = {"ttft",    "itl",     "tpot",      "gap",
                                                        "max_gap", "latency", "first_byte"};
constexpr std::array<std::string_view, 6> kCounts = {"errors",    "failed",  "truncated",
                                                     "timed_out", "refused", "cancelled"};
constexpr std::array<std::string_view, 2> kRates = {"rate", "tokens"};

template <std::size_t N>
bool has(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "p95" → 0.95; 1 is the maximum, -1 the mean.
std::optional<double> statistic_of(std::string_view word) {
  if (word == "mean") return -1.0;
  if (word == "max") return 1.0;
  if (!word.starts_with('p')) return std::nullopt;
  const auto percent = options::parse_number(word.substr(1), 0.0, 99.999);
  if (!percent) return std::nullopt;
  return *percent / 100.0;
}

struct LatencyName {
  std::string_view what;
  double statistic = 0.0;
};
std::optional<LatencyName> latency_of(std::string_view name) {
  const std::size_t cut = name.rfind('_');
  if (cut == std::string_view::npos || !has(kLatencies, name.substr(0, cut))) return std::nullopt;
  const auto statistic = statistic_of(name.substr(cut + 1));
  if (!statistic) return std::nullopt;
  return LatencyName{name.substr(0, cut), *statistic};
}

core::Error unknown_name(std::string_view name) {
  std::vector<std::string_view> names = {"ttft_p95",    "itl_p95",     "tpot_p95",      "gap_p99",
                                         "max_gap_p99", "latency_p95", "first_byte_p95"};
  names.insert(names.end(), kCounts.begin(), kCounts.end());
  names.insert(names.end(), kRates.begin(), kRates.end());
  const std::string close = options::suggestion(name, names);
  return {core::ErrorCode::kInvalidInput,
          {},
          "unknown metric " + options::quote(name),
          (close.empty() ? "" : close + " ") + "there are " + options::choices(names) +
              ", and any percentile, _mean or _max of the latencies"};
}

core::Result<Expectation> parse_one(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos)
    return core::invalid_input({}, options::quote(word) + " has no limit", "write ttft_p95=2s or errors=0");
  Expectation expectation{word.substr(0, equals), word.substr(equals + 1)};
  const auto put = [&](Kind kind, const core::Result<double>& bound) -> core::Result<Expectation> {
    if (!bound) return core::invalid_input({}, expectation.name + ": " + bound.error().message());
    expectation.kind = kind;
    expectation.bound = *bound;
    return expectation;
  };
  constexpr double kMany = 1e12;
  if (latency_of(expectation.name))
    return put(Kind::kLatency, options::parse_duration(expectation.limit).map(core::to_milliseconds));
  if (has(kCounts, expectation.name)) {
    if (expectation.limit.ends_with('%')) return put(Kind::kShare, options::parse_share(expectation.limit));
    return put(Kind::kCount, options::parse_count(expectation.limit, 0, 1'000'000'000'000).map([](std::uint64_t count) {
      return static_cast<double>(count);
    }));
  }
  if (has(kRates, expectation.name)) return put(Kind::kRate, options::parse_number(expectation.limit, 0.0, kMany));
  return tl::make_unexpected(unknown_name(expectation.name));
}

const core::QuantileSketch& sketch_of(std::string_view what, const Tally& tally) {
  if (what == "ttft") return tally.all().ttft_ms;
  // The mean gap of each request is what vLLM's benchmark calls TPOT.
  if (what == "itl" || what == "tpot") return tally.all().itl_ms;
  if (what == "gap") return tally.gaps_ms();
  if (what == "max_gap") return tally.max_gaps_ms();
  if (what == "latency") return tally.all().latency_ms;
  return tally.first_byte_ms();
}

Verdict check_latency(const Expectation& expectation, const Tally& tally) {
  Verdict verdict{expectation.name, expectation.limit, "nothing measured"};
  const auto name = latency_of(expectation.name);
  const core::QuantileSketch& sketch = sketch_of(name->what, tally);
  if (sketch.count() == 0) return verdict;
  const double measured = name->statistic < 0.0    ? sketch.mean()
                          : name->statistic == 1.0 ? sketch.max()
                                                   : sketch.quantile(name->statistic);
  verdict.measured = report::format_milliseconds(measured);
  verdict.is_met = measured <= expectation.bound;
  return verdict;
}

std::uint64_t count_of(std::string_view name, const Figures& figures) {
  if (name == "errors") return figures.errors();
  if (name == "failed") return figures.of(Outcome::kFailed);
  if (name == "truncated") return figures.of(Outcome::kTruncated);
  if (name == "timed_out") return figures.of(Outcome::kTimedOut);
  return figures.of(name == "refused" ? Outcome::kRefused : Outcome::kCancelled);
}

// All requests that ended, also those that the client cancelled.
std::uint64_t all_of(const Figures& figures) { return figures.ended() + figures.of(Outcome::kCancelled); }

Verdict check_count(const Expectation& expectation, const Figures& figures) {
  const std::uint64_t count = count_of(expectation.name, figures);
  Verdict verdict{expectation.name, expectation.limit, report::format_count(count)};
  if (expectation.kind == Kind::kCount) {
    verdict.is_met = static_cast<double>(count) <= expectation.bound;
  } else {
    const double share = static_cast<double>(count) / static_cast<double>(all_of(figures));
    verdict.measured = report::format_share(share);
    verdict.is_met = share <= expectation.bound;
  }
  return verdict;
}

double per_s(std::uint64_t count, const Tally& tally) {
  const double span_s = core::to_seconds(tally.last_end());
  return span_s > 0.0 ? static_cast<double>(count) / span_s : 0.0;
}

}  // namespace

core::Result<std::vector<Expectation>> parse_expectations(std::string_view text) {
  const auto words = options::parse_list(text);
  if (!words) return tl::make_unexpected(words.error());
  std::vector<Expectation> expectations;
  for (const std::string& word : *words) {
    auto expectation = parse_one(word);
    if (!expectation) return tl::make_unexpected(expectation.error());
    expectations.push_back(*std::move(expectation));
  }
  return expectations;
}

std::vector<Verdict> check_expectations(const std::vector<Expectation>& expectations, const Tally& tally) {
  std::vector<Verdict> verdicts;
  for (const Expectation& expectation : expectations) {
    if (all_of(tally.all()) == 0) {
      verdicts.push_back({expectation.name, expectation.limit, "no request was measured"});
    } else if (expectation.kind == Kind::kLatency) {
      verdicts.push_back(check_latency(expectation, tally));
    } else if (expectation.kind == Kind::kRate) {
      const double measured = expectation.name == "rate" ? ok_per_s(tally) : tokens_per_s(tally);
      verdicts.push_back(
          {expectation.name, expectation.limit, report::format_quantity(measured), measured >= expectation.bound});
    } else {
      verdicts.push_back(check_count(expectation, tally.all()));
    }
  }
  return verdicts;
}

double ok_per_s(const Tally& tally) { return per_s(tally.all().of(Outcome::kOk), tally); }
double tokens_per_s(const Tally& tally) { return per_s(tally.all().tokens_out, tally); }

}  // namespace penstock::load
