// A complete gateway on loopback, and scripted replicas.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "gateway/gateway.h"
#include "logging/log_testing.h"
#include "net/client_testing.h"
#include "net/http.h"
#include "net/server_testing.h"

namespace penstock::gateway {

using net::testing::Peer;
using net::testing::RawClient;

inline const std::string kModelsAnswer = R"({"object":"list","data":[{"id":"m"}]})";

inline std::string with_length(std::string_view status, std::string_view body, std::string_view fields = {}) {
  return "HTTP/1.1 " + std::string{status} + "\r\nContent-Type: application/json\r\n" + std::string{fields} +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string{body};
}

inline std::string chunked_head(std::string_view status = "200 OK") {
  return "HTTP/1.1 " + std::string{status} +
         "\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
}

inline std::string chunk(std::string_view payload) {
  std::string text;
  net::append_chunk(text, payload);
  return text;
}

inline const api::AnswerFrame kFrame{"chatcmpl-1", "m", 1, true};

inline std::string text_event(std::string_view text) {
  std::string event;
  api::append_text_event(event, kFrame, text);
  return event;
}

// A complete answer of a working replica.
inline std::string good_answer(std::string_view text = "hello", std::string_view kv_transfer_params = {}) {
  return with_length("200 OK",
                     api::whole_answer(kFrame, text, api::FinishReason::kStop, {12, 3, 4}, kv_transfer_params));
}

// Answers health checks by itself and passes requests for completions to the script, which gets the bytes and the
// number of each, counted from 0. The connection closes when the script returns. Must outlive the gateway.
class TestReplica {
 public:
  using Script = std::function<void(Peer&, const std::string& request, int number)>;

  explicit TestReplica(Script script) : script_(std::move(script)), server_([this](Peer& peer, int) { serve(peer); }) {}

  [[nodiscard]] std::string url() const { return "http://" + server_.address().text(); }
  [[nodiscard]] const net::Address& address() const { return server_.address(); }
  [[nodiscard]] std::vector<std::string> requests() const {
    const std::scoped_lock lock{mutex_};
    return requests_;
  }
  // Without these, /metrics answers with 404.
  void set_metrics(std::string text) {
    const std::scoped_lock lock{mutex_};
    metrics_ = std::move(text);
  }

 private:
  [[nodiscard]] std::string metrics() const {
    const std::scoped_lock lock{mutex_};
    return metrics_;
  }
  void serve(Peer& peer) {
    while (const auto request = peer.read_request()) {
      if (request->starts_with("GET /v1/models")) {
        peer.send(with_length("200 OK", kModelsAnswer));
      } else if (request->starts_with("GET /metrics") && !metrics().empty()) {
        peer.send(with_length("200 OK", metrics()));
      } else if (request->starts_with("GET ")) {
        peer.send(with_length(request->starts_with("GET /health") ? "200 OK" : "404 Not Found", "{}"));
      } else {
        int number = 0;
        {
          const std::scoped_lock lock{mutex_};
          number = static_cast<int>(requests_.size());
          requests_.push_back(*request);
        }
        script_(peer, *request, number);
      }
    }
  }

  Script script_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::string metrics_;
  net::testing::ScriptedServer server_;  // Declared last, because its threads use the other members.
};

inline void answer_well(Peer& peer, const std::string&, int) { peer.send(good_answer()); }

// A replica whose address refuses connections.
inline ReplicaEndpoint replica_named(const std::string& id, signals::Role role = signals::Role::kAggregated) {
  ReplicaEndpoint spec;
  spec.id = id;
  spec.model = "m";
  spec.pool = "default";
  spec.role = role;
  spec.url = "http://127.0.0.1:9";
  spec.addresses = {net::Address{}};
  return spec;
}

inline ReplicaEndpoint spec_of(const TestReplica& replica, const std::string& id,
                               signals::Role role = signals::Role::kAggregated) {
  ReplicaEndpoint spec = replica_named(id, role);
  spec.url = replica.url();
  spec.addresses = {replica.address()};
  return spec;
}

// Entries may come from any thread.
class SharedSink final : public dispatch::LedgerSink {
 public:
  struct Entries {
    std::mutex mutex;
    std::vector<ledger::Entry> closed;
  };
  explicit SharedSink(std::shared_ptr<Entries> entries) : entries_(std::move(entries)) {}
  void opened(const ledger::Entry&) override {}
  void closed(const ledger::Entry& entry) override {
    const std::scoped_lock lock{entries_->mutex};
    entries_->closed.push_back(entry);
  }

