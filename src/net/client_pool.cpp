#include "net/client_pool.h"

#include <cstring>
#include <utility>

namespace penstock::net {
namespace {

constexpr core::Duration kSweepInterval = std::chrono::milliseconds{200};

}  // namespace

std::size_t ClientPool::AddressHash::operator()(const Address& address) const {
  std::array<std::uint64_t, 4> words{};
  static_assert(sizeof words >= 28);
  std::memcpy(words.data(), address.data(), address.length());
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) hash = (hash ^ word ^ (word >> 29)) * 0x9e37'79b9'7f4a'7c15U;
  return hash ^ (hash >> 32);
}

ClientPool::ClientPool(Loop& loop, const ClientLimits& limits) : loop_{loop}, limits_{limits} {
  sweep_timer_ = loop_.every(kSweepInterval, [this] { sweep(); });
}

ClientPool::~ClientPool() {
  loop_.cancel(sweep_timer_);
  loop_.cancel(deferred_timer_);
  while (!calling_.empty()) drop(calling_.front());
  while (!idle_.empty()) drop(idle_.front());
}

ClientConnection& ClientPool::take(const CallOptions& options) {
  const auto [found, is_new] = buckets_.try_emplace(options.address);
  ServerBucket& bucket = found->second;
  if (is_new) bucket.address = options.address;
  ClientConnection* connection = bucket.idle.empty() ? nullptr : &bucket.idle.front();
  while (connection != nullptr && !connection->serves(options)) connection = bucket.idle.behind(*connection);
  if (connection != nullptr) {
    static_cast<ListHook<InBucket>*>(connection)->unlink();
    --bucket.idle_count;
  } else {
    connection = new ClientConnection{*this, bucket, options};
    ++bucket.count;
    ++count_;
  }
  calling_.push_back(*connection);
  return *connection;
}

void ClientPool::keep(ClientConnection& connection) {
  ServerBucket& bucket = connection.bucket();
  if (bucket.idle_count >= limits_.idle_connections) return drop(connection);
  connection.rest_until(loop_.now() + limits_.idle_time);
  idle_.push_back(connection);
  bucket.idle.push_front(connection);
  ++bucket.idle_count;
}

void ClientPool::drop(ClientConnection& connection) {
  ServerBucket& bucket = connection.bucket();
  if (connection.is_idle()) --bucket.idle_count;
  delete &connection;
  --count_;
  if (--bucket.count == 0) buckets_.erase(Address{bucket.address});
}

void ClientPool::defer(ClientConnection& connection) {
  deferred_.push_back(connection);
  if (deferred_timer_ == 0) deferred_timer_ = loop_.after(core::Duration{0}, [this] { run_deferred(); });
}

void ClientPool::run_deferred() {
  deferred_timer_ = 0;
  // A turn that is requested now runs in the next round.
  IntrusiveList<ClientConnection, InBucket> turns;
  while (!deferred_.empty()) turns.push_back(deferred_.front());
  while (!turns.empty()) {
    ClientConnection& connection = turns.front();
    static_cast<ListHook<InBucket>&>(connection).unlink();
    connection.take_turn();
  }
}

void ClientPool::close_idle(const Address& address) {
  const auto found = buckets_.find(address);
  if (found == buckets_.end()) return;
  ServerBucket& bucket = found->second;
  // The bucket may be destroyed together with its last connection.
  for (std::uint32_t left = bucket.idle_count; left > 0; --left) drop(bucket.idle.front());
}

void ClientPool::sweep() {
  const core::Instant now = loop_.now();
  while (!idle_.empty() && idle_.front().deadline() <= now) drop(idle_.front());
  if (calling_.empty()) return;
  // Listeners may start and cancel calls, so the late connections are collected before the first callback.
  IntrusiveList<ClientConnection, InPool> late;
  for (ClientConnection* each = &calling_.front(); each != nullptr;) {
    ClientConnection* next = calling_.behind(*each);
    if (each->deadline() <= now) late.push_back(*each);
    each = next;
  }
  while (!late.empty()) late.front().expire();
}

}  // namespace penstock::net
