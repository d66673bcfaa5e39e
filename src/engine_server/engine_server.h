// An OpenAI-compatible server whose model is the simulated engine, in real time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "api/answer.h"
#include "api/kv_transfer.h"
#include "api/request.h"
#include "core/result.h"
#include "engine_server/engine_loop.h"
#include "engine_server/kv_pull.h"
#include "engine_server/kv_source.h"
#include "engine_server/live_answer.h"
#include "engine_server/options.h"
#include "engine_server/role_switch.h"
#include "engine_server/sleep_mode.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"
#include "telemetry/engine_exposition.h"

namespace penstock::engine_server {

enum class ServerState : std::uint8_t { kStarting, kReady, kDraining };
[[nodiscard]] std::string_view to_string(ServerState state);  // Returns "starting", ….

struct ServerEvents {
  std::function<void()> on_ready;  // Start-up is complete.
  // A drain has ended; the argument is the number of requests and transfers that were aborted.
  std::function<void(std::size_t cut)> on_drained;
};

// Content of GET /penstock/v1/info.
struct ServerInfo {
  ServerState state = ServerState::kStarting;
  bool is_sleeping = false;
  std::size_t requests_open = 0, transfers_open = 0;
  std::string fpm_endpoint, kv_events_endpoint;
};
[[nodiscard]] std::string quoted(std::string_view text);  // Quotes as JSON.
[[nodiscard]] std::string info_body(const ServerOptions& options, const ServerInfo& info);

// All calls belong to the loop's thread.
class EngineServer final : public net::ExchangeHandler {
 public:
  // Starts to listen. Errors: used ports, and addresses of other machines.
  [[nodiscard]] static core::Result<std::unique_ptr<EngineServer>> start(net::Loop& loop, const ServerOptions& options,
                                                                         ServerEvents events);
  EngineServer(net::Loop& loop, const ServerOptions& options, ServerEvents events, int listening, Telemetry telemetry);
  ~EngineServer();
  EngineServer(const EngineServer&) = delete;
  EngineServer& operator=(const EngineServer&) = delete;

  // Refuses new requests, completes those in flight and transfers of held KV, then calls on_drained. A second call ends
  // at once.
  void drain();

  [[nodiscard]] const net::Address& address() const { return address_; }
  [[nodiscard]] ServerState state() const { return state_; }
  [[nodiscard]] ServerInfo info() const;
  [[nodiscard]] engine::EngineState engine_state() const { return engine_.state(); }
  [[nodiscard]] SleepState sleep_state() const { return sleep_mode_.state(); }
  [[nodiscard]] std::size_t requests_open() const { return answers_.size() + pulls_.size() + sleep_mode_.held(); }
  [[nodiscard]] std::size_t open_work() const { return engine_.open() + pulls_.size() + source_.sending(); }

  void on_request(net::Exchange& exchange) override;
  [[nodiscard]] std::string error_body(int status, std::string_view fault) override;

 private:
  struct Pull;

  // Status documents.
  void answer_document(net::Exchange& exchange);
  void answer_health(net::Exchange& exchange);
  void answer_kv(net::Exchange& exchange);
  void answer_metrics(net::Exchange& exchange);
  void refuse(net::Exchange& exchange, const api::ApiError& error);
  void refuse_for_now(net::Exchange& exchange, const api::ApiError& error, core::Duration retry_after);
  [[nodiscard]] bool is_allowed(const net::Exchange& exchange) const;

  // Completions.
  struct KvRole {
    bool prefilled = false;  // See Ask.
    bool keep = false;
  };
  void answer_completion(net::Exchange& exchange, api::Endpoint endpoint);
  void serve(std::unique_ptr<LiveAnswer> answer, api::KvTransfer transfer, std::uint64_t key, core::Instant arrived);
  void begin(const api::InferenceRequest& request, std::unique_ptr<LiveAnswer> answer, std::uint64_t key,
             core::Instant arrived, KvRole kv);
  void begin_pull(std::unique_ptr<LiveAnswer> answer, api::KvTransfer transfer, std::uint64_t key,
                  core::Instant arrived);
  void end_pull(std::uint64_t key, bool good);
  void on_progress(std::uint32_t number);
  void on_gone(std::uint64_t key);
  [[nodiscard]] std::string kv_transfer_params(std::uint32_t number) const;
  [[nodiscard]] bool is_faulty();

  void abort_open();

  void end_start_up();
  void check_drained();
  void end_drain(std::size_t cut);

  net::Loop& loop_;
  ServerOptions options_;
  ServerEvents events_;
  net::Address address_;
  ServerState state_ = ServerState::kStarting;
  core::Instant ready_at_;
  std::int64_t created_ = 0;
  std::uint64_t requests_ = 0, next_key_ = 1;
  telemetry::KvTransfers transfers_;
  bool drained_ = false;

  EngineLoop engine_;
  net::Client client_;
  KvSource source_;
  api::RequestReader reader_;
  api::InferenceRequest request_;
  struct Answer {
    std::unique_ptr<LiveAnswer> live;
    std::uint64_t key = 0;
  };
  std::unordered_map<std::uint32_t, Answer> answers_;         // Keyed by the engine's request number.
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // Maps keys to numbers of answers_.
  std::map<std::uint64_t, std::unique_ptr<Pull>> pulls_;      // Keyed by request key.
  SleepMode sleep_mode_;
  RoleSwitch role_switch_;
  net::Loop::Timer start_up_timer_ = 0, drain_timer_ = 0;
  std::unique_ptr<net::Server> server_;  // Declared last, so that it is destroyed first.
};

}  // namespace penstock::engine_server
