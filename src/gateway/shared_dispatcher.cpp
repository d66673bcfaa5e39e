#include "gateway/shared_dispatcher.h"

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "net/loop.h"
#include "net/unix_time.h"
#include "telemetry/exposition_writer.h"

namespace penstock::gateway {

using dispatch::Ticket;

SharedDispatcher::SharedDispatcher(const GatewayOptions& options, std::unique_ptr<dispatch::LedgerSink> sink)
    : dispatcher_(options.dispatch, std::move(sink), net::Loop::read_clock(), net::unix_time()),
      memory_(options.server.memory) {
  if (!options.hot_prefixes) return;
  HotPrefixCacheOptions cache;
  cache.key_tokens = options.dispatch.key_tokens;
  hot_prefixes_.emplace(cache);
}

RoutedGrant SharedDispatcher::routed(const dispatch::Grant& grant) const {
  const auto found = known_.find(grant.replica);
  PENSTOCK_ASSERT(found != known_.end(), "only a replica that discovery names is chosen");
  return {grant, found->second.target};
}

std::optional<RoutedGrant> SharedDispatcher::routed(const std::optional<dispatch::Grant>& grant) const {
  return grant ? std::optional{routed(*grant)} : std::nullopt;
}

RoutedArrival SharedDispatcher::arrive(const dispatch::RequestInfo& info, dispatch::GrantListener& listener,
                                       core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatch::ArrivalResult result = dispatcher_.arrive(info, listener, now);
  if (result.count_prompt && !counted_models_.contains(info.model)) {
    dispatch::RequestInfo uncounted = info;
    uncounted.may_count_prompt = false;
    result = dispatcher_.arrive(uncounted, listener, now);
  }
  return {result.ticket,        routed(result.grant), std::move(result.refusal), result.count_prompt,
          result.prompt_excess, result.prompt_tokens, result.moved_to_batch};
}

void SharedDispatcher::set_counted_models(std::set<std::string, std::less<>> models) {
  const std::scoped_lock lock{mutex_};
  counted_models_ = std::move(models);
}

std::optional<dispatch::Refusal> SharedDispatcher::early_refusal(std::uint32_t tenant, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.early_refusal(tenant, now);
}

void SharedDispatcher::attempt_ended(Ticket ticket, dispatch::Attempt attempt, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.attempt_ended(ticket, attempt, now);
}

std::optional<RoutedGrant> SharedDispatcher::route_again(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  return routed(dispatcher_.route_again(ticket, now));
}

bool SharedDispatcher::may_retry(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.may_retry(ticket, now);
}

std::optional<RoutedGrant> SharedDispatcher::route_decode(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  return routed(dispatcher_.route_decode(ticket, now));
}

void SharedDispatcher::answered(Ticket ticket, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.answered(ticket, now);
}

void SharedDispatcher::report_progress(std::span<const dispatch::Progress> streams, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.report_progress(streams, now);
}

void SharedDispatcher::ended(Ticket ticket, const dispatch::RequestOutcome& outcome, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.ended(ticket, outcome, now);
}

std::vector<dispatch::SegmentOverload> SharedDispatcher::overload() const {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.overload();
}

std::vector<dispatch::BreakerChange> SharedDispatcher::tick(core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.tick(now);
  return dispatcher_.take_breaker_changes();
}

std::uint32_t SharedDispatcher::open_requests() const {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.open_requests();
}

void SharedDispatcher::reconfigure(const dispatch::ReloadableOptions& options) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.reconfigure(options, net::Loop::read_clock());
}

dispatch::BudgetReport SharedDispatcher::budget_report(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.budget_report(now);
}

// In parts, because requests wait for the lock.
void SharedDispatcher::change_budgets(const dispatch::BudgetChanges& changes, core::Instant now) {
  constexpr std::ptrdiff_t kTenantsAtOnce = 256;
  dispatch::BudgetChanges part{{}, changes.classes, changes.gateways};
  auto next = changes.tenants.begin();
  do {
    const auto end = next + std::min(kTenantsAtOnce, changes.tenants.end() - next);
    part.tenants.assign(next, end);
    next = end;
    const std::scoped_lock lock{mutex_};
    dispatcher_.change_budgets(part, now);
    part.classes = {};
  } while (next != changes.tenants.end());
}

void SharedDispatcher::set_replicas(const std::vector<ReplicaEndpoint>& replicas, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  const std::map<std::uint64_t, Known> before = std::exchange(known_, {});
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> numbers;
  for (const auto& [number, known] : before)
    numbers.emplace(std::pair<std::string_view, std::string_view>{known.endpoint.id, known.endpoint.url}, number);
  std::vector<dispatch::ReplicaSpec> specs;
  for (const ReplicaEndpoint& replica : replicas) {
    const auto same = numbers.find({replica.id, replica.url});
    const Known* const last = same == numbers.end() ? nullptr : &before.at(same->second);
    Known next{replica, nullptr, {}};
    next.endpoint.number = last == nullptr ? ++next_number_ : same->second;
    if (last != nullptr) {
      next.kv_events = last->kv_events;
      if (last->target->model == replica.model && last->target->addresses == replica.addresses &&
          last->target->credentials == replica.credentials)
        next.target = last->target;
    }
    if (!next.target) next.target = make_target(replica);
    // The checks of a replica that is listed again begin anew.
    if (last != nullptr) next.target->unresponsive = last->listed && last->target->unresponsive;
    specs.push_back(next.endpoint);
    known_.insert_or_assign(next.endpoint.number, std::move(next));
  }
  dispatcher_.set_replicas(specs, now);
  for (const dispatch::ReplicaStatus& status : dispatcher_.replicas(now)) {
    const auto last = before.find(status.spec.number);
    if (last == before.end()) continue;
    if (const auto [kept, is_unlisted] = known_.insert(*last); is_unlisted) kept->second.listed = false;
  }
}

