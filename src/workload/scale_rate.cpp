// scale_rate: changes the rate of a workload.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>

#include "core/random.h"
#include "workload/assembly.h"
#include "workload/transform.h"

namespace penstock::workload {
namespace {

constexpr core::Duration kDefaultSpread = std::chrono::seconds{30};
constexpr int kDefaultSpreadOfSpan = 100;  // The default spread is at most this fraction of the span.

// Requests that share a prefix are drawn together unless they are more than this fraction of all requests. A larger
// group is drawn by the smaller groups within it, and its prefix is still shared by the remaining requests.
constexpr std::uint64_t kGroupsMin = 100;

// The units by which a share of a workload is drawn: unit_of[i] is the unit of request i; units are numbered in order
// of appearance.
struct Units {
  std::vector<std::uint32_t> unit_of;
  std::vector<std::uint32_t> sizes;  // Requests per unit.
};

Units units_of(const Workload& workload, const CompactIds& compact) {
  // An id identifies a whole prefix, so its count is the number of requests that share the prefix.
  std::vector<std::uint32_t> sharers(compact.bound, 0);
  for (const std::uint32_t id : compact.ids) ++sharers[id];
  const std::uint64_t sharers_max = std::max<std::uint64_t>(workload.requests.size() / kGroupsMin, 1);

  Units units;
  units.unit_of.reserve(workload.requests.size());
  // Sessions and prefixes have separate number ranges.
  constexpr std::uint64_t kSessionBit = std::uint64_t{1} << 32;
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  for (const auto& request : workload.requests) {
    auto unit = static_cast<std::uint32_t>(units.sizes.size());
    if (request.session != kNoSession) {
      unit = known.emplace(kSessionBit | request.session, unit).first->second;
    } else {
      const auto ids = std::span{compact.ids}.subspan(request.first_block, request.block_count);
      const auto group = std::find_if(ids.begin(), ids.end(), [&](auto id) { return sharers[id] <= sharers_max; });
      if (group != ids.end() && sharers[*group] > 1) unit = known.emplace(*group, unit).first->second;
    }
    if (unit == units.sizes.size()) units.sizes.push_back(0);
    ++units.sizes[unit];
    units.unit_of.push_back(unit);
  }
  return units;
}

// Selects units that contain about `share` of the requests.
std::vector<bool> draw_units(const Units& units, double share, core::RandomStream random) {
  std::vector<std::uint32_t> order(units.sizes.size());
  for (std::uint32_t unit = 0; unit < order.size(); ++unit) order[unit] = unit;
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  const double wanted = share * static_cast<double>(units.unit_of.size());
  std::vector<bool> drawn(order.size(), false);
  double taken = 0.0;
  for (const std::uint32_t unit : order) {
    const double half = 0.5 * units.sizes[unit];
    if (taken + half > wanted) break;
    drawn[unit] = true;
    taken += 2.0 * half;
  }
  return drawn;
}

// Shifts all arrivals by one random offset within the spread. Arrivals wrap around the span, so that no request is
// lost.
class Jitter {
 public:
  Jitter(core::Duration span, core::Duration spread, core::RandomStream random) : length_(span.count() + 1) {
    const std::int64_t bound = spread.count();
    shift_ = static_cast<std::int64_t>(random.below(2 * static_cast<std::uint64_t>(bound) + 1)) - bound;
  }
  [[nodiscard]] core::Instant apply(core::Instant arrival) const {
    const std::int64_t moved = (arrival.time_since_epoch().count() + shift_ + length_) % length_;
    return core::Instant{core::Duration{moved}};
  }

 private:
  std::int64_t length_;
  std::int64_t shift_ = 0;
};

}  // namespace

core::Duration spread_of(const RateScale& scale, core::Duration span) {
  return scale.spread.value_or(std::min(kDefaultSpread, span / kDefaultSpreadOfSpan));
}

core::Result<Workload> scale_rate(const Workload& workload, const RateScale& scale, std::uint64_t seed) {
  const double factor = scale.factor;
  const core::Duration spread = spread_of(scale, workload.span());
  if (!(factor > 0.0 && factor <= 1000.0))
    return core::invalid_input(workload.name, fmt::format("a factor of {:g} cannot scale its rate", factor),
                               "use one above 0 and at most 1000");
  if (factor == 1.0) return workload;
  if (spread < core::Duration{} || spread > workload.span() / 2)
    return core::invalid_input(
        workload.name, fmt::format("its copies cannot be moved by {:g} s", core::to_seconds(spread)),
        fmt::format("use a spread of at most half of its {:g} s", core::to_seconds(workload.span())));
  const auto copies = static_cast<std::uint64_t>(factor);
  const double share = factor - static_cast<double>(copies);
  const std::uint64_t all = copies + (share > 0.0 ? 1 : 0);
  const CompactIds compact = compact_ids(workload);
  const std::uint64_t sessions = session_bound(workload);
  const auto fits = check_size(workload.name, all * workload.requests.size(), all * workload.block_ids.size(),
                               all * compact.bound, all * sessions);
  if (!fits) return tl::make_unexpected(fits.error());

  Workload out;
  out.name = workload.name;
  out.block_tokens = workload.block_tokens;
  out.tenants = workload.tenants;
  out.skipped_rows = workload.skipped_rows;
  out.long_gaps = workload.long_gaps;
  out.requests.reserve(all * workload.requests.size());
  out.block_ids.reserve(all * workload.block_ids.size());
  const core::RandomStream random = core::RandomStream{seed}.fork("scale_rate");
  for (std::uint64_t copy = 0; copy < all; ++copy) {
    const bool whole = copy < copies;
    const Units units = whole ? Units{} : units_of(workload, compact);
    const auto drawn = whole ? std::vector<bool>{} : draw_units(units, share, random.fork("share"));
    const Jitter jitter{workload.span(), spread, random.fork("jitter").fork(copy)};
    std::vector<std::uint32_t> places(workload.waits.empty() ? 0 : workload.requests.size(), kNoPlace);
    for (std::size_t index = 0; index < workload.requests.size(); ++index) {
      if (!whole && !drawn[units.unit_of[index]]) continue;
      if (!places.empty()) places[index] = static_cast<std::uint32_t>(out.requests.size());
      Request request = workload.requests[index];
      const auto ids = std::span{compact.ids}.subspan(request.first_block, request.block_count);
      if (copy > 0) request.arrival = jitter.apply(request.arrival);  // The first copy is unchanged.
      if (request.session != kNoSession) request.session += static_cast<std::uint32_t>(copy * sessions);
      append(out, request, ids, copy * compact.bound);
    }
    append_waits(out, workload.waits, places);
  }
  if (out.requests.empty())
    return core::invalid_input(
        workload.name, fmt::format("a factor of {:g} leaves none of its {} requests", factor, workload.requests.size()),
        "use a larger one");
  sort_by_arrival(out);
  return out;
}

}  // namespace penstock::workload
