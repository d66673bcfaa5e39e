// A streamed answer put together again as one document, whole or cut.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace penstock::api {

// Of a chat completion or a completion with one choice and text alone (InferenceRequest::plain). Not thread-safe.
class AnswerCollector {
 public:
  static constexpr std::size_t kTextBytesMax = 4 * 1024 * 1024;  // of all texts together, as JSON
  static constexpr std::size_t kEventBytesMax = 1024 * 1024;

  explicit AnswerCollector(bool chat);
  ~AnswerCollector();
  AnswerCollector(AnswerCollector&&) noexcept;
  AnswerCollector& operator=(AnswerCollector&&) noexcept;
  void reset();

  // The next bytes of the stream, cut anywhere. Nothing more is taken once it is full() or said an error.
  void take(std::string_view bytes);
  [[nodiscard]] bool has_text() const { return !content_.empty() || !reasoning_.empty(); }
  [[nodiscard]] bool whole() const { return !finish_reason_.empty(); }
  [[nodiscard]] bool full() const { return full_; }  // a limit is reached
  // What the stream said instead of an answer: {"error":…}; empty: nothing of that kind.
  [[nodiscard]] std::string error() const;
  [[nodiscard]] int error_status() const { return error_status_; }

  // What there is, as a whole answer of OpenAI's. Where the stream did not end by itself, the finish reason is "length"
  // and the usage is `counted`; `id` where it told none.
  [[nodiscard]] std::string document(std::string_view id, std::string_view model, const Usage& counted) const;

 private:
  struct Parser;
  void end_line(std::string_view line);
  void append(std::string& text, std::string_view more);

  bool chat_;
  bool full_ = false;
  int error_status_ = 0;
  std::unique_ptr<Parser> parser_;
  std::string line_;  // the part of one that has come
  // All as JSON has them between the quotes, so that nothing is unescaped only to be escaped again.
  std::string id_, model_, content_, reasoning_, reasoning_name_, refusal_, finish_reason_;
  std::string created_, usage_, error_;  // JSON
};

}  // namespace penstock::api
