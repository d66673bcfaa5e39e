// Addresses of names, without holding up the loop that wants them.
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

// Asks on a thread of its own, one name after the other. All calls are for the loop's thread.
class Resolver {
 public:
  using Addresses = core::Result<std::vector<Address>>;
  using Ask = std::function<Addresses(const std::string& host, std::uint16_t port)>;  // may block

  explicit Resolver(Loop& loop, Ask ask = Address::resolve);
  ~Resolver();  // waits for the name that is being asked for; no answer comes any more
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once, later, on the loop's thread.
  void resolve(std::string host, std::uint16_t port, std::function<void(Addresses)> done);

 private:
  struct Question {
    std::string host;
    std::uint16_t port = 0;
    std::function<void(Addresses)> done;
  };
  void work();

  Loop& loop_;
  Ask ask_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // what is posted may come after us
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace penstock::net
