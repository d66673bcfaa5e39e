#include "dispatch/peer_budgets.h"

#include <algorithm>
#include <iterator>

namespace penstock::dispatch {
namespace {

using admission::SharedChange;
using admission::SharedUse;

SharedChange change_of(const SharedUse& before, const SharedUse& now) {
  return {static_cast<std::int64_t>(now.taken - before.taken), 0.0, 0};
}

}  // namespace

BudgetReport report_of(const admission::AdmissionController& admission, std::span<const Tenant> tenants,
                       core::Instant now) {
  BudgetReport report;
  for (std::uint32_t number = 0; number < tenants.size(); ++number) {
    const SharedUse use = admission.shared_use(number, now);
    if (use.taken > 0 || use.running > 0 || use.missing > 0.0) report.tenants.emplace_back(tenants[number].name, use);
  }
  for (const admission::Class each : {admission::Class::kInteractive, admission::Class::kBatch})
    report.classes[index_of(each)] = admission.shared_use(each, now);
  return report;
}

void apply(const BudgetChanges& changes, admission::AdmissionController& admission, core::Instant now) {
  for (const auto& [name, change] : changes.tenants)
    if (const auto tenant = admission.tenant_named(name))
      admission.change_shared(*tenant, change, changes.gateways, now);
  for (const admission::Class each : {admission::Class::kInteractive, admission::Class::kBatch})
    admission.change_shared(each, changes.classes[index_of(each)], changes.gateways, now);
}

BudgetChanges PeerBudgets::changes() const {
  BudgetChanges made;
  made.gateways = static_cast<std::uint32_t>(peers_.size()) + 1;
  return made;
}

std::uint32_t PeerBudgets::count_running(const std::string& tenant, std::uint32_t before, std::uint32_t after) {
  if (before == 0 && after == 0) {
    const auto known = running_.find(tenant);
    return known == running_.end() ? 0 : known->second;
  }
  const auto sum = running_.emplace(tenant, 0).first;
  sum->second = sum->second - before + after;
  const std::uint32_t left = sum->second;
  if (left == 0) running_.erase(sum);
  return left;
}

void PeerBudgets::clear_running(Peer& peer, BudgetChanges& made) {
  for (auto& [name, use] : peer.tenants)
    if (const std::uint32_t before = std::exchange(use.running, 0); before > 0)
      made.tenants.push_back({name, {0, 0.0, count_running(name, before, 0)}});
}

BudgetChanges PeerBudgets::take(const BudgetReport& report, core::Instant now) {
  if (report.process == process_) return changes();
  auto known = peers_.find(report.process);
  const bool is_known = known != peers_.end();
  if (is_known && report.number <= known->second.number) return changes();
  if (!is_known && peers_.size() >= kPeersMax) return changes();
  if (!is_known) known = peers_.emplace(report.process, Peer{}).first;
  const bool is_counted = is_known || (report.age < now - started_ && report.age <= kForgetAfter);
  Peer& peer = known->second;
  peer.number = report.number;
  peer.reported_at = now;

  BudgetChanges made = changes();
  const auto change = [&](const SharedUse& before, const SharedUse& use) {
    return is_counted ? change_of(before, use) : SharedChange{0, use.missing, 0};
  };
  const auto change_tenant = [&](const std::string& name, const SharedUse& before, const SharedUse& use) {
    SharedChange next = change(before, use);
    next.running_elsewhere = count_running(name, before.running, use.running);
    if (next.charged != 0 || next.missing > 0.0 || before.running != use.running) made.tenants.emplace_back(name, next);
  };
  std::map<std::string, SharedUse, std::less<>> tenants{report.tenants.begin(), report.tenants.end()};
  for (const auto& [name, before] : peer.tenants)
    if (!tenants.contains(name)) change_tenant(name, before, {});
  for (const auto& [name, use] : tenants) {
    const auto before = peer.tenants.find(name);
    change_tenant(name, before == peer.tenants.end() ? SharedUse{} : before->second, use);
  }
  for (std::size_t i = 0; i < report.classes.size(); ++i) made.classes[i] = change(peer.classes[i], report.classes[i]);
  peer.tenants = std::move(tenants);
  peer.classes = report.classes;
  return made;
}

BudgetChanges PeerBudgets::ended(std::string_view process) {
  BudgetChanges made = changes();
  if (const auto known = peers_.find(process); known != peers_.end()) clear_running(known->second, made);
  return made;
}

BudgetChanges PeerBudgets::forget_silent(core::Instant now) {
  BudgetChanges made;
  for (auto each = peers_.begin(); each != peers_.end();) {
    const bool is_silent = now - each->second.reported_at > kForgetAfter;
    if (is_silent) clear_running(each->second, made);
    each = is_silent ? peers_.erase(each) : std::next(each);
  }
  made.gateways = changes().gateways;
  return made;
}

core::Instant PeerBudgets::oldest_report() const {
  core::Instant oldest = core::kNever;
  for (const auto& [process, peer] : peers_) oldest = std::min(oldest, peer.reported_at);
  return oldest;
}

}  // namespace penstock::dispatch
