// The shell of the load generator: requests go out at their intended times or so many at once, answers are timed.
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
  std::shared_ptr<net::TlsContext> tls;  // null: plain
  std::string tls_host;
  Dialect dialect;
  // Closed loop: so many at once, each followed by the next, after a tenth of a second where it did not end well.
  // 0: open loop.
  std::uint32_t concurrency = 0;
  // Open loop: no more than so many at once. What has to wait for a place still counts from its intended start.
  std::uint32_t max_in_flight = 4096;
  core::Duration timeout = std::chrono::minutes{10};  // of a request, from its intended start
  core::Duration duration = core::Duration::max();    // closed loop: none is sent later
};

// On one loop's thread. A closed loop takes its requests' times from the answers, not from the source.
class Generator {
 public:
  // `source`, `tally` and the loop outlive it. `on_done` is called once, from the loop: all requests have ended.
  Generator(net::Loop& loop, GeneratorOptions options, RequestSource source, Tally& tally,
            std::function<void()> on_done);
  ~Generator();  // cancels what is in flight, without a word to the tally
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  void start();
  // Sends nothing more and cancels what is in flight, which counts as cancelled.
  void stop();

  [[nodiscard]] core::Duration elapsed() const;  // since start()
  [[nodiscard]] std::uint32_t in_flight() const;
  [[nodiscard]] bool at_limit() const;                // a request waits for a place
  [[nodiscard]] core::Duration sending_time() const;  // until the last one was sent
  // CPU time of this thread since start(), in seconds.
  [[nodiscard]] double cpu_s() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::load
