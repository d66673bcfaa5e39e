#include "api/answer_watch.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "core/digits.h"

namespace penstock::api {
namespace {

constexpr std::size_t kLineBytesMax = 16 * 1024;  // Longer lines are scanned without being kept.
constexpr std::size_t kFrameBytesMax = 2 * 1024;  // Maximum size of an event that others are compared with.
constexpr std::size_t kSizeDigitsMax = 15;
constexpr std::string_view kData = "data:", kDone = "[DONE]";

// The value of a data line, without the space before it.
std::string_view value_of(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t\r", kData.size()), line.size()));
  return line;
}

bool is_usage_event(const AnswerFacts& facts) { return facts.usage && facts.has_choices && facts.choices == 0; }

bool carries_content(const AnswerFacts& facts) {
  if (facts.error_status != 0 || facts.is_preamble) return false;
  return !facts.has_choices || facts.has_output || facts.has_finish || facts.has_extra || is_usage_event(facts);
}

// Returns the position of the closing quote of the string that `json` is within; its size if there is none.
std::size_t end_of_string(std::string_view json) {
  std::size_t at = 0;
  for (; at < json.size() && json[at] != '"'; ++at)
    if (json[at] == '\\') ++at;
  return std::min(at, json.size());
}

}  // namespace

void AnswerWatch::reset(bool stream, std::uint64_t choices) {
  stream_ = stream;
  choices_ = choices;
  finished_.reset();
  open_block_.reset();
  done_ = ended_ = malformed_ = has_content_ = has_stop_reason_ = within_event_ = within_usage_event_ = false;
  long_line_ = LongLine::kNone;
  framing_ = Framing::kUnknown;
  size_digits_ = 0;
  text_events_ = choice_events_ = usage_events_ = 0;
  error_status_ = 0;
  chunk_left_ = text_bytes_ = 0;
  settled_ = 0;
  last_chunk_at_ = std::string_view::npos;
  usage_.reset();
  if (stream) scanner_.reset();
  if (scanner_ != nullptr) scanner_->reset();
  for (std::string* text : {&line_, &frame_}) text->clear();
}

bool AnswerWatch::whole() const { return stream_ ? done_ || ended_ : scanner_ != nullptr && scanner_->complete(); }

AnswerFrame AnswerWatch::frame(AnswerFrame other) const {
  const simdjson::padded_string json{frame_};
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  if (frame_.empty() || parser.iterate(json).get(document) != simdjson::SUCCESS) return other;
  const auto take = [&](std::string_view key, std::string& text) {
    std::string_view value;
    if (document.find_field_unordered(key).get_string().get(value) == simdjson::SUCCESS) text = value;
  };
  take("id", other.id);
  take("model", other.model);
  if (std::int64_t created = 0; document.find_field_unordered("created").get_int64().get(created) == simdjson::SUCCESS)
    other.created = created;
  return other;
}

void AnswerWatch::scan(std::string_view bytes) {
  if (scanner_ == nullptr) scanner_ = std::make_unique<AnswerScanner>();
  scanner_->take(bytes);
}

std::uint32_t AnswerWatch::take(std::string_view bytes) {
  const std::uint32_t before = text_events_;
  const std::size_t size = bytes.size();
  settled_ = 0;
  last_chunk_at_ = std::string_view::npos;
  usage_events_ = 0;
  while (!bytes.empty()) {
    std::size_t taken = bytes.size();
    if (framing_ == Framing::kPayload) {
      taken = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_left_, bytes.size()));
      chunk_left_ -= taken;
      if (chunk_left_ == 0) framing_ = Framing::kPayloadEnd;
    } else if (framing_ == Framing::kOver) {
      settled_ = size;
      break;
    } else if (framing_ != Framing::kPlain) {
      const bool before_chunk = size_digits_ == 0 && (framing_ == Framing::kSize || framing_ == Framing::kUnknown);
      if (before_chunk) last_chunk_at_ = size - bytes.size();
      if (take_framing(bytes.front())) bytes.remove_prefix(1);
      // A chunk has ended.
      if (framing_ == Framing::kSize && size_digits_ == 0 && !is_within_line() && !within_usage_event_)
        settled_ = size - bytes.size();
      continue;
    }
    const std::string_view payload = bytes.substr(0, taken);
    stream_ ? take_stream(payload) : scan(payload);
    bytes.remove_prefix(taken);
    if (framing_ == Framing::kPlain && !within_usage_event_) {
      const std::size_t kept = is_within_line() ? payload.size() - (payload.rfind('\n') + 1) : 0;
      settled_ = std::max(settled_, size - kept);
    }
  }
  if (framing_ == Framing::kOver) settled_ = size;
  return text_events_ - before;
}

// Returns false if the byte belongs to the response itself.
bool AnswerWatch::take_framing(char c) {
  switch (framing_) {
    case Framing::kUnknown:
    case Framing::kSize:
      if (const int digit = core::hex_digit(c); digit >= 0 && size_digits_ < kSizeDigitsMax) {
        ++size_digits_;
        chunk_left_ = chunk_left_ * 16 + static_cast<std::uint64_t>(digit);
        if (framing_ == Framing::kUnknown) line_ += c;
      } else if (size_digits_ > 0 && (c == '\r' || c == '\n' || c == ';')) {
        if (framing_ == Framing::kUnknown) line_.clear();
        framing_ = Framing::kExtension;
        if (c == '\n') begin_payload();
      } else {
        const bool plain = framing_ == Framing::kUnknown;
        framing_ = plain ? Framing::kPlain : Framing::kOver;
        if (plain && !stream_) {
          scan(line_);
          line_.clear();
        }
        return !plain;
      }
      return true;
    case Framing::kExtension:
      if (c == '\n') begin_payload();
      return true;
    default:  // The line end after a payload.
      if (c == '\n') {
        framing_ = Framing::kSize;
        size_digits_ = 0;
        chunk_left_ = 0;
      }
      return true;
  }
}

