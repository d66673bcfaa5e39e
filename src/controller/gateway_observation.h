// One gateway, as a planner reads it again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/gateway_cursors.h"
#include "controller/gateway_feed.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/tls.h"

namespace penstock::controller {

// Credentials for the admin addresses of gateways.
struct GatewayAccess {
  std::string authorization;             // Value of the Authorization field; empty: none.
  std::shared_ptr<net::TlsContext> tls;  // Null: plain HTTP.
};

// The overview and the traffic of the gateway at one address. Lives on one loop. Answers that arrive
// after its end are dropped.
class GatewayObservation {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void overview_read(bool good) = 0;  // Or it could not be read.
    // A page with events that were not read before; null: the page has none of them.
    virtual void traffic_read(const TrafficPage* page) = 0;
    virtual void prefixes_read() = 0;
    virtual void reachable_changed(const GatewayObservation& gateway) = 0;
    virtual void several_answered(const GatewayObservation& gateway) = 0;  // At this address; see SharedAddress.
  };

  // All but the address outlives it. Access and cursors are those of all gateways.
  GatewayObservation(net::Loop& loop, net::Client& client, const GatewayAccess& access, GatewayCursors& cursors,
                     const net::Address& address, std::string host, Listener& listener)
      : loop_(loop),
        client_(client),
        access_(access),
        cursors_(cursors),
        address_(address),
        host_(std::move(host)),
        listener_(listener) {}
  GatewayObservation(const GatewayObservation&) = delete;
  GatewayObservation& operator=(const GatewayObservation&) = delete;

  // The name that later connections verify.
  void set_host(const std::string& host) { host_ = host; }
  // Requests the overview and then the traffic, unless that is in progress.
  void poll();
  void request_prefixes();
  // Requests the overview on a connection of its own, which leads to another gateway if the address belongs to several.
  void probe();

  [[nodiscard]] const net::Address& address() const { return address_; }
  [[nodiscard]] const std::optional<GatewayState>& state() const { return state_; }  // The last one that was read.
  [[nodiscard]] const std::vector<GatewayPrefix>& prefixes() const { return prefixes_; }
  [[nodiscard]] core::Instant requested_at() const { return requested_at_; }  // When state() was requested.
  [[nodiscard]] core::Instant overview_at() const { return overview_at_; }    // When it was received.
  // The older one of the last good answers to both requests; empty if one of them was never read.
  [[nodiscard]] std::optional<core::Instant> read_at() const;
  // It has neither answered both requests once nor failed.
  [[nodiscard]] bool is_awaited() const { return reachable_.value_or(true) && !(state_ && traffic_at_); }
  [[nodiscard]] bool is_up() const { return reachable_.value_or(false); }  // The last answers could be read.
  [[nodiscard]] const std::string& failure() const;                        // Why not; empty if they could.
  [[nodiscard]] bool refuses() const { return refuses_; }                  // Nothing listens at the address.
  [[nodiscard]] bool reads_overview() const { return overview_in_flight_; }
  // Nothing is open or waits there, and the traffic was read after that was known.
  [[nodiscard]] bool is_drained() const;

 private:
  void request_traffic();
  // `kept` is one of the two below; `failure` is empty after a success.
  void report(std::string& kept, const std::string& failure);
  void send(net::FetchRequest request, std::function<void(core::Result<net::FetchAnswer>)> done);
  [[nodiscard]] net::FetchRequest request_for(std::string path) const;

  net::Loop& loop_;
  net::Client& client_;
  const GatewayAccess& access_;
  GatewayCursors& cursors_;
  const net::Address address_;
  std::string host_;  // The name of the address as it was given, or the address; certificates are verified for it.
  Listener& listener_;
  SharedAddress shared_;
  bool overview_in_flight_ = false, traffic_in_flight_ = false, prefixes_in_flight_ = false;
  std::optional<GatewayState> state_;
  core::Instant requested_at_, overview_at_;
  std::optional<core::Instant> traffic_at_;
  std::vector<GatewayPrefix> prefixes_;
  std::optional<bool> reachable_;  // Empty before the first response.
  std::string overview_failure_, traffic_failure_;
  bool refuses_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // Ends with this object, and requests may outlive it.
};

}  // namespace penstock::controller
