// Assembles a streamed response into one document, complete or truncated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace penstock::api {

// Supports chat completions and completions with one choice that is text only (InferenceRequest::plain). Not
// thread-safe.
class AnswerCollector {
 public:
  static constexpr std::size_t kTextBytesMax = 4 * 1024 * 1024;  // Limit for all texts together, as JSON.
  static constexpr std::size_t kEventBytesMax = 1024 * 1024;

  explicit AnswerCollector(bool chat);
  ~AnswerCollector();
  AnswerCollector(AnswerCollector&&) noexcept;
  AnswerCollector& operator=(AnswerCollector&&) noexcept;
  void reset();

  // Consumes the next bytes of the stream, split anywhere. Input is ignored once full() or error() is set.
  void take(std::string_view bytes);
  [[nodiscard]] bool has_text() const { return !content_.empty() || !reasoning_.empty(); }
  [[nodiscard]] bool whole() const { return !finish_reason_.empty(); }
  [[nodiscard]] bool full() const { return full_; }  // A limit was reached.
  // Returns the stream's error document, {"error":…}, or an empty string.
  [[nodiscard]] std::string error() const;
  [[nodiscard]] int error_status() const { return error_status_; }

  // Returns the response so far as an OpenAI document. If the stream did not end by itself, the finish reason is
  // "length" and the usage is `counted`. `id` is used if the stream had none.
  [[nodiscard]] std::string document(std::string_view id, std::string_view model, const Usage& counted) const;

 private:
  struct Parser;
  void end_line(std::string_view line);
  void append(std::string& text, std::string_view more);

  bool chat_;
  bool full_ = false;
  int error_status_ = 0;
  std::unique_ptr<Parser> parser_;
  std::string line_;  // The incomplete last line.
  // All strings are stored as JSON text without quotes, so that nothing is unescaped and escaped again.
  std::string id_, model_, content_, reasoning_, reasoning_name_, refusal_, finish_reason_;
  std::string created_, usage_, error_;  // JSON.
};

}  // namespace penstock::api
