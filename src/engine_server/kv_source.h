// Transfer of KV, prefill side: holds KV until it is fetched and sends bytes at the rate of the modelled transfer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "core/time.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::engine_server {

struct KvSourceOptions {
  std::uint32_t wire_bytes_per_token = 64;
  double seconds_per_token = 0.0;  // Wall-clock seconds.
  core::Duration hold_time = std::chrono::seconds{60};
};

class KvSource {
 public:
  // `release(number)` is called when the KV is no longer needed.
  KvSource(net::Loop& loop, const KvSourceOptions& options, std::function<void(std::uint32_t)> release);
  ~KvSource();
  KvSource(const KvSource&) = delete;
  KvSource& operator=(const KvSource&) = delete;

  void offer(std::uint32_t number, std::uint32_t tokens);
  [[nodiscard]] bool has(std::uint32_t number) const { return offers_.contains(number); }
  // The number must be offered. Sends the bytes and releases the KV when all were taken; if the client leaves earlier,
  // the KV stays available.
  void serve(net::Exchange& exchange, std::uint32_t number);

  [[nodiscard]] std::size_t sending() const { return sendings_.size(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t expired() const { return expired_; }

 private:
  class Sending;
  struct Offer {
    std::uint32_t tokens = 0;
    std::uint32_t sendings = 0;
    core::Instant expires;
  };
  void end(Sending& sending, bool whole);
  void sweep();

  net::Loop& loop_;
  KvSourceOptions options_;
  std::function<void(std::uint32_t)> release_;
  std::map<std::uint32_t, Offer> offers_;
  std::map<std::uint64_t, std::unique_ptr<Sending>> sendings_;
  std::uint64_t next_sending_ = 0, sent_ = 0, expired_ = 0;
  net::Loop::Timer sweep_timer_ = 0;
};

}  // namespace penstock::engine_server