void SharedDispatcher::set_models_complete(bool complete) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.set_models_complete(complete);
  models_complete_ = complete;
  models_were_complete_ = models_were_complete_ || complete;
}

void SharedDispatcher::set_health(std::string_view id, dispatch::ReplicaHealth health, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = dispatcher_.slot_of(id)) dispatcher_.set_health(*slot, health, now);
}

void SharedDispatcher::set_unresponsive(std::string_view id, bool unresponsive) {
  const std::scoped_lock lock{mutex_};
  for (const auto& [number, known] : known_)
    if (known.endpoint.id == id) known.target->unresponsive.store(unresponsive, std::memory_order_relaxed);
}

bool SharedDispatcher::answered_since(std::string_view id, core::Instant time) const {
  const std::scoped_lock lock{mutex_};
  const auto slot = dispatcher_.slot_of(id);
  return slot && dispatcher_.answered_at(*slot) >= time;
}

void SharedDispatcher::set_problems(std::vector<ReplicaProblem> problems) {
  const std::scoped_lock lock{mutex_};
  problems_ = std::move(problems);
}

void SharedDispatcher::credentials_refused(std::string_view id) {
  const std::scoped_lock lock{mutex_};
  refused_credentials_.emplace(id);
}

std::vector<std::string> SharedDispatcher::take_refused_credentials() {
  const std::scoped_lock lock{mutex_};
  std::vector<std::string> ids{refused_credentials_.begin(), refused_credentials_.end()};
  refused_credentials_.clear();
  return ids;
}

void SharedDispatcher::report_load(std::string_view id, const routing::ReportedLoad& load) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = dispatcher_.slot_of(id)) dispatcher_.report_load(*slot, load);
}

void SharedDispatcher::kv_event(std::string_view id, dispatch::KvChange change, std::span<const std::uint64_t> keys) {
  const std::scoped_lock lock{mutex_};
  if (const auto slot = dispatcher_.slot_of(id)) dispatcher_.kv_event(*slot, change, keys);
}

void SharedDispatcher::count_kv_messages(std::string_view id, const telemetry::MessageCounts& added) {
  const std::scoped_lock lock{mutex_};
  for (auto& [number, known] : known_)
    if (known.endpoint.id == id) known.kv_events += added;
}

Overview SharedDispatcher::overview(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  Overview seen{dispatcher_.overview(now), memory_, {}, {}, {}, {}, problems_, models_complete_, {}};
  const auto is_replaced = [this](const dispatch::ReplicaStatus& status) {
    return dispatcher_.slot_of(status.spec.id) != status.slot;
  };
  std::stable_partition(seen.replicas.begin(), seen.replicas.end(), is_replaced);
  dropped_controls_.for_each([&](std::string_view kind, std::string_view name, std::uint64_t count) {
    seen.dropped_controls.push_back({kind, name, count});
  });
  for (const dispatch::ReplicaStatus& status : seen.replicas) {
    const auto found = known_.find(status.spec.number);
    seen.urls.push_back(found == known_.end() ? std::string{} : found->second.endpoint.url);
    if (found != known_.end() && !found->second.endpoint.kv_events.empty())
      seen.kv_events.push_back({telemetry::format_labels({{"replica", status.spec.id}}), found->second.kv_events});
    seen.fpm.push_back(found == known_.end() ? std::vector<std::string>{} : found->second.endpoint.fpm);
  }
  return seen;
}

bool SharedDispatcher::ready(core::Instant now) const {
  const std::scoped_lock lock{mutex_};
  if (dispatcher_.options().waits_for_first_replica()) return true;  // It starts because a request waits.
  if (!models_were_complete_) return false;
  const auto replicas = dispatcher_.replicas(now);
  return std::any_of(replicas.begin(), replicas.end(), [](const auto& status) { return status.load.eligible; });
}

bool SharedDispatcher::models_complete() const {
  const std::scoped_lock lock{mutex_};
  return models_complete_;
}

dispatch::TrafficLog::Page SharedDispatcher::traffic(std::uint64_t after, std::size_t events_max) const {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.traffic(after, events_max);
}

std::vector<dispatch::ModelListing> SharedDispatcher::models() const {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.models();
}

std::vector<dispatch::PrefixHolder> SharedDispatcher::idle_holders(const PrefixText& prefix, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  return dispatcher_.idle_holders(prefix.model, prefix.keys, now);
}

void SharedDispatcher::pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  dispatcher_.pinged(slot, prefix.model, prefix.keys, now);
}

}  // namespace penstock::gateway
