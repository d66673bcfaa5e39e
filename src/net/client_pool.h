// The connections of a client, by address, with their deadlines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "net/client.h"
#include "net/client_connection.h"
#include "net/intrusive_list.h"

namespace penstock::net {

struct ServerBucket {
  Address address;
  IntrusiveList<ClientConnection, InBucket> idle;  // Most recently used first.
  std::uint32_t idle_count = 0, count = 0;
};

class ClientPool {
 public:
  ClientPool(Loop& loop, const ClientLimits& limits);
  ~ClientPool();
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  // Returns the most recently used idle connection, which is the most likely to be alive, or a new unconnected one.
  [[nodiscard]] ClientConnection& take(const CallOptions& options);
  void keep(ClientConnection& connection);   // Returns the connection to the pool.
  void drop(ClientConnection& connection);   // Destroys the connection.
  void defer(ClientConnection& connection);  // Schedules a turn of the connection on the loop.
  void close_idle(const Address& address);

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] Loop& loop() { return loop_; }
  [[nodiscard]] const ClientLimits& limits() const { return limits_; }
  // Shared by all connections, because only one of them handles an event at a time.
  [[nodiscard]] std::array<char, 64 * 1024>& scratch() { return scratch_; }
  [[nodiscard]] ResponseHead& head() { return head_; }
  [[nodiscard]] std::string& failure() { return failure_; }

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
  std::string failure_;  // See Client::failure().
  std::array<char, 64 * 1024> scratch_;
};

}  // namespace penstock::net
