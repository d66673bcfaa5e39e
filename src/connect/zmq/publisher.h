// The sending end of ZeroMQ's publish and subscribe, with the frames of vLLM's event publisher.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

struct PublisherOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;        // 0: any that is free
  int high_water_mark = 10'000;  // messages kept for a subscriber that does not read; later ones are lost to it
};

// For one thread at a time. Subscribers that come late have lost what was sent before.
class Publisher {
 public:
  // Errors name the endpoint: a port that is taken, an address that is not of this machine.
  [[nodiscard]] static core::Result<std::unique_ptr<Publisher>> bind(const PublisherOptions& options);
  virtual ~Publisher() = default;

  // Sends topic, sequence number (8 bytes, big-endian, from 0) and payload. Never blocks. False: it could not be sent to
  // anybody, and its number shows as a gap. What is lost to a slow subscriber alone, only that one can see, by its gaps.
  virtual bool send(std::string_view topic, std::string_view payload) = 0;

  [[nodiscard]] virtual const std::string& endpoint() const = 0;  // "tcp://127.0.0.1:40123"
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint64_t sent() const = 0;
  [[nodiscard]] virtual std::uint64_t dropped() const = 0;
};

}  // namespace penstock::connect
