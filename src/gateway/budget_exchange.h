// Shares the budgets and concurrency limits of tenants and classes with other gateways.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "dispatch/peer_budgets.h"
#include "gateway/options.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "net/access.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/host_names.h"
#include "net/loop.h"

namespace penstock::gateway {

// Requests the budgets of each other gateway at an interval, and charges here what they took. It only reads: what a
// gateway charges comes from the addresses that its own configuration names. No request waits for it. A gateway that
// cannot be reached is logged, and what is known of it stays charged. Lives on one loop.
class BudgetExchange {
 public:
  // `process` identifies this gateway in its reports.
  BudgetExchange(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher, logging::Log& log,
                 std::string process);
  ~BudgetExchange();
  BudgetExchange(const BudgetExchange&) = delete;
  BudgetExchange& operator=(const BudgetExchange&) = delete;

  void set_access(const net::AccessOptions& access);  // The others have the same tokens.
  [[nodiscard]] std::string document();               // What this gateway took, for others.
  [[nodiscard]] const std::string& process() const { return budgets_.process(); }
  [[nodiscard]] std::optional<PeerFigures> figures() const;  // Empty without peers in the options.

 private:
  struct Peer {  // An address.
    net::Url url;
    net::Address address;
    bool is_listed = true, in_flight = false, is_self = false, is_reported = false;
    std::string process{};  // That answered last.
    std::optional<core::Instant> failing_since{};
  };

  void take_host(const net::HostChange& change);
  void list_addresses();
  void list(const net::Url& url, const net::Address& address);
  void poll();
  void request(const std::shared_ptr<Peer>& peer);
  void take(Peer& peer, const core::Result<net::FetchAnswer>& answer);
  void fail(Peer& peer, const std::string& cause);
  void apply(const dispatch::BudgetChanges& changes);

  net::Loop& loop_;
  const PeerOptions options_;
  SharedDispatcher& dispatcher_;
  logging::Log& log_;
  const core::Instant started_;
  std::uint64_t reports_ = 0;  // Documents that were made.
  std::string authorization_;  // Value of the field; empty: none.
  std::vector<net::Url> urls_;
  dispatch::PeerBudgets budgets_;
  net::Client client_;
  net::HostNames names_;
  std::vector<std::shared_ptr<Peer>> peers_;
  PeerFigures figures_;
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::gateway
