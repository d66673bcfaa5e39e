// The health service of gRPC servers, which Envoy and the probes of Kubernetes call.
// Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "net/grpc_server.h"
#include "net/loop.h"

namespace penstock::net {

// Serves its own server, or the part of another handler's calls for which serves() is true: that handler then passes on
// all three functions. Belongs to the loop's thread.
class GrpcHealth final : public GrpcHandler {
 public:
  // Whether a service is serving; nothing if there is none of that name. The empty name is the server as a whole.
  using IsServing = std::function<std::optional<bool>(std::string_view service)>;

  GrpcHealth(Loop& loop, IsServing is_serving);
  ~GrpcHealth();
  GrpcHealth(const GrpcHealth&) = delete;
  GrpcHealth& operator=(const GrpcHealth&) = delete;

  [[nodiscard]] static bool serves(const GrpcCall& call);

  void on_message(GrpcCall& call, std::string_view message, bool is_first) override;
  void on_gone(GrpcCall& call) override;
  // Sends what has changed to the calls of Watch. Happens each second, too.
  void publish();
  // Ends the calls of Watch, for a drain: a connection stays open for its calls.
  void end_watches();

 private:
  struct Watch {
    std::string service;
    int sent = 0;
  };
  [[nodiscard]] int status_of(std::string_view service) const;
  static void send(GrpcCall& call, Watch& watch, int status);

  Loop& loop_;
  const IsServing is_serving_;
  std::map<GrpcCall*, Watch> watches_;
  Loop::Timer timer_;
};

}  // namespace penstock::net
