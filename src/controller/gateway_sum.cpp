#include "controller/gateway_sum.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace penstock::controller {
namespace {

// A replica that one gateway still uses is in use.
int use_of(std::string_view phase) { return phase == "serving" ? 2 : phase == "draining" ? 1 : 0; }

void add_replica(const GatewayReplica& replica, GatewayReplica& sum) {
  sum.open_requests += replica.open_requests;
  sum.open_transfers += replica.open_transfers;
  sum.eligible = sum.eligible || replica.eligible;
  sum.healthy = sum.healthy || replica.healthy;
  if (use_of(replica.phase) > use_of(sum.phase)) sum.phase = replica.phase;
  if (sum.model.empty()) sum.model = replica.model;
  if (sum.fpm.empty()) sum.fpm = replica.fpm;
  sum.workers = std::max(sum.workers, replica.workers);
}

template <class Key>
void add_waiting(const std::map<Key, GatewayWaiting>& waiting, std::map<Key, GatewayWaiting>& sums) {
  for (const auto& [key, each] : waiting) {
    GatewayWaiting& sum = sums[key];
    sum.requests += each.requests;
    sum.oldest_s = std::max(sum.oldest_s, each.oldest_s);
  }
}

void add_deferral(const GatewayDeferral& deferral, std::optional<GatewayDeferral>& sum) {
  if (!sum) sum.emplace();
  sum->requests += deferral.requests;
  if (deferral.next_due_s) sum->next_due_s = std::min(*deferral.next_due_s, sum->next_due_s.value_or(1e9));
  sum->deferred_total += deferral.deferred_total;
  sum->sent_spare_total += deferral.sent_spare_total;
  sum->sent_due_total += deferral.sent_due_total;
  sum->missed_total += deferral.missed_total;
}

}  // namespace

GatewayState sum_of(std::span<const GatewayState* const> gateways) {
  if (gateways.size() == 1) return *gateways.front();
  GatewayState sum;
  for (const GatewayState* gateway : gateways) {
    sum.boot += (sum.boot.empty() ? "" : "+") + gateway->boot;
    for (const auto& [id, replica] : gateway->replicas)
      if (const auto [known, is_new] = sum.replicas.try_emplace(id, replica); !is_new)
        add_replica(replica, known->second);
    add_waiting(gateway->waiting_by_model, sum.waiting_by_model);
    add_waiting(gateway->waiting_by_pool, sum.waiting_by_pool);
    sum.refused_total += gateway->refused_total;
    if (gateway->deferral) add_deferral(*gateway->deferral, sum.deferral);
  }
  return sum;
}

std::vector<GatewayPrefix> sum_of(std::span<const std::vector<GatewayPrefix>* const> prefixes) {
  if (prefixes.size() == 1) return *prefixes.front();
  using Prefix = std::tuple<std::string, std::string, std::string>;
  std::map<Prefix, GatewayPrefix> sums;
  for (const std::vector<GatewayPrefix>* of_gateway : prefixes)
    for (const GatewayPrefix& prefix : *of_gateway) {
      const auto [known, is_new] = sums.try_emplace({prefix.model, prefix.path, prefix.body}, prefix);
      if (!is_new) known->second.hits += prefix.hits;
    }
  std::vector<GatewayPrefix> all;
  for (auto& [prefix, sum] : sums) all.push_back(std::move(sum));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.hits > b.hits; });
  return all;
}

void GatewayTotals::take(const GatewayState& gateway) {
  const GatewayDeferral deferral = gateway.deferral.value_or(GatewayDeferral{});
  const Counts counts = {gateway.refused_total, deferral.deferred_total, deferral.sent_spare_total,
                         deferral.sent_due_total, deferral.missed_total};
  auto known = std::find_if(last_.begin(), last_.end(), [&](const auto& each) { return each.first == gateway.boot; });
  if (known == last_.end()) {
    if (last_.size() == kGatewaysMax) last_.erase(last_.begin());
    known = last_.emplace(last_.end(), gateway.boot, Counts{});
  }
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > known->second[i]) sum_[i] += counts[i] - std::exchange(known->second[i], counts[i]);
  std::rotate(known, known + 1, last_.end());
}

void GatewayTotals::put_into(GatewayState& state) const {
  state.refused_total = sum_[0];
  if (!state.deferral) return;
  state.deferral->deferred_total = sum_[1];
  state.deferral->sent_spare_total = sum_[2];
  state.deferral->sent_due_total = sum_[3];
  state.deferral->missed_total = sum_[4];
}

}  // namespace penstock::controller
