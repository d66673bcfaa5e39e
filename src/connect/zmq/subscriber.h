// The receiving side of ZeroMQ's publish and subscribe: many publishers, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

// The views are valid during the call.
struct SubscriberMessage {
  std::string_view endpoint;  // The text given to add().
  std::string_view topic;     // Empty if the message has none.
  std::optional<std::uint64_t> publisher, sequence;
  std::uint64_t lost = 0;  // Messages missing since the last one of this endpoint and publisher.
  bool restarted = false;  // The sequence went back because the publisher restarted.
  bool replayed = false;   // It was missed and has been requested again.
  bool malformed = false;  // Its frames have an unknown form; only the endpoint is known.
  std::string_view payload;
};

struct SubscriberOptions {
  int high_water_mark = 10'000;  // Messages kept for the handler, per endpoint.
  // A publisher that sends a larger message is disconnected and connected again.
  std::int64_t message_bytes_max = 16 * 1024 * 1024;
  std::string topic;  // Only topics with this prefix are received.
};

struct SubscriberCounts {
  std::uint64_t received = 0;   // Messages of a known form.
  std::uint64_t malformed = 0;  // Messages of an unknown form.
  std::uint64_t lost = 0;
  std::uint64_t restarts = 0;
};

// Messages may have four frames (topic, publisher, sequence, payload: Dynamo's event plane), three (topic, sequence,
// payload: vLLM, SGLang), two (sequence or topic, payload: the first is a sequence if it has 8 bytes) or one (payload).
// Failed connections are retried.
class Subscriber {
 public:
  using Handler = std::function<void(const SubscriberMessage&)>;
  static constexpr std::size_t kEndpointsMax = 4'096;

  // The handler is called on the subscriber's own thread. It must not destroy the subscriber.
  [[nodiscard]] static core::Result<std::unique_ptr<Subscriber>> start(const SubscriberOptions& options,
                                                                       Handler handler);
  virtual ~Subscriber() = default;  // The handler is not called after the destructor returns.

  // May be called on any thread, also by the handler; takes effect soon. Adding a known endpoint or removing an unknown
  // one does nothing. Messages in flight may still arrive after remove(). Errors: an endpoint whose form ZeroMQ cannot
  // connect to ("tcp://host:port"), too many endpoints.
  //
  // `replay` is the endpoint of a ROUTER socket that sends earlier messages again, as vLLM and SGLang have it; empty if
  // there is none. After a gap, a restart and at the first message, the missing messages are requested there and passed
  // to the handler in their order; what is not there is lost. The thread waits for at most kReplayWait.
  static constexpr std::chrono::milliseconds kReplayWait{1'000};
  [[nodiscard]] virtual core::Result<void> add(const std::string& endpoint, const std::string& replay = {}) = 0;
  virtual void remove(const std::string& endpoint) = 0;

  [[nodiscard]] virtual SubscriberCounts counts() const = 0;  // May be called on any thread.
};

}  // namespace penstock::connect