 private:
  std::shared_ptr<Entries> entries_;
};

// Health checks and scrapes are switched off.
inline GatewayOptions quiet_options() {
  GatewayOptions options;
  options.dispatch.models = {{"m", {1.0, 0.5, 2.0}, 32'768}};
  options.dispatch.picker.slow_start = core::Duration{};
  options.expose_routing = ExposeRouting::kAlways;
  options.admin_access.tokens = {"token"};
  options.health_interval = options.scrape_interval = std::chrono::hours{1};
  return options;
}

class TestGateway {
 public:
  explicit TestGateway(std::vector<ReplicaEndpoint> replicas, GatewayOptions options = quiet_options())
      : entries_(std::make_shared<SharedSink::Entries>()) {
    auto opened = Gateway::open(std::move(options), net::Address{}, net::Address{},
                                std::make_unique<SharedSink>(entries_), {log_, &log_});
    EXPECT_TRUE(opened) << opened.error().message();
    gateway_ = *std::move(opened);
    gateway_->start();
    set_replicas(std::move(replicas));
  }

  Gateway& operator*() { return *gateway_; }
  void end() { gateway_.reset(); }
  [[nodiscard]] const logging::testing::CapturedLog& log() const { return log_; }
  [[nodiscard]] net::Address address() const { return gateway_->address(); }

  // Returns when all replicas are known to the dispatcher.
  void set_replicas(std::vector<ReplicaEndpoint> replicas) {
    std::vector<std::string> marks;
    for (const ReplicaEndpoint& spec : replicas) {
      const char* phase = spec.phase == dispatch::ReplicaPhase::kWarming ? "warming" : "serving";
      marks.push_back(R"("id":")" + spec.id + R"(","url":")" + spec.url + '"');
      if (spec.phase != dispatch::ReplicaPhase::kDraining) marks.push_back(std::string{R"("phase":")"} + phase);
    }
    gateway_->set_replicas(std::move(replicas));
    EXPECT_TRUE(wait_until([&](const std::string& overview) {
      for (const std::string& mark : marks)
        if (overview.find(mark) == std::string::npos) return false;
      return true;
    })) << admin("/penstock/v1/overview");
  }

  // With the token of quiet_options() and a Host that the admin address knows, unless other fields are given.
  RawClient::Answer admin_answer(std::string_view path,
                                 std::string_view fields = "Host: localhost\r\nAuthorization: Bearer token\r\n") {
    RawClient client{gateway_->admin_address()};
    client.send("GET " + std::string{path} + " HTTP/1.1\r\n" + std::string{fields} + "\r\n");
    return client.read_answer();
  }
  std::string admin(std::string_view path) { return admin_answer(path).body; }
  // Waits until the overview fulfils the condition, or the test's timeout.
  template <class Predicate>
  bool wait_until(Predicate&& holds) {
    for (int i = 0; i < 2000; ++i) {
      if (holds(admin("/penstock/v1/overview"))) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    return false;
  }
  bool wait_for(std::string_view mark) {
    return wait_until([&](const std::string& overview) { return overview.find(mark) != std::string::npos; });
  }
  // Waits until a replica may be chosen and the models of all replicas were read once.
  bool wait_until_ready() {
    return wait_until([&](const std::string&) { return gateway_->ready(); });
  }
  // Waits until the ledger has that number of entries and returns them.
  std::vector<ledger::Entry> closed(std::size_t count) {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::scoped_lock lock{entries_->mutex};
        if (entries_->closed.size() >= count) return entries_->closed;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    ADD_FAILURE() << "the ledger has fewer than " << count << " entries";
    return {};
  }

 private:
  logging::testing::CapturedLog log_;
  std::shared_ptr<SharedSink::Entries> entries_;
  std::unique_ptr<Gateway> gateway_;
};

inline std::string chat_body(std::string_view content = "hi", std::string_view more = {}) {
  return R"({"model":"m","messages":[{"role":"user","content":")" + std::string{content} + R"("}])" +
         std::string{more} + "}";
}
inline const std::string kStream = R"(,"stream":true)";

inline std::string request_to(std::string_view path, std::string_view body, std::string_view fields = {}) {
  return "POST " + std::string{path} + " HTTP/1.1\r\nHost: gateway\r\n" + std::string{fields} +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string{body};
}
inline std::string chat_request(std::string_view body, std::string_view fields = {}) {
  return request_to("/v1/chat/completions", body, fields);
}

// Sends one request on a new connection.
inline RawClient::Answer ask(const TestGateway& gateway, std::string_view body, std::string_view fields = {}) {
  RawClient client{gateway.address()};
  client.send(chat_request(body, fields));
  return client.read_answer();
}

[[nodiscard]] inline std::string field_in(const std::string& head, std::string_view name) {
  net::ResponseHead parsed;
  static_cast<void>(net::parse_response_head(head, parsed));
  return std::string{parsed.field(name)};
}

}  // namespace penstock::gateway
