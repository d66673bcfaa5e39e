// OpenAI's answers and errors: written for the simulated engine and the gateway's own refusals, and read on their way past.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::api {

struct ApiError {
  int status = 400;
  std::string_view type = "invalid_request_error";  // OpenAI's: also "authentication_error", "rate_limit_error", …
  std::string_view code;                            // "model_not_found", "context_length_exceeded", …; empty: null
  std::string message;
  std::string param;  // empty: null
};
// {"error":{"message":…,"type":…,"param":…,"code":…}}
[[nodiscard]] std::string error_body(const ApiError& error);

struct Usage {
  std::uint32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  bool cached_known = true;  // false: the engine said nothing of its cache
  bool operator==(const Usage&) const = default;
};

void append_usage(std::string& out, const Usage& usage);  // "usage":{…}

enum class FinishReason : std::uint8_t { kStop, kLength };

// What one answer has in all its pieces.
struct AnswerFrame {
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string model;
  std::int64_t created = 0;  // seconds of Unix time
  bool chat = true;
};
// A whole answer, not streamed. `kv_transfer_params` is JSON; empty: none.
[[nodiscard]] std::string whole_answer(const AnswerFrame& frame, std::string_view text, FinishReason finish,
                                       const Usage& usage, std::string_view kv_transfer_params = {});
// One event of a stream, "data: {…}\n\n". Appends, so that a server makes no string for each token.
void append_first_event(std::string& out, const AnswerFrame& frame);  // the role of a chat; nothing for a completion
void append_text_event(std::string& out, const AnswerFrame& frame, std::string_view text);
void append_finish_event(std::string& out, const AnswerFrame& frame, FinishReason finish);
void append_usage_event(std::string& out, const AnswerFrame& frame, const Usage& usage);  // with no choices
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

[[nodiscard]] std::string models_body(std::string_view model, std::int64_t created, std::uint32_t context_tokens);

// Watches the bytes of an answer go by, framing of chunks included, and keeps count without parsing them. Whether there is
// framing shows in the first bytes: no answer begins with a line of hexadecimal digits. Copes with pieces cut anywhere:
// the counts depend on the bytes alone.
//
// An event brings text if one of its choices has a `content`, `text`, `reasoning_content`, `reasoning` or `refusal` that
// is not empty, or a tool or function call: what an engine generated, however many tokens that were and for however many
// choices. The role of a chat, the reason of the end and the usage bring none. Of /v1/responses, each event with a `delta`
// that is a text brings some. Choices are looked for in the first KiB of
// an event, usage in its last; in an answer that is no stream, usage may stand anywhere. Usage is what an object "usage"
// of 1 KiB at most says; "usage":null says nothing.
class AnswerWatch {
 public:
  void reset(bool stream);
  // How many events that bring text ended in these bytes; 0 where the answer is not a stream. About 0.1 µs an event.
  std::uint32_t take(std::string_view bytes);
  [[nodiscard]] std::uint32_t text_events() const { return text_events_; }
  [[nodiscard]] const std::optional<Usage>& usage() const { return usage_; }  // the last that was seen
  [[nodiscard]] bool done() const { return done_; }                           // [DONE] went by
  // Part of an event has come, and its end has not: what were written now would become part of it.
  [[nodiscard]] bool within_event() const { return stream_ && (within_event_ || !line_.empty()); }

 private:
  enum class Framing : std::uint8_t {
    kUnknown,    // hexadecimal digits so far, if anything
    kPlain,      // no chunks
    kSize,       // of a chunk
    kExtension,  // behind the size, up to the end of its line
    kPayload,
    kPayloadEnd,  // the line end behind the payload
    kOver,        // the last chunk was there, or what came is no framing
  };
  bool take_framing(char c);
  void begin_payload();
  void take_stream(std::string_view payload);
  void take_whole(std::string_view payload);
  void end_line(std::string_view line);
  void note_usage(std::string_view json);

  bool stream_ = false;
  bool done_ = false;
  bool within_event_ = false;
  Framing framing_ = Framing::kUnknown;
  std::uint8_t size_digits_ = 0;
  std::uint32_t text_events_ = 0;
  std::uint64_t chunk_left_ = 0;
  std::optional<Usage> usage_;
  std::string line_;  // the part of a line, or the end of an answer, that may hold what is looked for; 2 KiB at most
};

}  // namespace penstock::api
