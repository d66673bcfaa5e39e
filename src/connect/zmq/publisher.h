// The sending side of ZeroMQ's publish and subscribe, with the frames of vLLM's event publisher.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

struct PublisherOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;        // 0 selects a free port.
  int high_water_mark = 10'000;  // Messages kept for a slow subscriber; later ones are lost to it.
};

// One thread at a time may use it. A late subscriber misses earlier messages.
class Publisher {
 public:
  // Errors name the endpoint, such as a port in use or an address of another machine.
  [[nodiscard]] static core::Result<std::unique_ptr<Publisher>> bind(const PublisherOptions& options);
  virtual ~Publisher() = default;

  // Sends topic, sequence number (8 bytes, big-endian, from 0) and payload. Never blocks. Returns false if the message
  // could not be sent to any subscriber; subscribers then see a gap in the numbers. A loss to one slow subscriber is
  // visible only to it, as a gap.
  virtual bool send(std::string_view topic, std::string_view payload) = 0;

  [[nodiscard]] virtual const std::string& endpoint() const = 0;  // "tcp://127.0.0.1:40123"
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint64_t sent() const = 0;
  [[nodiscard]] virtual std::uint64_t dropped() const = 0;
};

}  // namespace penstock::connect
