#include <algorithm>
#include <charconv>

#include "api/answer.h"
#include "core/digits.h"

namespace penstock::api {
namespace {

constexpr std::size_t kHeadBytes = 1024;   // Length of the start of an event that is searched for choices.
constexpr std::size_t kUsageBytes = 1024;  // Maximum length of a usage object, including its name.
constexpr std::size_t kSizeDigitsMax = 15;

std::size_t skip_space(std::string_view json, std::size_t at) {
  while (at < json.size() && (json[at] == ' ' || json[at] == '\t' || json[at] == '\n' || json[at] == '\r')) ++at;
  return at;
}

// Returns the position of the closing quote of the string that starts after `at - 1`.
std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (std::size_t end = json.find('"', at); end != std::string_view::npos; end = json.find('"', end + 1)) {
    std::size_t backslashes = 0;
    while (end - backslashes > at && json[end - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) return end;
  }
  return std::string_view::npos;
}

enum class Output : std::uint8_t { kNone, kText, kCalls };

Output output_named(std::string_view key) {
  if (key == "content" || key == "text" || key == "reasoning_content" || key == "reasoning" || key == "refusal")
    return Output::kText;
  return key == "tool_calls" || key == "function_call" ? Output::kCalls : Output::kNone;
}

// Returns true if the value at `at` is a non-empty string, array or object.
bool is_nonempty(std::string_view json, std::size_t at, Output output) {
  if (at >= json.size()) return false;
  if (output == Output::kText) return json[at] == '"' && at + 1 < json.size() && json[at + 1] != '"';
  if (json[at] != '[' && json[at] != '{') return false;
  at = skip_space(json, at + 1);
  return at < json.size() && json[at] != ']' && json[at] != '}';
}

// Matches an event of /v1/responses: {"type":"response.output_text.delta",…,"delta":"text"}.
bool has_delta(std::string_view event) {
  constexpr std::string_view kDelta = R"("delta")";
  const std::size_t at = event.find(kDelta);
  if (at == std::string_view::npos) return false;
  const std::size_t colon = skip_space(event, at + kDelta.size());
  return colon < event.size() && event[colon] == ':' && is_nonempty(event, skip_space(event, colon + 1), Output::kText);
}

bool has_text(std::string_view event) {
  std::size_t at = event.find(R"("choices")");
  if (at == std::string_view::npos) return has_delta(event);
  for (at = event.find('"', at + 9); at != std::string_view::npos; at = event.find('"', at)) {
    const std::size_t end = end_of_string(event, at + 1);
    if (end == std::string_view::npos) return false;
    const Output output = output_named(event.substr(at + 1, end - at - 1));
    at = end + 1;
    if (output == Output::kNone) continue;
    const std::size_t colon = skip_space(event, at);
    // The string is a value that equals a key's name.
    if (colon >= event.size() || event[colon] != ':') continue;
    at = skip_space(event, colon + 1);
    if (is_nonempty(event, at, output)) return true;
  }
  return false;
}

std::uint32_t tokens_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, UINT32_MAX));
}

void set(Usage& usage, std::string_view key, std::uint64_t number) {
  const std::uint32_t tokens = tokens_of(number);
  // The second names belong to /v1/responses.
  if (key == "prompt_tokens" || key == "input_tokens") usage.prompt_tokens = tokens;
  if (key == "completion_tokens" || key == "output_tokens") usage.completion_tokens = tokens;
  if (key == "cached_tokens") {  // Field of prompt_tokens_details or input_tokens_details.
    usage.cached_tokens = tokens;
    usage.cached_known = true;
  }
}

// Parses the value of "usage" if it is a complete object.
std::optional<Usage> parse_usage(std::string_view json) {
  std::size_t at = skip_space(json, 0);
  if (at >= json.size() || json[at] != ':') return std::nullopt;
  at = skip_space(json, at + 1);
  if (at >= json.size() || json[at] != '{') return std::nullopt;
  Usage usage;
  usage.cached_known = false;
  std::uint32_t total = 0;  // Some rerankers report only the total.
  std::string_view key;
  for (int depth = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      const std::size_t end = end_of_string(json, at + 1);
      if (end == std::string_view::npos) return std::nullopt;
      key = json.substr(at + 1, end - at - 1);
      at = end + 1;
    } else if (c >= '0' && c <= '9') {
      std::uint64_t number = UINT64_MAX;  // Also the result for a number that is out of range.
      const auto end = std::from_chars(json.data() + at, json.data() + json.size(), number).ptr;
      set(usage, key, number);
      if (key == "total_tokens") total = tokens_of(number);
      key = {};
      at = static_cast<std::size_t>(end - json.data());
    } else {
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) {
        if (usage.prompt_tokens == 0) usage.prompt_tokens = total - std::min(total, usage.completion_tokens);
        return usage;
      }
      if (c == '-') key = {};
      ++at;
    }
  }
  return std::nullopt;
}

