#include "net/host_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

namespace penstock::net {
namespace {

constexpr core::Duration kLookUpStep = std::chrono::milliseconds{100};
constexpr core::Duration kUnresolvedInterval = std::chrono::seconds{1};

}  // namespace

HostNames::HostNames(Loop& loop, core::Duration interval, std::function<void(const HostChange&)> changed,
                     Resolver::Lookup lookup)
    : loop_(loop),
      interval_(interval),
      changed_(std::move(changed)),
      lookup_(std::move(lookup)),
      timer_(loop_.every(kLookUpStep, [this] { look_up_due(); })) {}

HostNames::~HostNames() { loop_.cancel(timer_); }

const HostNames::Entry& HostNames::follow(const Host& host) {
  Followed& followed = hosts_[host];
  followed.is_used = true;
  return followed.entry;
}

void HostNames::end_list() {
  std::erase_if(hosts_, [](const auto& each) { return !each.second.is_used; });
  for (auto& [host, followed] : hosts_) followed.is_used = false;
  look_up_due();
}

void HostNames::look_up_due() {
  for (auto& [host, followed] : hosts_) {
    if (loop_.now() < followed.look_up_at || std::exchange(followed.in_flight, true)) continue;
    Thread& thread = least_busy();
    ++thread.queries;
    thread.resolver->resolve(host.first, host.second, [this, &thread, host = host](Resolver::Addresses addresses) {
      --thread.queries;
      take(host, std::move(addresses));
    });
  }
}

HostNames::Thread& HostNames::least_busy() {
  const auto least = std::min_element(threads_.begin(), threads_.end(),
                                      [](const auto& a, const auto& b) { return a->queries < b->queries; });
  if (least != threads_.end() && ((*least)->queries == 0 || threads_.size() == kThreads)) return **least;
  threads_.push_back(std::make_unique<Thread>());
  threads_.back()->resolver = std::make_unique<Resolver>(loop_, lookup_);
  return *threads_.back();
}

void HostNames::take(const Host& host, Resolver::Addresses addresses) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return;
  Followed& followed = found->second;
  Entry& entry = followed.entry;
  followed.in_flight = false;
  const std::string failure = addresses ? std::string{} : addresses.error().message();
  const bool first = !std::exchange(entry.looked_up, true);
  const bool failure_changed = failure != std::exchange(entry.failure, failure);
  // Servers of names change the order of addresses with each answer.
  const auto same = [&] {
    return std::is_permutation(entry.addresses.begin(), entry.addresses.end(), addresses->begin(), addresses->end());
  };
  const bool moved = addresses && !same();
  HostChange change{host.first};
  if (failure_changed) change.failure = failure;
  if (moved) {
    std::vector<std::string> texts;
    for (const Address& address : *addresses) texts.push_back(address.text());
    change.addresses = fmt::format("{}", fmt::join(texts, ","));
    entry.addresses = *std::move(addresses);
  }
  const core::Duration pause = entry.addresses.empty() ? std::min(interval_, kUnresolvedInterval) : interval_;
  followed.look_up_at = loop_.now() + pause;
  if (first || moved || failure_changed) changed_(change);
}

}  // namespace penstock::net
