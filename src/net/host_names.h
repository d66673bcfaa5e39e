// The addresses of host names, looked up again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/time.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::net {

// What a look-up has changed.
struct HostChange {
  std::string host;
  std::string failure{};    // Why the name cannot be resolved, if that cause is new; empty otherwise.
  std::string addresses{};  // Its new addresses as text, separated by commas; empty if they are the same.
};

// Looks names up on threads of its own, again and again, because what restarts elsewhere keeps its name. A name that
// cannot be resolved any more keeps its last addresses. All calls belong to the loop's thread.
class HostNames {
 public:
  using Host = std::pair<std::string, std::uint16_t>;  // Name and port.
  struct Entry {
    std::vector<Address> addresses;  // Empty before the first look-up that succeeded.
    std::string failure;             // Of the last look-up; empty if it succeeded, or none has ended.
    bool looked_up = false;          // One has ended.
  };

  // Names with addresses are looked up at the interval, others at least every second. `changed` is called after each
  // look-up that changed an entry, also if the name can be resolved again to the same addresses.
  HostNames(Loop& loop, core::Duration interval, std::function<void(const HostChange&)> changed,
            Resolver::Lookup lookup = Address::resolve);
  ~HostNames();  // Waits for look-ups in progress. No callback follows.
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  // Adds the host unless it is known, and returns its entry.
  const Entry& follow(const Host& host);
  // Ends a list of calls of follow(): forgets the hosts that it does not name, and looks new ones up.
  void end_list();

 private:
  // Names wait for others that are not answered, therefore there are several threads.
  static constexpr std::size_t kThreads = 4;
  struct Followed {
    Entry entry;
    core::Instant look_up_at{};
    bool in_flight = false, is_used = true;
  };
  struct Thread {
    std::uint32_t queries = 0;
    std::unique_ptr<Resolver> resolver;
  };

  void look_up_due();
  Thread& least_busy();
  void take(const Host& host, Resolver::Addresses addresses);

  Loop& loop_;
  const core::Duration interval_;
  std::function<void(const HostChange&)> changed_;
  Resolver::Lookup lookup_;
  std::map<Host, Followed> hosts_;
  Loop::Timer timer_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;  // Started as they are needed.
};

}  // namespace penstock::net
