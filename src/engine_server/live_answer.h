// One client's answer on its way: tokens as events of a stream, or all of them at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "api/answer.h"
#include "engine_server/session.h"
#include "net/server.h"

namespace penstock::engine_server {

struct AnswerShape {
  api::AnswerFrame frame;
  std::string request_id;
  bool stream = false;
  bool include_usage = false;
};

class LiveAnswer final : public net::ExchangeListener {
 public:
  static constexpr std::size_t kWaitingBytesMax = 1024 * 1024;  // for a client that does not read; then it is cut off

  // `on_gone` comes when the client has left; the answer may be destroyed by it.
  LiveAnswer(net::Exchange& exchange, AnswerShape shape, std::function<void()> on_gone);
  LiveAnswer(const LiveAnswer&) = delete;
  LiveAnswer& operator=(const LiveAnswer&) = delete;

  enum class Outcome : std::uint8_t { kMore, kDone, kTooSlow };  // but for kMore, the exchange is over
  // Hands out what is new. `kv_transfer_params`: JSON for the end of a whole answer; may be empty.
  Outcome deliver(const SessionRequest& request, std::string_view kv_transfer_params);
  // The answer is an error instead. Only before the first deliver().
  void refuse(const api::ApiError& error);

  void on_writable() override;
  void on_client_gone() override;

 private:
  void respond_whole(const SessionRequest& request, std::string_view kv_transfer_params);
  void append_tokens(const SessionRequest& request);
  void append_end(const SessionRequest& request);

  net::Exchange& exchange_;
  AnswerShape shape_;
  std::function<void()> on_gone_;
  std::uint32_t sent_ = 0;  // tokens
  bool started_ = false, blocked_ = false;
  std::string waiting_;  // events that the client is not ready for
};

// {"…"} with Content-Type and the request's id, for all answers that are not streams.
void respond_json(net::Exchange& exchange, int status, std::string_view request_id, std::string_view body);

}  // namespace penstock::engine_server
