// The I/O part of the load generator: sends requests at intended times or with fixed concurrency, and times the
// responses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/time.h"
#include "load/request_shape.h"
#include "load/request_writer.h"
#include "load/tally.h"
#include "net/address.h"
#include "net/loop.h"

namespace penstock::net {
class TlsContext;
}

namespace penstock::load {

struct GeneratorOptions {
  net::Address address;
  std::shared_ptr<net::TlsContext> tls;  // Null for plain connections.
  std::string tls_host;
  Dialect dialect;
  // Closed loop: number of concurrent requests. Each one is replaced when it ends, after 100 ms if it failed. 0 means
  // open loop.
  std::uint32_t concurrency = 0;
  // Open loop: maximum number of requests in flight. Requests that wait for it are timed from their intended start.
  std::uint32_t max_in_flight = 4096;
  core::Duration timeout = std::chrono::minutes{10};  // Time limit of a request from its intended start.
  core::Duration duration = core::Duration::max();    // Closed loop: no request is sent after this time.
};

// Runs on one event loop. A closed loop takes the times of its requests from the responses, not from the source.
class Generator {
 public:
  // `source`, `tally` and the loop must outlive the generator. `on_done` is called once, from the loop, when all
  // requests have ended.
  Generator(net::Loop& loop, GeneratorOptions options, RequestSource source, Tally& tally,
            std::function<void()> on_done);
  ~Generator();  // Cancels requests in flight without updating the tally.
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  void start();
  // Sends no further requests and cancels those in flight, which count as cancelled.
  void stop();

  [[nodiscard]] core::Duration elapsed() const;  // Since start().
  [[nodiscard]] std::uint32_t in_flight() const;
  [[nodiscard]] bool at_limit() const;                // A request waits for max_in_flight.
  [[nodiscard]] core::Duration sending_time() const;  // Time until the last request was sent.
  // CPU time of this thread since start(), in seconds.
  [[nodiscard]] double cpu_s() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::load
