// Answers, events of streams and errors of Anthropic's Messages API, written for the simulated engine and the gateway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace penstock::api {

// How a message ended. `stop_sequence` is the one that ended it; empty: none did.
struct MessageEnd {
  FinishReason finish = FinishReason::kStop;
  std::string_view stop_sequence{};
};
// Writes a complete message of one block of text. `kv_transfer_params` is JSON, as in vLLM; empty means none.
[[nodiscard]] std::string whole_message(const AnswerFrame& frame, std::string_view text, const MessageEnd& end,
                                        const Usage& usage, std::string_view kv_transfer_params = {});
// Append events of a stream with one block of text: the start of the message and of its block, text, and the end of
// both.
void append_message_start(std::string& out, const AnswerFrame& frame, const Usage& usage);
void append_message_text(std::string& out, std::string_view text);
void append_block_stop(std::string& out, std::uint32_t block);
// message_delta. Without prompt tokens that are known, the client keeps those of message_start.
void append_message_delta(std::string& out, const MessageEnd& end, std::uint32_t output_tokens,
                          const std::optional<Usage>& usage);
inline constexpr std::string_view kMessageStopEvent = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

// {"type":"error","error":{"type":…,"message":…}}, with Anthropic's type for the status.
[[nodiscard]] std::string message_error_body(const ApiError& error);
// The same as an event of a stream.
[[nodiscard]] std::string message_error_event(const ApiError& error);
// The error in the format of the API to which the path belongs.
[[nodiscard]] std::string error_body_at(std::string_view path, const ApiError& error);

}  // namespace penstock::api
