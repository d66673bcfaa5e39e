// The response to one client: tokens as stream events, or the whole text at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/answer.h"
#include "engine_server/answer_format.h"
#include "engine_server/session.h"
#include "net/server.h"

namespace penstock::engine_server {

struct AnswerShape {
  std::unique_ptr<const AnswerFormat> format;
  std::string request_id;
  bool stream = false;
};

class LiveAnswer final : public net::ExchangeListener {
 public:
  // Buffer limit for a client that does not read; the connection is closed beyond it.
  static constexpr std::size_t kWaitingBytesMax = 1024 * 1024;

  // `on_gone` is called when the client has left; it may destroy this object.
  LiveAnswer(net::Exchange& exchange, AnswerShape shape, std::function<void()> on_gone);
  LiveAnswer(const LiveAnswer&) = delete;
  LiveAnswer& operator=(const LiveAnswer&) = delete;

  // After kDone and kTooSlow the exchange is over.
  enum class Outcome : std::uint8_t { kMore, kDone, kTooSlow };
  // Sends new tokens. `kv_transfer_params` is JSON for the end of a complete response; may be empty.
  Outcome deliver(const SessionRequest& request, std::string_view kv_transfer_params);
  // Ends the answer with the tokens so far and the finish reason "abort".
  void abort(const SessionRequest& request);
  // Sends an error instead. Only allowed before the first deliver().
  void refuse(const api::ApiError& error);

  void on_writable() override;
  void on_client_gone() override;

 private:
  void respond_whole(const SessionRequest& request, std::string_view kv_transfer_params);
  void append_tokens(const SessionRequest& request);

  net::Exchange& exchange_;
  AnswerShape shape_;
  std::function<void()> on_gone_;
  std::uint32_t sent_ = 0;  // Tokens.
  bool started_ = false, blocked_ = false;
  std::string waiting_;  // Buffered events for a slow client.
};

// Fields for responses that are not streams: Content-Type and the request id.
void respond_json(net::Exchange& exchange, int status, std::string_view request_id, std::string_view body);

}  // namespace penstock::engine_server
