// Sends several requests at the same time over connections that are kept, and records when each token arrived.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/time.h"
#include "load/answer_timer.h"
#include "load/generator.h"
#include "load/request_shape.h"
#include "net/loop.h"

namespace penstock::load {

struct BurstAnswer {
  RequestRecord record;  // Times since the burst was sent.
  std::vector<core::Duration> token_times;
  std::string response;  // Start of the body of an unsuccessful response.
};

// Uses the address, TLS, dialect and timeout of the options. One burst at a time.
class BurstSender {
 public:
  BurstSender(net::Loop& loop, GeneratorOptions options);
  ~BurstSender();  // Cancels requests in flight.
  BurstSender(const BurstSender&) = delete;
  BurstSender& operator=(const BurstSender&) = delete;

  // Sends one request per shape. Their texts depend on the dialect's seed and the number of requests that were sent
  // before. `on_done` is called once, from the loop, when all have ended or the first one has failed; the others are
  // cancelled then.
  void send(const std::vector<RequestShape>& shapes, std::function<void(std::vector<BurstAnswer>)> on_done);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::load
