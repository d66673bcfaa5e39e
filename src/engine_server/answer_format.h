// The format of an answer: that of OpenAI's completions, or of Anthropic's messages.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "engine_server/session.h"

namespace penstock::engine_server {

class AnswerFormat {
 public:
  AnswerFormat() = default;
  virtual ~AnswerFormat() = default;
  AnswerFormat(const AnswerFormat&) = delete;
  AnswerFormat& operator=(const AnswerFormat&) = delete;

  // Append the events of a stream, in this order; that of a text any number of times.
  virtual void append_start(std::string& out, const SessionRequest& request) const = 0;
  virtual void append_text(std::string& out, std::string_view text) const = 0;
  virtual void append_end(std::string& out, const SessionRequest& request) const = 0;
  // The answer that is not streamed. `kv_transfer_params` is JSON; may be empty.
  [[nodiscard]] virtual std::string whole(std::string_view text, const SessionRequest& request,
                                          std::string_view kv_transfer_params) const = 0;
  [[nodiscard]] virtual std::string error_body(const api::ApiError& error) const = 0;
};

// `include_usage`: a stream ends with the usage.
[[nodiscard]] std::unique_ptr<const AnswerFormat> completion_format(api::AnswerFrame frame, bool include_usage);
// A message names the one of the stop strings that ended it.
[[nodiscard]] std::unique_ptr<const AnswerFormat> message_format(api::AnswerFrame frame, std::vector<std::string> stop);

}  // namespace penstock::engine_server