// Appends to a line of which only the first kHeadBytes and the last kUsageBytes are needed.
void append_ends(std::string& line, std::string_view bytes) {
  if (line.size() < kHeadBytes) {
    const std::string_view head = bytes.substr(0, kHeadBytes - line.size());
    line.append(head);
    bytes.remove_prefix(head.size());
  }
  if (bytes.size() > kUsageBytes) bytes.remove_prefix(bytes.size() - kUsageBytes);
  if (line.size() + bytes.size() > kHeadBytes + kUsageBytes)
    line.erase(kHeadBytes, line.size() + bytes.size() - kHeadBytes - kUsageBytes);
  line.append(bytes);
}

std::string_view last(std::string_view text, std::size_t bytes) {
  return text.size() > bytes ? text.substr(text.size() - bytes) : text;
}

}  // namespace

void AnswerWatch::reset(bool stream) {
  stream_ = stream;
  done_ = within_event_ = false;
  framing_ = Framing::kUnknown;
  size_digits_ = 0;
  text_events_ = 0;
  chunk_left_ = 0;
  usage_.reset();
  line_.clear();
}

std::uint32_t AnswerWatch::take(std::string_view bytes) {
  const std::uint32_t before = text_events_;
  while (!bytes.empty()) {
    std::size_t taken = bytes.size();
    if (framing_ == Framing::kPayload) {
      taken = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_left_, bytes.size()));
      chunk_left_ -= taken;
      if (chunk_left_ == 0) framing_ = Framing::kPayloadEnd;
    } else if (framing_ == Framing::kOver) {
      break;
    } else if (framing_ != Framing::kPlain) {
      if (take_framing(bytes.front())) bytes.remove_prefix(1);
      continue;
    }
    const std::string_view payload = bytes.substr(0, taken);
    stream_ ? take_stream(payload) : take_whole(payload);
    bytes.remove_prefix(taken);
  }
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
    if (end == std::string_view::npos) return append_ends(line_, payload);
    if (line_.empty()) {
      end_line(payload.substr(0, end));
    } else {
      append_ends(line_, payload.substr(0, end));
      end_line(line_);
      line_.clear();
    }
    payload.remove_prefix(end + 1);
  }
}

void AnswerWatch::end_line(std::string_view line) {
  constexpr std::string_view kData = "data:", kDone = "[DONE]";
  within_event_ = !line.empty() && line != "\r";
  if (line.substr(0, kData.size()) != kData) return;
  const std::size_t value = skip_space(line, kData.size());
  if (line.substr(value, kDone.size()) == kDone) {
    done_ = true;
    return;
  }
  if (has_text(line.substr(0, kHeadBytes))) ++text_events_;
  record_usage(last(line, kUsageBytes));
}

// A possible start of usage stays in line_ until the rest arrives.
void AnswerWatch::take_whole(std::string_view payload) {
  if (!line_.empty()) {
    line_.append(payload.substr(0, kUsageBytes));
    record_usage(line_);
  }
  if (payload.size() > kUsageBytes || line_.empty()) {
    record_usage(payload);
    line_ = last(payload, kUsageBytes);
  }
  if (line_.size() > kUsageBytes) line_.erase(0, line_.size() - kUsageBytes);
}

void AnswerWatch::record_usage(std::string_view json) {
  constexpr std::string_view kName = R"(usage")";
  // The search omits the first quote, because the letter u is rarer in responses than quotes are.
  for (std::size_t at = json.find(kName); at != std::string_view::npos; at = json.find(kName, at + kName.size())) {
    if (at == 0 || json[at - 1] != '"') continue;
    const std::string_view rest = json.substr(at + kName.size(), kUsageBytes - kName.size() - 1);
    if (const auto usage = parse_usage(rest)) usage_ = *usage;
  }
}

}  // namespace penstock::api
