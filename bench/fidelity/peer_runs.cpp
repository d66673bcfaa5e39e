#include "fidelity/peer_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace penstock::fidelity {

using namespace simulation;
namespace {

constexpr std::array<std::string_view, 11> kPeerColumns = {
    "work",        "router",           "replicas",       "requests",       "ttft_mean_ms",      "itl_mean_ms",
    "ttft_p99_ms", "prefix_hit_ratio", "slo_attainment", "requests_per_s", "requests_per_cpu_s"};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

bool read_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(number) && number >= 0.0;
}

core::Result<PeerRun> parse_row(std::string where, std::string_view line) {
  const auto cells = split(line, ',');
  if (cells.size() != kPeerColumns.size())
    return core::invalid_input(std::move(where),
                               fmt::format("has {} columns instead of {}", cells.size(), kPeerColumns.size()));
  PeerRun peer;
  peer.work = cells[0];
  bool known = false;
  for (const auto router : {routing::Strategy::kKv, routing::Strategy::kRoundRobin, routing::Strategy::kLeastLoaded,
                            routing::Strategy::kPowerOfTwo})
    if (cells[1] == to_string(router)) {
      peer.router = router;
      known = true;
    }
  if (!known) return core::invalid_input(std::move(where), fmt::format("there is no router '{}'", cells[1]));
  double replicas = 0.0, requests = 0.0;
  const std::array<double*, 9> numbers = {&replicas,
                                          &requests,
                                          &peer.ttft_mean_ms,
                                          &peer.itl_mean_ms,
                                          &peer.ttft_p99_ms,
                                          &peer.prefix_hit_ratio,
                                          &peer.slo_attainment,
                                          &peer.requests_per_s,
                                          &peer.requests_per_cpu_s};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == &peer.slo_attainment && cells[i + 2].empty()) continue;
    if (!read_number(cells[i + 2], *numbers[i]))
      return core::invalid_input(std::move(where),
                                 fmt::format("{} is '{}', not a number", kPeerColumns[i + 2], cells[i + 2]));
  }
  if (replicas < 1.0 || replicas > 10'000.0)
    return core::invalid_input(std::move(where), fmt::format("{} replicas", cells[2]));
  peer.replicas = static_cast<std::uint32_t>(replicas);
  return peer;
}

double relative(double ours, double theirs) { return 100.0 * (ours / theirs - 1.0); }

// Largest differences of the runs with one router.
struct Worst {
  double mean = 0.0, points = 0.0;  // In % and percentage points.
};

core::Result<decision::RunResult> run_as(const PeerWork& work, const PeerRun& peer) {
  RunOptions same = work.options;
  same.router = peer.router;
  same.pools.front().replicas = peer.replicas;
  same.pools.front().max_replicas = std::max(peer.replicas, same.pools.front().max_replicas);
  auto policy = planner::make_policy("static", {});
  if (!policy) return tl::make_unexpected(policy.error());
  return run(work.workload, **policy, same);
}

std::string row_of(const PeerRun& theirs, const decision::RunResult& ours, Worst& worst) {
  const double ttft = relative(ours.ttft_ms.mean, theirs.ttft_mean_ms);
  const double itl = relative(ours.itl_ms.mean, theirs.itl_mean_ms);
  worst.mean = std::max({worst.mean, std::abs(ttft), std::abs(itl)});
  std::string attainment = "– | – | –";
  if (theirs.slo_attainment >= 0.0) {
    const double points = 100.0 * (ours.slo_attainment - theirs.slo_attainment);
    worst.points = std::max(worst.points, std::abs(points));
    attainment = fmt::format("{:.1f} % | {:.1f} % | {:+.1f}", 100.0 * theirs.slo_attainment,
                             100.0 * ours.slo_attainment, points);
  }
  return fmt::format(
      "| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} | {:.2f} | {:.2f} | {:+.1f} | {:.0f} | {:.0f} | {:+.1f} | {:.1f} % | "
      "{:.1f} % | {} |\n",
      theirs.work, to_string(theirs.router), theirs.replicas, theirs.ttft_mean_ms, ours.ttft_ms.mean, ttft,
      theirs.itl_mean_ms, ours.itl_ms.mean, itl, theirs.ttft_p99_ms, ours.ttft_ms.p99,
      relative(ours.ttft_ms.p99, theirs.ttft_p99_ms), 100.0 * theirs.prefix_hit_ratio, 100.0 * ours.prefix_hit_ratio,
      attainment);
}

}  // namespace

core::Result<std::vector<PeerRun>> parse_peer_runs(std::string_view name, std::string_view csv) {
  std::vector<PeerRun> runs;
  std::size_t number = 0;
  for (std::string_view line : split(csv, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}:{}", name, number);
    if (number == 1) {
      if (line != fmt::format("{}", fmt::join(kPeerColumns, ",")))
        return core::invalid_input(where, "the header is another one",
                                   fmt::format("it must be {}", fmt::join(kPeerColumns, ",")));
      continue;
    }
    if (line.empty()) continue;
    auto peer = parse_row(where, line);
    if (!peer) return tl::make_unexpected(peer.error());
    runs.push_back(*std::move(peer));
  }
  return runs;
}

core::Result<std::string> compare_with_peer(const std::vector<PeerWork>& works, const std::vector<PeerRun>& peer) {
  std::string text =
      "| work | router | replicas | mean TTFT ms | | | mean ITL ms | | | p99 TTFT ms | | | prefix hits | | SLO "
      "attainment | | |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
      "| | | | Dynamo | Penstock | Δ % | Dynamo | Penstock | Δ % | Dynamo | Penstock | Δ % | Dynamo | Penstock | "
      "Dynamo "
      "| Penstock | Δ points |\n";
  Worst round_robin, kv;
  for (const PeerRun& theirs : peer) {
    const auto work =
        std::find_if(works.begin(), works.end(), [&](const PeerWork& one) { return one.name == theirs.work; });
    if (work == works.end()) continue;
    const auto ours = run_as(*work, theirs);
    if (!ours) return tl::make_unexpected(ours.error());
    Worst& worst = theirs.router == routing::Strategy::kRoundRobin ? round_robin : kv;
    text += row_of(theirs, *ours, worst);
  }
  for (const auto& [name, worst] : {std::pair{"round robin", round_robin}, std::pair{"the KV router", kv}})
    text +=
        fmt::format("\nUnder {} the largest difference of a mean is {:.1f} %, of the SLO attainment {:.1f} points.\n",
                    name, worst.mean, worst.points);
  return text;
}

core::Result<std::string> section_of(std::string_view page, std::string_view where, std::string_view heading) {
  const std::string line = fmt::format("\n## {}\n", heading);
  const std::size_t begin = page.find(line);
  if (begin == std::string_view::npos)
    return core::invalid_input(std::string{where}, fmt::format("has no section '{}'", heading));
  const std::size_t end = page.find("\n## ", begin + line.size());
  return std::string{page.substr(begin, std::min(end, page.size() - 1) - begin)};
}

}  // namespace penstock::fidelity
