// Observes answers in transit: their tokens, their usage, and whether they end as they should.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "api/answer_scanner.h"

namespace penstock::api {

// Observes the bytes of a response in transit, including chunk framing. The first bytes show whether the response is
// chunked, because no response starts with a line of hexadecimal digits. The results depend on the bytes only, not on
// how they are split into pieces.
//
// An event carries text if it has a string in a choice's delta, message or `text`, a tool call, a string `delta` of
// /v1/responses, or a content_block_delta of a message, regardless of the number of tokens and choices. The role of a
// chat, signatures, the finish reason and the usage do not count. An event like the previous one except for its text is
// compared with it, others are scanned.
class AnswerWatch {
 public:
  // `choices` is the number of choices that the answer has if it is whole.
  void reset(bool stream, std::uint64_t choices = 1);
  // Returns the number of events with text that ended in these bytes; 0 for a response that is not streamed. About 0.1
  // µs per event.
  std::uint32_t take(std::string_view bytes);

  [[nodiscard]] std::uint32_t text_events() const { return text_events_; }
  // Events of a stream with a choice, with text or without.
  [[nodiscard]] std::uint32_t choice_events() const { return choice_events_; }
  // Size of the output as JSON text, of events that have ended or of the response.
  [[nodiscard]] std::uint64_t text_bytes() const { return stream_ ? text_bytes_ : document().text_bytes; }
  [[nodiscard]] const std::optional<Usage>& usage() const { return stream_ ? usage_ : document().usage; }
  [[nodiscard]] bool done() const { return done_; }  // [DONE] or the last event of its protocol was observed.
  // The response has its end: a stream the finish reason of each choice, [DONE] or the last event of its protocol,
  // another response a whole document. With more than kChoicesKnown choices finish reasons are no end.
  [[nodiscard]] bool whole() const;
  // Returns true if the finish reason of the choice was observed. `choice` is less than kChoicesKnown.
  [[nodiscard]] bool has_finished(std::uint32_t choice) const { return finished_[choice]; }
  // Of a stream of a message: the index of the block that has begun and not ended, and whether it has its stop reason.
  [[nodiscard]] std::optional<std::uint32_t> open_block() const { return open_block_; }
  [[nodiscard]] bool has_stop_reason() const { return has_stop_reason_; }
  // An event of a stream carried something. Errors, choices without text, finish reason and other content, and the
  // events that open a stream of /v1/responses or a message and its blocks do not.
  [[nodiscard]] bool has_content() const { return has_content_; }
  [[nodiscard]] bool malformed() const {  // An event or the response is not JSON.
    return stream_ ? malformed_ : scanner_ != nullptr && scanner_->malformed();
  }
  // Status of the first error in the stream or of the error document; 0: none.
  [[nodiscard]] int error_status() const { return stream_ ? error_status_ : document().error_status; }
  // Id, model and time of the latest event with text of a stream, for events that are added to it; those of
  // `other` where there is none.
  [[nodiscard]] AnswerFrame frame(AnswerFrame other) const;
  // An event has started and not ended, so that bytes written now would become part of it.
  [[nodiscard]] bool within_event() const { return stream_ && (within_event_ || is_within_line()); }

  // About the bytes of the latest take():
  // Events with a usage and an empty list of choices that ended in them.
  [[nodiscard]] std::uint32_t usage_events() const { return usage_events_; }
  // Position up to which they hold whole chunks and whole lines, except a usage event that has not ended.
  [[nodiscard]] std::size_t settled() const { return settled_; }
  // The last chunk began in them or before.
  [[nodiscard]] bool over() const { return framing_ == Framing::kOver; }
  // Its position; npos if it began before them.
  [[nodiscard]] std::size_t last_chunk_at() const { return last_chunk_at_; }

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
  enum class LongLine : std::uint8_t { kNone, kData, kOther };  // A line that is scanned without being kept.

  [[nodiscard]] bool is_within_line() const { return !line_.empty() || long_line_ != LongLine::kNone; }
  bool take_framing(char c);
  void begin_payload();
  // What the response says that is not streamed.
  [[nodiscard]] const AnswerFacts& document() const { return scanner_ != nullptr ? scanner_->facts() : kNoFacts; }
  void scan(std::string_view bytes);
  void take_stream(std::string_view payload);
  void keep_line(std::string_view bytes);
  void end_line(std::string_view line);
  [[nodiscard]] bool take_like_last(std::string_view event);
  void end_event(std::string_view event);
  void end_document(const AnswerScanner& document);
  void take_usage(const AnswerFacts& facts);

  static constexpr AnswerFacts kNoFacts{};
  bool stream_ = false;
  bool done_ = false, ended_ = false, malformed_ = false;
  bool within_event_ = false;
  bool within_usage_event_ = false;
  LongLine long_line_ = LongLine::kNone;
  Framing framing_ = Framing::kUnknown;
  std::uint8_t size_digits_ = 0;
  std::uint32_t text_events_ = 0, choice_events_ = 0, usage_events_ = 0;
  int error_status_ = 0;
  std::uint64_t chunk_left_ = 0, text_bytes_ = 0;
  std::size_t settled_ = 0, last_chunk_at_ = 0;
  std::optional<Usage> usage_;
  // Of a document that comes in pieces: a long line, or the response; null: there was none yet. Most streams have none.
  std::unique_ptr<AnswerScanner> scanner_;
  std::string line_;         // The part of a line that was taken so far.
  std::string frame_;        // The latest event with text, without its text; empty: there is none.
  std::size_t text_at_ = 0;  // Position of the text in it.
  bool has_content_ = false, has_stop_reason_ = false;
  std::optional<std::uint32_t> open_block_;
  std::uint64_t choices_ = 1;
  std::bitset<kChoicesKnown> finished_;
};

// Removes the events of a stream that have a usage and an empty list of choices. `payload` holds whole events.
[[nodiscard]] std::string without_usage_events(std::string_view payload);

}  // namespace penstock::api
