// Requests to engines to take the role of another pool, as SGLang's `POST /pd_role_switch`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "connect/kubernetes/pods.h"
#include "core/time.h"
#include "net/client.h"
#include "net/credentials.h"
#include "net/loop.h"
#include "telemetry/adapters.h"

namespace penstock::controller {

// How an engine changes its role.
enum class RoleChange : std::uint8_t {
  kNever,
  kByRequest,
  kByLabels,  // Gateways decide which engine prefills, as with vLLM's NIXL connector.
};
[[nodiscard]] RoleChange role_change_of(telemetry::EngineKind kind);

// Pods are named by their UIDs. Lives on one loop.
class RoleRequests {
 public:
  using Credentials = std::function<std::shared_ptr<const net::Credentials>(const std::string& url)>;
  // Gets an empty text once the engine has the role, or why it refused it, once until that is another cause.
  using Done = std::function<void(const std::string& failure)>;

  RoleRequests(net::Loop& loop, net::Client& client, Credentials credentials)
      : loop_(loop), client_(client), credentials_(std::move(credentials)) {}

  // True for the first time, and when another role is asked for.
  [[nodiscard]] bool begins(const std::string& pod, const connect::RequestedRole& role);
  // The engine has confirmed it, or need not be asked.
  [[nodiscard]] bool has(const std::string& pod, const connect::RequestedRole& role) const;
  // May be called again and again: one request is in flight at a time, and one that failed is repeated after a second.
  void request(const std::string& pod, const std::string& url, telemetry::EngineKind kind,
               const connect::RequestedRole& role, Done done);

 private:
  struct Asked {
    std::optional<connect::RequestedRole> asked, has;
    bool is_in_flight = false;
    core::Instant at{};  // Not before.
    std::string failure;
  };

  net::Loop& loop_;
  net::Client& client_;
  const Credentials credentials_;
  std::map<std::string, Asked> pods_;
};

}  // namespace penstock::controller