void AnswerWatch::begin_payload() { framing_ = chunk_left_ > 0 ? Framing::kPayload : Framing::kOver; }

void AnswerWatch::take_stream(std::string_view payload) {
  while (!payload.empty()) {
    const std::size_t end = payload.find('\n');
    if (end == std::string_view::npos) return keep_line(payload);
    const std::string_view rest = payload.substr(0, end);
    payload.remove_prefix(end + 1);
    if (long_line_ != LongLine::kNone) {
      if (long_line_ == LongLine::kData) {
        scan(rest);
        end_document(*scanner_);
      }
      within_event_ = true;
      long_line_ = LongLine::kNone;
    } else if (line_.empty()) {
      end_line(rest);
    } else {
      line_.append(rest);
      end_line(line_);
      line_.clear();
    }
  }
}

void AnswerWatch::keep_line(std::string_view bytes) {
  if (long_line_ == LongLine::kNone) {
    line_.append(bytes);
    if (line_.size() <= kLineBytesMax) return;
    const bool is_data = std::string_view{line_}.starts_with(kData);
    long_line_ = is_data ? LongLine::kData : LongLine::kOther;
    if (is_data) {
      if (scanner_ != nullptr) scanner_->reset();
      scan(value_of(line_));
    }
    std::string{}.swap(line_);
  } else if (long_line_ == LongLine::kData) {
    scan(bytes);
  }
}

void AnswerWatch::end_line(std::string_view line) {
  if (line.empty() || line == "\r") {
    within_event_ = false;
    if (std::exchange(within_usage_event_, false)) ++usage_events_;
    return;
  }
  within_event_ = true;
  if (!line.starts_with(kData)) return;
  const std::string_view value = value_of(line);
  if (value.starts_with(kDone)) {
    done_ = true;
  } else if (!value.empty() && !take_like_last(value)) {
    end_event(value);
  }
}

bool AnswerWatch::take_like_last(std::string_view event) {
  const std::string_view frame = frame_;
  if (frame.empty() || !event.starts_with(frame.substr(0, text_at_))) return false;
  const std::string_view rest = event.substr(text_at_);
  const std::size_t end = end_of_string(rest);
  if (end == 0 || rest.substr(end) != frame.substr(text_at_)) return false;
  ++text_events_;
  ++choice_events_;
  text_bytes_ += end;
  return true;
}

void AnswerWatch::end_event(std::string_view event) {
  AnswerScanner scanner;
  scanner.take(event);
  end_document(scanner);
  const AnswerFacts& facts = scanner.facts();
  const bool is_pattern = facts.text_strings == 1 && !facts.has_finish && !facts.is_last && !facts.usage &&
                          facts.error_status == 0 && !scanner.malformed() && event.size() <= kFrameBytesMax;
  if (!is_pattern) return;
  text_at_ = facts.text_at;
  frame_.clear();
  frame_.reserve(event.size() - (facts.text_end - facts.text_at));
  frame_.append(event.substr(0, facts.text_at)).append(event.substr(facts.text_end));
}

void AnswerWatch::end_document(const AnswerScanner& document) {
  const AnswerFacts& facts = document.facts();
  if (!document.complete()) malformed_ = true;
  text_events_ += facts.has_output ? 1 : 0;
  choice_events_ += facts.has_output || facts.choices > 0 ? 1 : 0;
  text_bytes_ += facts.text_bytes;
  if (facts.has_finish) finished_ |= facts.finished;
  // One choice needs no index.
  ended_ = ended_ || facts.is_last || (facts.has_finish && (choices_ <= 1 || finished_.count() >= choices_));
  done_ = done_ || facts.is_last;
  has_content_ = has_content_ || (document.complete() && carries_content(facts));
  if (facts.opens_block) open_block_ = facts.block;
  if (facts.closes_block) open_block_.reset();
  has_stop_reason_ = has_stop_reason_ || facts.ends_message;
  take_usage(facts);
  if (error_status_ == 0) error_status_ = facts.error_status;
  if (is_usage_event(facts)) within_usage_event_ = true;
}

// The end of a message may name only its output; the beginning has named the prompt.
void AnswerWatch::take_usage(const AnswerFacts& facts) {
  if (!facts.usage) return;
  const std::uint32_t output = facts.usage->completion_tokens;
  if (facts.usage_has_prompt || !usage_) usage_ = facts.usage;
  usage_->completion_tokens = output;
}

std::string without_usage_events(std::string_view payload) {
  std::string out;
  AnswerScanner scanner;
  for (std::size_t begin = 0; begin < payload.size();) {
    // An event ends with an empty line.
    std::size_t end = begin;
    bool is_usage = false, ended = false;
    while (end < payload.size() && !ended) {
      const std::size_t line_end = std::min(payload.find('\n', end), payload.size() - 1);
      const std::string_view line = payload.substr(end, line_end - end);
      end = line_end + 1;
      ended = line.empty() || line == "\r";
      if (!line.starts_with(kData)) continue;
      scanner.reset();
      scanner.take(value_of(line));
      is_usage = is_usage || is_usage_event(scanner.facts());
    }
    if (!is_usage) out.append(payload.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

}  // namespace penstock::api
