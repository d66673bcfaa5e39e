// The state of a dispatcher, for those who watch it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "dispatch/dispatcher.h"

namespace penstock::dispatch {
namespace {

std::optional<double> tenant_saturation(const Tenant& tenant, double available_tokens, std::uint32_t running) {
  std::optional<double> most;
  const auto consider = [&](double share) { most = std::clamp(std::max(share, most.value_or(0.0)), 0.0, 1.0); };
  if (tenant.budget.limited()) consider(1.0 - available_tokens / tenant.budget.capacity());
  if (tenant.concurrent > 0) consider(static_cast<double>(running) / static_cast<double>(tenant.concurrent));
  return most;
}

// The latencies of each model, and what waits for its replicas, in total and by pool.
void add_models(const TrafficFeed& feed, const admission::AdmissionController& admission,
                const std::vector<PoolRule>& pools, const std::vector<std::string>& tenants, Overview& seen) {
  for (std::uint32_t number = 0; number < feed.meters().size(); ++number) {
    const TrafficFeed::ModelMeters& meters = *feed.meters()[number];
    ModelStatus& model = seen.models.emplace_back();
    model.model = meters.model;
    model.detail = meters.segments.read(seen.now, tenants);
    model.ttft_ms = meters.ttft_ms;
    model.itl_ms = meters.itl_ms;
    for (std::uint32_t pool = 0; pool <= pools.size(); ++pool) {
      const std::uint32_t queue = queue_number(pools, number, pool);
      const admission::AdmissionController::QueueDepth depth = admission.waiting_for_room(queue);
      model.waiting_by_pool.push_back(depth.requests);
      model.oldest_by_pool.push_back(depth.oldest);
      model.waiting_for_room += depth.requests;
      model.oldest_for_room = std::min(model.oldest_for_room, depth.oldest);
      seen.waiting_tokens += admission.waiting_tokens(queue);
    }
  }
}

void add_counters(const Counters& counters, Overview& seen) {
  seen.deferral = counters.deferral;
  seen.granted_total = counters.granted;
  seen.refused_total = counters.refused;
  seen.retried_total = counters.retried;
  seen.clamped_total = counters.clamped;
  seen.truncated_prompts = counters.truncated_prompts;
  seen.truncated_prompt_tokens = counters.truncated_prompt_tokens;
  seen.discarded_prompt_tokens = counters.discarded_prompt_tokens;
  for (std::size_t reason = 0; reason < counters.refusals.size(); ++reason)
    if (counters.refusals[reason] > 0)
      seen.refusals.emplace_back(static_cast<RefusalReason>(reason), counters.refusals[reason]);
  std::sort(seen.refusals.begin(), seen.refusals.end(),
            [](const auto& a, const auto& b) { return std::string_view{to_string(a.first)} < to_string(b.first); });
}

using Known = ReplicaSet::Replica;

ReplicaStatus status_of(const Known& replica, std::uint32_t slot, const routing::PickingStrategy::Load& load,
                        core::Instant now) {
  const OutcomeWindow::Counts counts = replica.breaker.counts(now);
  const auto success_rate = counts.attempts() > 0 ? std::optional{counts.success_rate()} : std::nullopt;
  return {replica.spec,
          slot,
          replica.is_healthy(),
          replica.breaker.state() == CircuitBreaker::State::kOpen,
          replica.breaker.cause(),
          replica.breaker.ejections(),
          success_rate,
          replica.requests_total,
          replica.failures_total,
          replica.busy_total,
          replica.picks,
          replica.open_transfers,
          load};
}

void add_waiting(const admission::AdmissionController& admission, Overview& seen) {
  seen.waiting_interactive = static_cast<std::uint32_t>(admission.waiting(admission::Class::kInteractive));
  seen.waiting_batch = static_cast<std::uint32_t>(admission.waiting(admission::Class::kBatch));
  seen.oldest_waiting = admission.oldest();
  seen.deferred_requests = admission.deferred();
  seen.deferred_tokens = admission.deferred_tokens();
  seen.next_due = admission.next_due();
  seen.prompt_error = admission.estimator().prompt_error();
  seen.output_error = admission.estimator().output_error();
}

}  // namespace

std::vector<ReplicaStatus> Dispatcher::replicas(core::Instant now) const {
  std::vector<ReplicaStatus> all;
  for (std::uint32_t slot = 0; slot < replicas_.slots(); ++slot) {
    const Known& replica = replicas_.replica(slot);
    if (!replica.present && open_requests(slot) == 0) continue;
    all.push_back(status_of(replica, slot, replicas_.load(slot, now), now));
  }
  return all;
}

Overview Dispatcher::overview(core::Instant now) const {
  Overview seen;
  seen.now = now;
  seen.replicas = replicas(now);
  std::vector<std::string> names;
  for (std::uint32_t number = 0; number < options_.tenants.size(); ++number) {
    const Tenant& tenant = options_.tenants[number];
    const admission::AdmissionController::Tenant figures = admission_.tenant(number, now);
    names.push_back(tenant.name);
    if (tenant.removed && figures.running + figures.waiting == 0) continue;
    const double available = tenant.budget.limited() ? std::max(0.0, figures.available_tokens) : -1.0;
    seen.tenants.push_back({tenant.name, available, figures.running, figures.waiting});
    seen.tenants.back().saturation = tenant_saturation(tenant, available, figures.running + figures.running_elsewhere);
    if (number < counters_.moved_to_batch.size()) seen.tenants.back().moved_to_batch = counters_.moved_to_batch[number];
    seen.running += figures.running;
  }
  seen.pools = router_.pools();
  add_models(feed_, admission_, options_.pools, names, seen);
  seen.sums.assign(balance().sums().begin(), balance().sums().end());
  add_waiting(admission_, seen);
  add_counters(counters_, seen);
  seen.overload = overload();
  return seen;
}

std::string Dispatcher::invariant_violation(core::Instant now) const {
  struct Sums {
    std::uint32_t running = 0, waiting = 0;
    std::uint64_t reserved = 0;
  };
  std::vector<Sums> tenants(options_.tenants.size());
  std::vector<std::uint32_t> slots(replicas_.slots()), transfers(replicas_.slots());
  std::uint64_t granted = 0;
  requests_.for_each([&](const ActiveRequest& request) {
    Sums& sums = tenants[request.tenant];
    ++(request.granted ? sums.running : sums.waiting);
    if (request.granted) sums.reserved += request.claim.tokens;
    granted += request.granted ? 1 : 0;
    if (request.slot != kNoSlot) ++slots[request.slot];
    if (request.kv_slot != kNoSlot) ++transfers[request.kv_slot];
  });
  for (std::uint32_t number = 0; number < tenants.size(); ++number) {
    const Tenant& tenant = options_.tenants[number];
    const admission::AdmissionController::Tenant figures = admission_.tenant(number, now);
    const Sums& sums = tenants[number];
    if (figures.running != sums.running || figures.waiting != sums.waiting)
      return fmt::format("tenant {}: {} requests run and {} wait, admission counts {} and {}", tenant.name,
                         sums.running, sums.waiting, figures.running, figures.waiting);
    if (tenant.concurrent > 0 && figures.running > tenant.concurrent)
      return fmt::format("tenant {}: {} requests run, {} may", tenant.name, figures.running, tenant.concurrent);
    if (figures.reserved_tokens != sums.reserved)
      return fmt::format("tenant {}: {} tokens are reserved, open requests have {}", tenant.name,
                         figures.reserved_tokens, sums.reserved);
    if (figures.reserved_total != figures.settled_total + figures.reserved_tokens)
      return fmt::format("tenant {}: of {} tokens reserved, {} were settled and {} are open", tenant.name,
                         figures.reserved_total, figures.settled_total, figures.reserved_tokens);
  }
  std::map<std::string_view, std::pair<std::uint64_t, std::uint64_t>> used;  // By admission and by the ledger.
  for (std::uint32_t number = 0; number < tenants.size(); ++number)
    used[options_.tenants[number].name].first += admission_.tenant(number, now).used_total;
  for (const auto& [key, sums] : balance().sums()) used[key.first].second += sums.prompt_tokens + sums.output_tokens;
  for (const auto& [name, both] : used)
    if (both.first != both.second)
      return fmt::format("tenant {}: {} tokens were settled, the ledger has {}", name, both.first, both.second);
  for (std::uint32_t slot = 0; slot < slots.size(); ++slot)
    if (slots[slot] != replicas_.replica(slot).open_requests)
      return fmt::format("replica {}: {} requests are there, it counts {}", replicas_.replica(slot).spec.id,
                         slots[slot], replicas_.replica(slot).open_requests);
  for (std::uint32_t slot = 0; slot < slots.size(); ++slot)
    if (transfers[slot] != replicas_.replica(slot).open_transfers)
      return fmt::format("replica {}: {} requests may fetch KV from there, it counts {}",
                         replicas_.replica(slot).spec.id, transfers[slot], replicas_.replica(slot).open_transfers);
  if (granted != balance().open_entries())
    return fmt::format("{} requests run, {} ledger entries are open", granted, balance().open_entries());
  return balance().fault();
}

}  // namespace penstock::dispatch
