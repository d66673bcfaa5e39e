// The connections of a client: which are free for whom, and which have waited too long.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "net/client.h"
#include "net/client_connection.h"
#include "net/intrusive_list.h"

namespace penstock::net {

struct ServerBucket {
  Address address;
  IntrusiveList<ClientConnection, InBucket> idle;  // used last at the front
  std::uint32_t idle_count = 0, count = 0;
};

class ClientPool {
 public:
  ClientPool(Loop& loop, const ClientLimits& limits);
  ~ClientPool();
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  // The idle connection that was used last, as the likeliest to be alive, or a fresh one that is not connected yet.
  [[nodiscard]] ClientConnection& take(const CallOptions& options);
  void keep(ClientConnection& connection);   // until it is taken, closed by the server or too old
  void drop(ClientConnection& connection);   // which is no more then
  void defer(ClientConnection& connection);  // gives it a turn soon, from the loop
  void close_idle(const Address& address);

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] Loop& loop() { return loop_; }
  [[nodiscard]] const ClientLimits& limits() const { return limits_; }
  // For the time of one event: shared by all connections, since only one of them is at work.
  [[nodiscard]] std::array<char, 64 * 1024>& scratch() { return scratch_; }
  [[nodiscard]] ResponseHead& head() { return head_; }

 private:
  struct AddressHash {
    std::size_t operator()(const Address& address) const;
  };

  void sweep();
  void run_deferred();

  Loop& loop_;
  const ClientLimits limits_;
  std::unordered_map<Address, ServerBucket, AddressHash> buckets_;
  IntrusiveList<ClientConnection, InPool> calling_, idle_;
  IntrusiveList<ClientConnection, InBucket> deferred_;
  Loop::Timer sweep_timer_ = 0, deferred_timer_ = 0;
  std::uint32_t count_ = 0;
  ResponseHead head_;
  std::array<char, 64 * 1024> scratch_;
};

}  // namespace penstock::net
