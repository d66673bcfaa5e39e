// KEDA's external scaler: KEDA and the HPA that it makes follow the planner's target for a pool.
// Source: https://keda.sh/docs/2.21/scalers/external/, pkg/scalers/externalscaler/externalscaler.proto of KEDA 2.21
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "connect/recommended_replicas.h"
#include "net/grpc_server.h"
#include "net/loop.h"

namespace penstock::connect {

// Serves the five methods of externalscaler.ExternalScaler. A trigger names the pool, and the model if it wants to, in
// its metadata; with one pool it need not. The metric is the target itself, per replica 1, so that the HPA's result is
// the target. While the target is unknown, calls end with UNAVAILABLE, which changes no replicas, and streams
// send nothing.
class ExternalScaler final : private net::GrpcHandler {
 public:
  static constexpr std::string_view kMetric = "penstock_target_replicas";

  // Owns the listening socket.
  ExternalScaler(net::Loop& loop, int listening, Recommended recommended,
                 std::shared_ptr<net::TlsContext> tls = nullptr);
  ~ExternalScaler();

  // Ends streams with OK and announces the end of all connections, after which KEDA connects again without a pause. New
  // connections are accepted.
  void disconnect();
  // The same, and stops listening.
  void drain();
  // Calls by method and status, for metrics.
  struct CallCount {
    std::string_view method, status;
    std::uint64_t calls = 0;
  };
  [[nodiscard]] std::vector<CallCount> calls() const;
  [[nodiscard]] std::uint32_t connections() const { return server_.counters().open; }

 private:
  struct Stream {
    std::string pool;
    bool is_spec = false;
    std::optional<bool> sent_active;
    bool sent_spec = false;
  };

  void on_message(net::GrpcCall& call, std::string_view message, bool is_first) override;
  void on_gone(net::GrpcCall& call) override;
  void end_streams();
  void push();
  void push(net::GrpcCall& call, Stream& stream, const RecommendedReplicas& pool);
  void end(net::GrpcCall& call, std::string_view method, net::GrpcStatus status, std::string_view text = {});

  Recommended recommended_;
  net::Loop& loop_;
  std::map<net::GrpcCall*, Stream> streams_;
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> counts_;
  net::Loop::Timer timer_ = 0;
  bool draining_ = false;
  net::GrpcServer server_;
};

}  // namespace penstock::connect
