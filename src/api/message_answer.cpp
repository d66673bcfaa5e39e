// The fields and their order match the answers of vLLM and Anthropic.
#include "api/message_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "api/endpoints.h"
#include "api/json_text.h"

namespace penstock::api {
namespace {

std::string_view type_of_status(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// "stop_reason":…,"stop_sequence":…
void append_stop(std::string& out, const MessageEnd& end) {
  const bool has_stop = !end.stop_sequence.empty();
  const std::string_view reason = end.finish == FinishReason::kLength  ? R"("max_tokens")"
                                  : end.finish == FinishReason::kAbort ? "null"
                                  : has_stop                           ? R"("stop_sequence")"
                                                                       : R"("end_turn")";
  out.append(R"("stop_reason":)").append(reason).append(R"(,"stop_sequence":)");
  if (has_stop)
    append_json_string(out, end.stop_sequence);
  else
    out += "null";
}

// Cached tokens are not among the input tokens.
void append_counts(std::string& out, const Usage& usage) {
  const std::uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  fmt::format_to(std::back_inserter(out), R"("input_tokens":{},"output_tokens":{})", usage.prompt_tokens - cached,
                 usage.completion_tokens);
  if (usage.cached_known) fmt::format_to(std::back_inserter(out), R"(,"cache_read_input_tokens":{})", cached);
}

void append_identity(std::string& out, const AnswerFrame& frame) {
  out += R"("id":)";
  append_json_string(out, frame.id);
  out += R"(,"type":"message","role":"assistant","model":)";
  append_json_string(out, frame.model);
}

}  // namespace

std::string whole_message(const AnswerFrame& frame, std::string_view text, const MessageEnd& end, const Usage& usage,
                          std::string_view kv_transfer_params) {
  std::string out = "{";
  out.reserve(text.size() + text.size() / 16 + kv_transfer_params.size() + 512);
  append_identity(out, frame);
  out += R"(,"content":[{"type":"text","text":)";
  append_json_string(out, text);
  out += "}],";
  append_stop(out, end);
  out += R"(,"usage":{)";
  append_counts(out, usage);
  out += '}';
  if (!kv_transfer_params.empty()) out.append(R"(,"kv_transfer_params":)").append(kv_transfer_params);
  return out += '}';
}

void append_message_start(std::string& out, const AnswerFrame& frame, const Usage& usage) {
  out += "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{";
  append_identity(out, frame);
  out += R"(,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{)";
  append_counts(out, usage);
  out +=
      "}}}\n\nevent: content_block_start\n"
      "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
}

void append_message_text(std::string& out, std::string_view text) {
  out +=
      "event: content_block_delta\n"
      "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":";
  append_json_string(out, text);
  out += "}}\n\n";
}

void append_block_stop(std::string& out, std::uint32_t block) {
  fmt::format_to(std::back_inserter(out),
                 "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{}}}\n\n", block);
}

void append_message_delta(std::string& out, const MessageEnd& end, std::uint32_t output_tokens,
                          const std::optional<Usage>& usage) {
  out += "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{";
  append_stop(out, end);
  out += R"(},"usage":{)";
  if (usage) {
    Usage known = *usage;
    known.completion_tokens = output_tokens;
    append_counts(out, known);
  } else {
    fmt::format_to(std::back_inserter(out), R"("output_tokens":{})", output_tokens);
  }
  out += "}}\n\n";
}

std::string message_error_body(const ApiError& error) {
  std::string out = R"({"type":"error","error":{"type":")";
  out.append(type_of_status(error.status)).append(R"(","message":)");
  // Clients shorten a conversation when an error begins so.
  const bool too_long = error.code == "context_length_exceeded";
  append_json_string(out, too_long ? "prompt is too long: " + error.message : error.message);
  return out += "}}";
}

std::string message_error_event(const ApiError& error) {
  return "event: error\ndata: " + message_error_body(error) + "\n\n";
}

std::string error_body_at(std::string_view path, const ApiError& error) {
  return dialect_of(path) == Dialect::kAnthropic ? message_error_body(error) : error_body(error);
}

}  // namespace penstock::api
