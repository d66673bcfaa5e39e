#include "api/answer_scanner.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/byte_words.h"

namespace penstock::api {
namespace {

constexpr int kUnknownError = 502;

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr std::array<bool, 256> kIsScalar = [] {
  std::array<bool, 256> is_scalar{};
  for (const char c : std::string_view{"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+."})
    is_scalar[static_cast<unsigned char>(c)] = true;
  return is_scalar;
}();
constexpr bool is_scalar(char c) { return kIsScalar[static_cast<unsigned char>(c)]; }
constexpr bool begins_scalar(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == 't' || c == 'f' || c == 'n' || c == 'N' || c == 'I';
}

// Skips blocks without strings and brackets, for example in the numbers of an embedding. Setting one bit of a bracket
// makes it a brace.
const char* skip_plain(const char* at, const char* end) {
  constexpr std::ptrdiff_t kBlock = 32;
  for (; end - at >= kBlock; at += kBlock) {
    unsigned found = 0;
    for (std::ptrdiff_t i = 0; i < kBlock; ++i) {
      const auto folded = static_cast<unsigned char>(static_cast<unsigned char>(at[i]) | 0x20U);
      found |=
          static_cast<unsigned>(at[i] == '"' || at[i] == ':') | static_cast<unsigned>(folded == '{' || folded == '}');
    }
    if (found != 0) return at;
  }
  return at;
}

}  // namespace

void AnswerScanner::reset() {
  facts_ = AnswerFacts{};
  innermost_ = Level{};
  depth_ = taken_ = 0;
  expect_ = Expect::kValue;
  token_ = Token::kNone;
  escaped_ = malformed_ = first_in_object_ = text_ = finishes_ = false;
  choice_ = 0;
  key_size_ = word_size_ = 0;
}

void AnswerScanner::take(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  const std::size_t before = taken_;
  const auto position = [&] { return before + static_cast<std::size_t>(at - bytes.data()); };
  while (at < end && !malformed_) {
    if (token_ == Token::kNone) {
      if (expect_ == Expect::kComma && end - at > 1 && at[0] == ',' && at[1] == '"') {
        begin_key();
        at += 2;
      } else {
        if (depth_ > 0 && !in_object() && role() == Role::kOther) at = skip_plain(at, end);
        if (at == end) break;
        taken_ = position();
        take_outside(*at++);
      }
      if (token_ == Token::kNone || at == end) continue;
    }
    at = token_ == Token::kScalar ? take_scalar(at, end) : take_string(at, end, position());
    if (expect_ == Expect::kColon && at < end && *at == ':') {
      expect_ = Expect::kValue;
      ++at;
    }
  }
  taken_ = before + bytes.size();
}

const char* AnswerScanner::take_string(const char* at, const char* end, std::size_t position) {
  const bool is_key = token_ == Token::kKey;
  auto& word = is_key ? key_ : word_;
  std::size_t& size = is_key ? key_size_ : word_size_;
  const char* const begin = at;
  if (std::exchange(escaped_, false)) ++at;
  for (;;) {
    const char* const stop = core::find_either(at, end, '"', '\\');
    const auto kept = std::min(static_cast<std::size_t>(stop - at), word.size() - size);
    // A copy of constant size is the cheaper one; the bytes behind the string do not count.
    if (size == 0 && end - at >= static_cast<std::ptrdiff_t>(word.size()))
      std::memcpy(word.data(), at, word.size());
    else
      std::memcpy(word.data() + size, at, kept);
    size += kept;
    if (stop == end) return end;
    if (*stop == '"') {
      token_ = Token::kNone;
      if (is_key) {
        expect_ = Expect::kColon;
      } else {
        taken_ = position + static_cast<std::size_t>(stop - begin);
        end_string();
      }
      return stop + 1;
    }
    escaped_ = stop + 1 == end;
    if (escaped_) return end;
    at = stop + 2;
  }
}

const char* AnswerScanner::take_scalar(const char* at, const char* end) {
  for (; at < end && is_scalar(*at); ++at)
    if (word_size_ < word_.size()) word_[word_size_++] = *at;
  if (at < end) end_scalar();
  return at;
}

void AnswerScanner::take_outside(char c) {
  if (static_cast<unsigned char>(c) <= ' ' && is_space(c)) return;
  switch (expect_) {
    case Expect::kColon:
      malformed_ = c != ':';
      expect_ = Expect::kValue;
      return;
    case Expect::kComma:
      if (c == '}') return close(true);
      malformed_ = c != ',';
      expect_ = Expect::kKey;
      return;
    case Expect::kKey:
      if (c == '}' && std::exchange(first_in_object_, false)) return close(true);
      if (c != '"') return void(malformed_ = true);
      return begin_key();
    case Expect::kNothing: malformed_ = true; return;
    case Expect::kValue: break;
  }
  if (c == '{' || c == '[') return open(c == '{');
  if (depth_ == 0) return void(malformed_ = true);
  if (c == '"') return begin_string();
  if (!in_object() && c == ']') return close(false);
  if (!in_object() && c == ',') return;
  if (!begins_scalar(c) && (in_object() || !is_scalar(c))) return void(malformed_ = true);
  token_ = Token::kScalar;
  word_[0] = c;
  word_size_ = 1;
}

AnswerScanner::Role AnswerScanner::role_of_container(bool is_object) const {
  if (depth_ == 0) return is_object ? Role::kRoot : Role::kOther;
  const std::string_view name = key();
  switch (role()) {
    case Role::kRoot:
      if (name == "choices") return Role::kChoices;
      if (name == "usage") return Role::kUsage;
      if (name == "response" || name == "message") return Role::kResponse;
      if (name == "delta") return Role::kDelta;
      if (name == "output") return Role::kOutput;
      if (name == "content") return Role::kContent;
      return name == "error" ? Role::kError : Role::kOther;
    case Role::kResponse: return name == "usage" ? Role::kUsage : name == "error" ? Role::kError : Role::kOther;
    case Role::kChoices: return Role::kChoice;
    case Role::kChoice: return name == "delta" || name == "message" ? Role::kDelta : Role::kOther;
    case Role::kDelta: return Role::kDelta;
    case Role::kOutput: return Role::kOutput;
    case Role::kContent: return in_object() && name == "input" ? Role::kDelta : Role::kContent;
    case Role::kUsage:
      return name == "prompt_tokens_details" || name == "input_tokens_details" || name == "completion_tokens_details" ||
                     name == "output_tokens_details"
                 ? Role::kUsageDetails
                 : Role::kOther;
    default: return Role::kOther;
  }
}

void AnswerScanner::open(bool is_object) {
  if (depth_ == kDepthMax) return void(malformed_ = true);
  const Role made = role_of_container(is_object);
  if (made == Role::kError && facts_.error_status == 0) facts_.error_status = kUnknownError;
  if (made == Role::kChoices && role() == Role::kRoot) facts_.has_choices = true;
  if (made == Role::kChoice) {
    ++facts_.choices;
    choice_ = 0;
    finishes_ = false;
  }
  if (made == Role::kOther && role() == Role::kChoice) facts_.has_extra = true;
  // An element of a list of tool calls, also without text.
  if (made == Role::kDelta && role() == Role::kDelta && !in_object()) facts_.has_output = true;
  if (made == Role::kUsage) {
    usage_ = Usage{};
    usage_.cached_known = false;
    total_tokens_ = 0;
    usage_valid_ = true;
    prompt_known_ = counts_cache_apart_ = cache_read_known_ = false;
    cache_read_ = cache_made_ = 0;
  }
  outer_[depth_++] = std::exchange(innermost_, {made, is_object});
  expect_ = is_object ? Expect::kKey : Expect::kValue;
  first_in_object_ = is_object;
}

void AnswerScanner::close(bool is_object) {
  if (in_object() != is_object) return void(malformed_ = true);
  if (role() == Role::kUsage) end_usage();
  if (finishes_ && role() == Role::kChoice && choice_ < kChoicesKnown) facts_.finished.set(choice_);
  innermost_ = outer_[--depth_];
  end_value();
}

void AnswerScanner::end_usage() {
  if (counts_cache_apart_) {
    const std::uint64_t prompt = usage_.prompt_tokens + cache_read_ + cache_made_;
    usage_valid_ = usage_valid_ && prompt <= UINT32_MAX;
    usage_.prompt_tokens = static_cast<std::uint32_t>(prompt);
    if (cache_read_known_) usage_.cached_tokens = static_cast<std::uint32_t>(cache_read_);
    usage_.cached_known = usage_.cached_known || cache_read_known_;
  }
  if (!usage_valid_) return;
  // Some rerankers report only the total.
  if (!prompt_known_) usage_.prompt_tokens = total_tokens_ - std::min(total_tokens_, usage_.completion_tokens);
  facts_.usage_has_prompt = prompt_known_ || total_tokens_ > 0;
  facts_.usage = usage_;
}

bool AnswerScanner::is_text() const {
  const std::string_view name = key();
  switch (role()) {
    case Role::kRoot: return name == "delta";
    case Role::kChoice: return name == "text";
    case Role::kDelta:
      return name != "role" && name != "id" && name != "type" && name != "stop_reason" && name != "stop_sequence" &&
             name != "signature";
    case Role::kOutput: return name == "text" || name == "arguments";
    case Role::kContent: return name == "text" || name == "thinking";
    default: return false;
  }
}

void AnswerScanner::begin_key() {
  expect_ = Expect::kKey;
  first_in_object_ = false;
  token_ = Token::kKey;
  key_size_ = 0;
}

void AnswerScanner::begin_string() {
  token_ = Token::kString;
  text_ = is_text();
  word_size_ = 0;
  string_at_ = taken_ + 1;
}

void AnswerScanner::end_string() {
  const std::string_view name = key(), word{word_.data(), word_size_};
  const std::size_t size = taken_ - string_at_;
  if (text_ && size > 0) {
    facts_.has_output = true;
    facts_.text_bytes += size;
    ++facts_.text_strings;
    facts_.text_at = string_at_;
    facts_.text_end = taken_;
  }
  switch (role()) {
    case Role::kChoice:
      if (name == "finish_reason" && size > 0) facts_.has_finish = finishes_ = true;
      break;
    case Role::kRoot:
      if (name == "error" && size > 0 && facts_.error_status == 0) facts_.error_status = kUnknownError;
      if (name != "type") break;
      if (word == "response.completed" || word == "response.incomplete" || word == "message_stop")
        facts_.is_last = true;
      facts_.opens_block = word == "content_block_start";
      facts_.closes_block = word == "content_block_stop";
      facts_.ends_message = word == "message_delta";
      if (word == "response.created" || word == "response.queued" || word == "response.in_progress" ||
          word == "message_start" || word == "ping" || facts_.opens_block)
        facts_.is_preamble = true;
      if ((word == "error" || word == "response.failed") && facts_.error_status == 0)
        facts_.error_status = kUnknownError;
      break;
    case Role::kError:
      if (name == "type" && facts_.error_status == kUnknownError &&
          (word.starts_with("invalid_request") || word.starts_with("BadRequest")))
        facts_.error_status = 400;
      break;
    default: break;
  }
  end_value();
}

void AnswerScanner::end_scalar() {
  token_ = Token::kNone;
  const Role place = role();
  const bool is_index = (place == Role::kChoice || place == Role::kRoot) && key() == "index";
  if (is_index || place == Role::kUsage || place == Role::kUsageDetails || place == Role::kError) {
    std::uint64_t number = 0;
    const char* const end = word_.data() + word_size_;
    const auto read = std::from_chars(word_.data(), end, number);
    const bool whole = read.ec == std::errc{} && read.ptr == end;
    if (is_index) {
      const auto index = whole ? static_cast<std::uint32_t>(std::min<std::uint64_t>(number, UINT32_MAX)) : 0;
      (place == Role::kChoice ? choice_ : facts_.block) = index;
    } else if (place == Role::kError) {
      if (whole && key() == "code" && number >= 400 && number <= 599) facts_.error_status = static_cast<int>(number);
    } else if (whole && number <= UINT32_MAX) {
      set_usage(number);
    } else if (word_[0] != 'n' && key().find("_tokens") != std::string_view::npos) {
      usage_valid_ = false;
    }
  }
  end_value();
}

void AnswerScanner::set_usage(std::uint64_t number) {
  const auto tokens = static_cast<std::uint32_t>(number);
  const std::string_view name = key();
  if (role() == Role::kUsageDetails) {
    if (name == "reasoning_tokens") usage_.reasoning_tokens = tokens;
    if (name != "cached_tokens") return;
    usage_.cached_tokens = tokens;
    usage_.cached_known = true;
    return;
  }
  // The second names belong to /v1/responses and to Anthropic's API.
  if (name == "prompt_tokens" || name == "input_tokens") {
    usage_.prompt_tokens = tokens;
    prompt_known_ = true;
    counts_cache_apart_ = name == "input_tokens";
  }
  if (name == "cache_read_input_tokens") {
    cache_read_ = tokens;
    cache_read_known_ = true;
  }
  if (name == "cache_creation_input_tokens") cache_made_ = tokens;
  if (name == "completion_tokens" || name == "output_tokens") usage_.completion_tokens = tokens;
  if (name == "total_tokens") total_tokens_ = tokens;
}

}  // namespace penstock::api
