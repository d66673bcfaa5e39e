// The receiving end of ZeroMQ's publish and subscribe: many publishers, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

// Views hold during the call.
struct SubscriberMessage {
  std::string_view endpoint;  // as it was given to add()
  std::string_view topic;     // empty where the message has none
  std::optional<std::uint64_t> sequence;
  std::uint64_t lost = 0;  // messages missing between the last one of this endpoint and this
  bool restarted = false;  // the sequence went back: the publisher began anew
  std::string_view payload;
};

struct SubscriberOptions {
  int high_water_mark = 10'000;                       // messages kept for the handler, of each endpoint
  std::int64_t message_bytes_max = 16 * 1024 * 1024;  // a publisher that sends more is disconnected, and tried anew
  std::string topic;                                  // only topics that begin so
};

struct SubscriberCounts {
  std::uint64_t received = 0;   // handed on
  std::uint64_t malformed = 0;  // of no form that is known; dropped
  std::uint64_t lost = 0;
  std::uint64_t restarts = 0;
};

// Messages may have three frames (topic, sequence, payload: vLLM, SGLang, Dynamo's FPM), two (sequence or topic, payload: the
// first is a sequence if it has 8 bytes) or one (payload). Publishers that are not there are tried again and again.
class Subscriber {
 public:
  using Handler = std::function<void(const SubscriberMessage&)>;
  static constexpr std::size_t kEndpointsMax = 4'096;

  // The handler is called on the subscriber's own thread. It must not destroy the subscriber.
  [[nodiscard]] static core::Result<std::unique_ptr<Subscriber>> start(const SubscriberOptions& options,
                                                                       Handler handler);
  virtual ~Subscriber() = default;  // when it returns, no call comes any more

  // Any thread, the handler's included. Takes effect soon; adding what is there changes nothing, and neither does removing
  // what is not. After remove(), messages that were under way may still come. Errors: an endpoint that ZeroMQ cannot connect
  // to by its form ("tcp://host:port"), too many.
  [[nodiscard]] virtual core::Result<void> add(const std::string& endpoint) = 0;
  virtual void remove(const std::string& endpoint) = 0;

  [[nodiscard]] virtual SubscriberCounts counts() const = 0;  // any thread
};

}  // namespace penstock::connect
