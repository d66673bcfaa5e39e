// The gateway's own requests to replicas: health, metrics, models, and prompts that keep a cache warm.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/result.h"
#include "gateway/options.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"

namespace penstock::gateway {

class ReplicaClient {
 public:
  using Done = std::function<void(core::Result<net::FetchAnswer>)>;

  explicit ReplicaClient(net::Loop& loop) : client_(loop) {}

  // `address` counts through the addresses of the replica. An empty `body` sends a GET, otherwise a POST of JSON.
  void send(const ReplicaEndpoint& replica, std::size_t address, const std::string& target, std::string body,
            core::Duration timeout, Done done);

 private:
  net::Client client_;
};

}  // namespace penstock::gateway
