// Finds what an answer or one event of a stream says about its tokens and its end.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "api/answer.h"

namespace penstock::api {

inline constexpr std::uint32_t kChoicesKnown = 128;  // Choices whose ends are known one by one.

// What one JSON document says. Names count only at their place: for example, "usage" in the outermost object or in its
// "response", not in a tool's schema that the document repeats.
struct AnswerFacts {
  bool has_output = false;                // A choice or delta has text or a tool call.
  bool has_finish = false;                // A choice has a finish reason.
  bool is_last = false;                   // The event is the last one of its protocol.
  bool is_preamble = false;               // The event opens a stream of /v1/responses or a message, before its output.
  bool opens_block = false;               // The event begins a block of a message …
  bool closes_block = false;              // … or ends it.
  bool ends_message = false;              // The event has the stop reason of a message.
  std::uint32_t block = 0;                // Index of the block.
  bool has_extra = false;                 // A choice has a list or an object of its own, as logprobs or token ids.
  bool has_choices = false;               // There is a field "choices" …
  std::uint32_t choices = 0;              // … with this number of elements.
  std::uint64_t text_bytes = 0;           // Size of the output's strings as JSON text.
  int error_status = 0;                   // Status of an error object; 502 if it names none; 0: there is no error.
  std::optional<Usage> usage;             // Absent if the engine's numbers are negative, fractional or beyond 32 bits.
  bool usage_has_prompt = false;          // The usage names tokens of the prompt, or a total.
  std::bitset<kChoicesKnown> finished;    // Indices of the choices with a finish reason.
  std::uint32_t text_strings = 0;         // Number of strings in the output …
  std::size_t text_at = 0, text_end = 0;  // … and the position of the last one, without its quotes.
};

// Takes a document in pieces, split anywhere, and keeps none of them. Arrays are checked loosely: a missing comma is
// not noticed.
class AnswerScanner {
 public:
  void reset();
  void take(std::string_view bytes);
  [[nodiscard]] const AnswerFacts& facts() const { return facts_; }
  [[nodiscard]] bool complete() const { return depth_ == 0 && expect_ == Expect::kNothing && !malformed_; }
  [[nodiscard]] bool malformed() const { return malformed_; }
  [[nodiscard]] bool empty() const { return taken_ == 0; }

 private:
  static constexpr std::size_t kDepthMax = 128;
  enum class Role : std::uint8_t {
    kOther,
    kRoot,
    kResponse,  // The object "response" or "message" of an event.
    kChoices,
    kChoice,
    kDelta,    // A delta or message, and everything in it.
    kOutput,   // "output" of a complete response, and everything in it.
    kContent,  // "content" of a complete message, and all in it but arguments of tools, which are a delta.
    kUsage,
    kUsageDetails,
    kError,
  };
  enum class Expect : std::uint8_t { kValue, kKey, kColon, kComma, kNothing };
  enum class Token : std::uint8_t { kNone, kKey, kString, kScalar };
  struct Level {
    Role role = Role::kOther;
    bool is_object = false;
  };

  [[nodiscard]] std::string_view key() const { return {key_.data(), key_size_}; }
  [[nodiscard]] Role role() const { return innermost_.role; }
  [[nodiscard]] bool in_object() const { return innermost_.is_object; }
  [[nodiscard]] Role role_of_container(bool is_object) const;
  [[nodiscard]] bool is_text() const;
  // Each returns the first byte that does not belong to the token, or the end.
  [[nodiscard]] const char* take_string(const char* at, const char* end, std::size_t position);
  [[nodiscard]] const char* take_scalar(const char* at, const char* end);
  void take_outside(char c);
  void open(bool is_object);
  void close(bool is_object);
  void end_usage();
  void begin_key();
  void begin_string();
  void end_string();
  void end_scalar();
  void set_usage(std::uint64_t number);
  void end_value() { expect_ = depth_ == 0 ? Expect::kNothing : in_object() ? Expect::kComma : Expect::kValue; }

  AnswerFacts facts_;
  Level innermost_;                       // Of the objects and arrays that are open …
  std::array<Level, kDepthMax> outer_{};  // … and those around it, after one that stands for none.
  std::size_t depth_ = 0;
  std::size_t taken_ = 0;
  Expect expect_ = Expect::kValue;
  Token token_ = Token::kNone;
  bool escaped_ = false, malformed_ = false;
  bool first_in_object_ = false;  // No field of the innermost object was seen yet.
  bool text_ = false;             // The string is output.
  bool finishes_ = false;         // The open choice has a finish reason.
  std::uint32_t choice_ = 0;      // Index of the open choice.
  std::size_t string_at_ = 0;
  std::array<char, 32> key_{}, word_{};  // The latest name, and the value that is being read, cut off.
  std::size_t key_size_ = 0, word_size_ = 0;
  Usage usage_;
  std::uint32_t total_tokens_ = 0;
  bool usage_valid_ = true, prompt_known_ = false;
  bool counts_cache_apart_ = false;  // The prompt's tokens are "input_tokens", to which Anthropic's API adds …
  std::uint64_t cache_read_ = 0, cache_made_ = 0;  // … those that the cache had and those that it got.
  bool cache_read_known_ = false;
};

}  // namespace penstock::api
