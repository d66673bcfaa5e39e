// OpenAI responses and errors: written for the simulated engine and the gateway's refusals, and observed in transit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::api {

struct ApiError {
  int status = 400;
  // OpenAI's error type, also "authentication_error", "rate_limit_error", ….
  std::string_view type = "invalid_request_error";
  std::string_view code;  // For example "model_not_found" or "context_length_exceeded"; empty means null.
  std::string message;
  std::string param;  // Empty means null.
};
// {"error":{"message":…,"type":…,"param":…,"code":…}}
[[nodiscard]] std::string error_body(const ApiError& error);

struct Usage {
  std::uint32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  bool cached_known = true;  // False if the engine did not report cached tokens.
  bool operator==(const Usage&) const = default;
};

void append_usage(std::string& out, const Usage& usage);  // "usage":{…}

enum class FinishReason : std::uint8_t { kStop, kLength };

// Fields that all pieces of one response share.
struct AnswerFrame {
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string model;
  std::int64_t created = 0;  // Seconds of Unix time.
  bool chat = true;
};
// Writes a complete response that is not streamed. `kv_transfer_params` is JSON; empty means none.
[[nodiscard]] std::string whole_answer(const AnswerFrame& frame, std::string_view text, FinishReason finish,
                                       const Usage& usage, std::string_view kv_transfer_params = {});
// Append one event of a stream, "data: {…}\n\n". They append, so that a server allocates no string per token.
void append_first_event(std::string& out, const AnswerFrame& frame);
void append_text_event(std::string& out, const AnswerFrame& frame, std::string_view text);
void append_finish_event(std::string& out, const AnswerFrame& frame, FinishReason finish);
// The event has no choices.
void append_usage_event(std::string& out, const AnswerFrame& frame, const Usage& usage);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

[[nodiscard]] std::string models_body(std::string_view model, std::int64_t created, std::uint32_t context_tokens);

// Observes the bytes of a response in transit, including chunk framing, and counts events without parsing them. The
// first bytes show whether the response is chunked, because no response starts with a line of hexadecimal digits. The
// counts depend on the bytes only, not on how they are split into pieces.
//
// An event carries text if one of its choices has a non-empty `content`, `text`, `reasoning_content`, `reasoning` or
// `refusal`, or a tool or function call, regardless of the number of tokens and choices. The role of a chat, the finish
// reason and the usage do not count. For /v1/responses, each event with a string `delta` carries text. Choices are
// searched in the first KiB of an event, usage in its last KiB, and in a response that is not streamed, usage may be
// anywhere. Usage is an object "usage" of at most 1 KiB; "usage":null is ignored.
class AnswerWatch {
 public:
  void reset(bool stream);
  // Returns the number of events with text that ended in these bytes; 0 for a response that is not streamed. About 0.1
  // µs per event.
  std::uint32_t take(std::string_view bytes);
  [[nodiscard]] std::uint32_t text_events() const { return text_events_; }
  [[nodiscard]] const std::optional<Usage>& usage() const { return usage_; }  // The latest usage in the stream.
  [[nodiscard]] bool done() const { return done_; }                           // [DONE] was observed.
  // An event has started and not ended, so that bytes written now would become part of it.
  [[nodiscard]] bool within_event() const { return stream_ && (within_event_ || !line_.empty()); }

 private:
  enum class Framing : std::uint8_t {
    kUnknown,    // Hexadecimal digits so far, or nothing.
    kPlain,      // Not chunked.
    kSize,       // Size line of a chunk.
    kExtension,  // The rest of the size line.
    kPayload,
    kPayloadEnd,  // The line end after the payload.
    kOver,        // The last chunk was observed, or the framing is invalid.
  };
  bool take_framing(char c);
  void begin_payload();
  void take_stream(std::string_view payload);
  void take_whole(std::string_view payload);
  void end_line(std::string_view line);
  void record_usage(std::string_view json);

  bool stream_ = false;
  bool done_ = false;
  bool within_event_ = false;
  Framing framing_ = Framing::kUnknown;
  std::uint8_t size_digits_ = 0;
  std::uint32_t text_events_ = 0;
  std::uint64_t chunk_left_ = 0;
  std::optional<Usage> usage_;
  std::string line_;  // The part of a line or response that may hold a field of interest; at most 2 KiB.
};

}  // namespace penstock::api
