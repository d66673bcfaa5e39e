// The gateways that a planner observes, as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/fleet_events.h"
#include "controller/gateway_cursors.h"
#include "controller/gateway_feed.h"
#include "controller/gateway_observation.h"
#include "controller/gateway_sum.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/host_names.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::controller {

struct GatewaySetOptions {
  // Names or numeric addresses, with the port of the admin address. Each address of a name is that of a gateway.
  std::vector<net::HostNames::Host> hosts;
  GatewayAccess access;
  core::Duration interval = std::chrono::milliseconds{500};
  core::Duration prefix_interval = std::chrono::seconds{5};  // Their texts may be long.
  core::Duration timeout = std::chrono::seconds{10};         // After this time without data its state is unknown.
  core::Duration dns_interval = std::chrono::seconds{5};     // From one look-up of a name to the next.
  net::Resolver::Lookup lookup = net::Address::resolve;      // Tests replace it.
};

// Reads all gateways for as long as it lives. Addresses that names gain are read, too. A gateway that drains, or whose
// address a name does not have any more, counts until nothing is open there, or until it has not answered for the
// timeout. A gateway with several addresses counts once. An address at which nothing listens is that of no gateway.
// Lives on one loop.
class GatewaySet final : private GatewayObservation::Listener {
 public:
  struct Callbacks {
    // state() is new; `at` is when the oldest of its parts was requested.
    std::function<void(const GatewayState& state, core::Instant at)> state;
    std::function<void()> answered;  // Gateways have answered or failed: what is known may have changed.
    std::function<void(const TrafficPage*)> traffic;           // As GatewayObservation::Listener::traffic_read().
    std::function<void(std::vector<GatewayPrefix>)> prefixes;  // Empty: no hot prefixes are read.
  };
  // One gateway, for dashboards.
  struct View {
    std::string address;
    bool is_up = false;
  };

  GatewaySet(net::Loop& loop, net::Client& client, GatewaySetOptions options, FleetEvents& events, Callbacks callbacks);
  ~GatewaySet() override;
  GatewaySet(const GatewaySet&) = delete;
  GatewaySet& operator=(const GatewaySet&) = delete;

  void set_access(GatewayAccess access) { options_.access = std::move(access); }
  void read_traffic_again() { cursors_.restart(); }

  // Of all gateways; empty until each of them has been read. While one does not answer, its last state counts.
  [[nodiscard]] const std::optional<GatewayState>& state() const { return state_; }
  // Of which all figures are known: the time of the last good answer of the gateway that has been silent for longest.
  // Empty: the state of a gateway is not known, or there is none.
  [[nodiscard]] std::optional<core::Instant> read_at() const;
  // At the start: a name has not been looked up, or a gateway has neither answered nor failed.
  [[nodiscard]] bool is_awaited() const;
  [[nodiscard]] bool is_up() const;                  // The last answers of all could be read.
  [[nodiscard]] std::string failure() const;         // Addresses and what fails there, as a clause.
  [[nodiscard]] std::vector<View> gateways() const;  // Those that count, in the order of their addresses' look-up.
  [[nodiscard]] std::vector<const std::string*> documents() const;  // Their overviews, each gateway once.

 private:
  struct Member {
    std::unique_ptr<GatewayObservation> gateway;
    bool is_listed = true;
    bool is_alone = false;  // The only address of its name: it may lead to several gateways.
    // When the address was listed, if all others had been read by then.
    std::optional<core::Instant> joined_at{};
    bool has_left = false;  // It counts no more.
  };

  void overview_read(bool good) override;
  void traffic_read(const TrafficPage* page) override { callbacks_.traffic(page); }
  void prefixes_read() override;
  void reachable_changed(const GatewayObservation& gateway) override;
  void several_answered(const GatewayObservation& gateway) override;

  void take_host(const net::HostChange& change);
  void list_addresses();
  void list(const net::Address& address, const std::string& host, bool is_alone);
  void poll();
  void follow_members();
  void publish();
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] static bool is_leaving(const Member& member);
  [[nodiscard]] bool has_ended(const Member& member) const;
  [[nodiscard]] static bool is_starting(const Member& member);
  [[nodiscard]] std::vector<const GatewayObservation*> counted() const;
  [[nodiscard]] static bool is_known_elsewhere(const Member& member,
                                               const std::vector<const GatewayObservation*>& counted);

  net::Loop& loop_;
  net::Client& client_;
  GatewaySetOptions options_;
  FleetEvents& events_;
  Callbacks callbacks_;
  net::HostNames names_;
  GatewayCursors cursors_;
  GatewayTotals totals_;
  std::vector<Member> members_;
  std::vector<std::string> unresolved_;  // Names without an address, and why.
  std::optional<GatewayState> state_;
  std::uint32_t polls_ = 0;
  bool has_unknown_names_ = false;  // Some were not looked up yet.
  bool has_too_many_ = false;       // Addresses, of which those beyond the limit are not read.
  bool has_news_ = false;           // Since state_ was made.
  bool was_complete_ = false;       // All have been read once.
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::controller
