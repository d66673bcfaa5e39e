// Resolves host names without blocking the event loop.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/result.h"
#include "net/address.h"
#include "net/loop.h"

namespace penstock::net {

// Resolves one name at a time on a separate thread. All calls belong to the loop's thread.
class Resolver {
 public:
  using Addresses = core::Result<std::vector<Address>>;
  using Lookup = std::function<Addresses(const std::string& host, std::uint16_t port)>;  // May block.

  explicit Resolver(Loop& loop, Lookup lookup = Address::resolve);
  ~Resolver();  // Waits for the current look-up. No callback follows.
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once, later, on the loop's thread.
  void resolve(std::string host, std::uint16_t port, std::function<void(Addresses)> done);

 private:
  struct Query {
    std::string host;
    std::uint16_t port = 0;
    std::function<void(Addresses)> done;
  };
  void work();

  Loop& loop_;
  Lookup lookup_;
  // Posted tasks may run after the resolver was destroyed.
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Query> queries_;
  bool stopping_ = false;
  std::thread thread_;  // Declared last, because it uses the other members.
};

}  // namespace penstock::net
