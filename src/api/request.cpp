#include "api/request.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <algorithm>
#include <array>

#include "api/json_text.h"
#include "api/message_fields.h"
#include "api/request_fields.h"
#include "api/request_parts.h"

namespace penstock::api {
namespace {

namespace ondemand = simdjson::ondemand;
using core::invalid_input;
using core::Result;

// A value and its first token. The token of a scalar is complete, so that the parser need not be queried again.
struct Value {
  ondemand::value json;
  std::string_view token;
  Kind kind = Kind::kNone;

  explicit Value(ondemand::value value)
      : json(value), token(without_space_behind(json.raw_json_token())), kind(kind_of(token)) {
    // A string that is still to be skipped would be accepted as a key if a colon follows: {"a":"b":1}.
    if (kind == Kind::kString && json.get_raw_json_string().error() != simdjson::SUCCESS) kind = Kind::kNone;
  }
  [[nodiscard]] bool is_null() const { return kind == Kind::kNull; }
  [[nodiscard]] std::string_view quoted() const { return token.substr(1, token.size() - 2); }
};

// Walks a body from start to end and visits each value once.
class Walk {
 public:
  // `body` is the text of the document; tokens refer to it.
  Walk(ondemand::document& document, std::string_view body, InferenceRequest& request)
      : document_(document), body_(body), request_(request), traits_(traits_of(request.endpoint)) {}

  Result<void> read();

 private:
  tl::unexpected<core::Error> not_json();
  template <class OnField>
  Result<void> each_field(ondemand::object object, OnField&& on_field);
  template <class OnField>
  Result<void> each_field(const Value& value, std::string_view where, OnField&& on_field);
  template <class OnElement>
  Result<void> each_element(const Value& value, std::string_view where, OnElement&& on_element);
  Result<void> pass(const Value& value);
  Result<std::string_view> pass_span(const Value& value);
  Result<void> pass_rendered(const Value& value);
  std::string_view span_since(const Value& value);
  [[nodiscard]] std::size_t position(const Value& value) const {
    return static_cast<std::size_t>(value.token.data() - body_.data());
  }

  Result<void> append_text(const Value& value, std::string_view where, std::string& text);
  Result<void> read_text(const Value& value, std::string_view where, std::string& text, std::size_t most = SIZE_MAX);
  template <class Number>
  static Result<void> read_number(const Value& value, std::string_view where, Number low, Number high, Number& number);

  Result<void> read_field(Field field, const Value& value);
  Result<void> read_max_tokens(Field field, const Value& value);
  Result<void> read_stop(std::string_view name, const Value& value);
  Result<void> read_messages(const Value& value);
  Result<void> read_message(const Value& value);
  Result<void> read_content(const Value& value);
  Result<void> read_part(const Value& value);
  Result<void> read_text_field(const TextField& field, const Value& value);
  Result<void> read_prompt(std::string_view name, const Value& value);
  Result<void> read_prompt_element(std::string_view name, const Value& value, Kind& first, std::size_t index);
  Result<void> finish();

  ondemand::document& document_;
  std::string_view body_;
  InferenceRequest& request_;
  const EndpointTraits& traits_;
  const bool is_message_ = traits_.dialect == Dialect::kAnthropic;  // A body of Anthropic's API.
  int depth_ = 0;
  std::size_t key_at_ = 0;      // Position of the key of the current field.
  bool in_prompt_ = false;      // The current value is text of the prompt in any form.
  bool in_control_ = false;     // The current field of the outermost object controls engines.
  std::size_t tools_size_ = 0;  // Bytes of tools at the beginning of the text.
  std::uint32_t seen_ = 0;      // One bit per Field, followed by one per text field.
  bool has_stream_options_ = false;
  std::string session_of_params_;
  OutputLimit older_limit_, newer_limit_;
};

tl::unexpected<core::Error> Walk::not_json() {
  if (depth_ > kDepthMax) return invalid_input("", fmt::format("the body nests deeper than {} levels", kDepthMax));
  const char* at = nullptr;
  if (document_.current_location().get(at) != simdjson::SUCCESS) return invalid_input("", "the body is not valid JSON");
  if (at == body_.data()) return wrong_end(body_);
  return invalid_input("", fmt::format("the body is not valid JSON at or before byte {}", at - body_.data()));
}

template <class OnField>
Result<void> Walk::each_field(ondemand::object object, OnField&& on_field) {
  if (++depth_ > kDepthMax) return not_json();
  for (auto entry : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return not_json();
    key_at_ = static_cast<std::size_t>(field.key().raw() - 1 - body_.data());
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return not_json();
    const Value value{field.value()};
    if (value.kind == Kind::kNone) return not_json();
    if (auto done = on_field(key, value); !done) return done;
  }
  --depth_;
  return {};
}

template <class OnField>
Result<void> Walk::each_field(const Value& value, std::string_view where, OnField&& on_field) {
  if (value.kind != Kind::kObject) return wrong_kind(where, "an object", value.kind);
  ondemand::object object;
  if (ondemand::value json = value.json; json.get_object().get(object) != simdjson::SUCCESS) return not_json();
  return each_field(object, on_field);
}

template <class OnElement>
Result<void> Walk::each_element(const Value& value, std::string_view where, OnElement&& on_element) {
  if (value.kind != Kind::kArray) return wrong_kind(where, "an array", value.kind);
  if (++depth_ > kDepthMax) return not_json();
  ondemand::array array;
  if (ondemand::value json = value.json; json.get_array().get(array) != simdjson::SUCCESS) return not_json();
  std::size_t index = 0;
  for (auto entry : array) {
    ondemand::value json;
    if (std::move(entry).get(json) != simdjson::SUCCESS) return not_json();
    const Value element{json};
    if (element.kind == Kind::kNone) return not_json();
    if (auto done = on_element(element, index++); !done) return done;
  }
  --depth_;
  return {};
}

// Skips a value that is not needed, but validates it, because an engine would reject invalid JSON.
Result<void> Walk::pass(const Value& value) {
  if (value.kind == Kind::kArray)
    return each_element(value, "", [this](const Value& element, std::size_t) { return pass(element); });
  if (value.kind == Kind::kObject)
    return each_field(value, "", [this](std::string_view key, const Value& field) {
      if (in_prompt_ && field.kind == Kind::kString) request_.size.note_field(key, field.quoted());
      return pass(field);
    });
  if (value.kind == Kind::kString && !has_good_escapes(value.quoted())) return not_json();
  return {};
}

// Also returns the bytes of the value.
Result<std::string_view> Walk::pass_span(const Value& value) {
  if (auto passed = pass(value); !passed) return tl::make_unexpected(std::move(passed).error());
  return span_since(value);
}

// The template of a chat may render the value into the prompt.
Result<void> Walk::pass_rendered(const Value& value) {
  if (auto passed = pass(value); !passed) return passed;
  request_.size.rendered_bytes += span_since(value).size();
  return {};
}

// Returns the bytes from the start of a value that was just visited to its end.
std::string_view Walk::span_since(const Value& value) {
  const char* end = value.token.data() + value.token.size();
  if (value.kind == Kind::kArray || value.kind == Kind::kObject)
    if (document_.current_location().get(end) != simdjson::SUCCESS) end = body_.data() + body_.size();
  return without_space_behind({value.token.data(), static_cast<std::size_t>(end - value.token.data())});
}

Result<void> Walk::append_text(const Value& value, std::string_view where, std::string& text) {
  if (value.kind != Kind::kString) return wrong_kind(where, "a string", value.kind);
  if (!append_unescaped(text, value.quoted())) return not_json();
  return {};
}

Result<void> Walk::read_text(const Value& value, std::string_view where, std::string& text, std::size_t most) {
  text.clear();
  if (auto read = append_text(value, where, text); !read) return read;
  return check_size(text, where, most);
}

template <class Number>
Result<void> Walk::read_number(const Value& value, std::string_view where, Number low, Number high, Number& number) {
  if (value.kind != Kind::kNumber) return wrong_kind(where, "a whole number", value.kind);
  return read_whole_number(value.token, where, low, high, number);
}

Result<void> Walk::read() {
  ondemand::object object;
  if (const auto error = document_.get_object().get(object); error != simdjson::SUCCESS) {
    if (error == simdjson::INCORRECT_TYPE) return invalid_input("", "the body must be a JSON object");
    return not_json();
  }
  auto done = each_field(object, [this](std::string_view key, const Value& value) -> Result<void> {
    in_control_ = locate_control(request_.edit, in_control_, key, key_at_);
    const auto text = std::find_if(traits_.text.begin(), traits_.text.end(),
                                   [&](const TextField& named) { return named.name == key; });
    const Field field = field_named(key, is_message_);
    if (text == traits_.text.end() && field == Field::kOther) {
      if (is_message_ && is_message_field(key))
        return pass_span(value).map(
            [&](std::string_view json) { note_message_field(request_, key, json, position(value)); });
      request_.plain = request_.plain && (value.is_null() || is_plain(key) || in_control_);
      if (auto noted = note_field(request_, key, value.token); !noted) return noted;
      return may_be_rendered(key) ? pass_rendered(value) : pass(value);
    }
    const auto index = text == traits_.text.end()
                           ? static_cast<std::size_t>(field)
                           : kFieldNames.size() + static_cast<std::size_t>(text - traits_.text.begin());
    if (auto first = note_first(seen_, index, key); !first) return first;
    return text == traits_.text.end() ? read_field(field, value) : read_text_field(*text, value);
  });
  if (!done) return done;
  if (document_.current_location().error() != simdjson::OUT_OF_BOUNDS) return wrong_end(body_);
  return finish();
}

Result<void> Walk::read_field(Field field, const Value& value) {
  const std::string_view name = name_of(field);
  switch (field) {
    case Field::kModel: return read_text(value, name, request_.model, kModelBytesMax);
    case Field::kMaxTokens:
    case Field::kMaxCompletionTokens:
    case Field::kMaxOutputTokens: return read_max_tokens(field, value);
    default: break;
  }
  if (field == Field::kMinTokens && value.kind == Kind::kNumber)
    request_.edit.min_tokens = {position(value), value.token.size()};
  if (field == Field::kStreamOptions) request_.edit.stream_options = {position(value), value.is_null() ? 4U : 1U};
  // OpenAI treats a missing field and null alike.
  if (value.is_null()) return {};
  switch (field) {
    case Field::kTools: {
      if (auto noted = note_field(request_, name, value.token); !noted) return noted;
      const auto tools = pass_span(value);
      if (!tools) return tl::make_unexpected(tools.error());
      // Tools come first, because templates render them before the messages, wherever they are in the body.
      if (!traits_.takes_tools) return {};
      tools_size_ = tools->size() + 1;
      request_.text.insert(0, tools_size_, '\n').replace(0, tools->size(), *tools);
      return {};
    }
    case Field::kStream: return read_flag(value.kind, value.token, name, request_.stream);
    case Field::kStreamOptions:
      has_stream_options_ = true;
      return each_field(value, name, [this](std::string_view key, const Value& option) {
        if (key == "include_usage") request_.edit.include_usage = {position(option), option.token.size()};
        if (key != "include_usage" || option.is_null()) return pass(option);
        return read_flag(option.kind, option.token, "stream_options.include_usage", request_.include_usage);
      });
    case Field::kChoices: return read_number(value, name, 1U, kChoicesMax, request_.choices);
    case Field::kBestOf: return read_number<std::uint64_t>(value, name, 1, UINT32_MAX, request_.size.choices);
    case Field::kStop:
    case Field::kStopSequences: return read_stop(name, value);
    case Field::kIgnoreEos: return read_flag(value.kind, value.token, name, request_.ignore_eos);
    case Field::kUser: request_.user.clear(); return append_text(value, name, request_.user);
    case Field::kSessionId: return append_text(value, name, request_.session_id.erase());
    case Field::kSessionParams:
      return each_field(value, name, [this](std::string_view key, const Value& param) {
        if (key != "session_id" || param.is_null()) return pass(param);
        return append_text(param, "session_params.session_id", session_of_params_.erase());
      });
    case Field::kKvTransferParams:
      return pass_span(value).map([this](std::string_view params) { request_.kv_transfer_params = params; });
    case Field::kCacheSalt: return read_text(value, name, request_.cache_salt);
    case Field::kPriority: return read_number(value, name, INT32_MIN, INT32_MAX, request_.priority.emplace(0));
    default: return pass(value);
  }
}

Result<void> Walk::read_text_field(const TextField& field, const Value& value) {
  if (field.form == TextForm::kMessages) return read_messages(value);
  if (field.form == TextForm::kPrompt) return read_prompt(field.name, value);
  if (value.is_null()) return {};
  if (field.form == TextForm::kSystem) {
    const auto json = pass_span(value);
    return json ? insert_system(request_.text, tools_size_, *json) : tl::make_unexpected(json.error());
  }
  const std::size_t before = request_.text.size();
  std::uint64_t values = 1;
  if (value.kind == Kind::kString) {
    if (auto read = append_text(value, field.name, request_.text); !read) return read;
  } else {
    in_prompt_ = true;
    const auto count = [&](const Value& element, std::size_t index) { return values = index + 1, pass(element); };
    auto read = value.kind == Kind::kArray ? each_element(value, field.name, count) : pass(value);
    in_prompt_ = false;
    if (!read) return read;
    request_.text += span_since(value);
  }
  request_.text += '\n';
  if (traits_.pairs_texts) request_.size.note_texts(values, request_.text.size() - before);
  return {};
}

Result<void> Walk::read_max_tokens(Field field, const Value& value) {
  const bool newer = field == Field::kMaxCompletionTokens;
  if (traits_.max_tokens != name_of(newer ? Field::kMaxTokens : field)) return pass(value);
  OutputLimit& limit = newer ? newer_limit_ : older_limit_;
  limit.location = {position(value), value.token.size()};
  if (value.is_null()) return {};
  const std::uint32_t low = request_.endpoint == Endpoint::kCompletions ? 0 : 1;  // 0 with echo, which may follow.
  auto read = read_number(value, name_of(field), low, UINT32_MAX, limit.tokens);
  limit.is_zero = read && limit.tokens == 0;
  return read;
}

Result<void> Walk::read_stop(std::string_view name, const Value& value) {
  if (value.kind == Kind::kString) return read_text(value, name, request_.stop.emplace_back());
  if (value.kind != Kind::kArray) return wrong_kind(name, "a string or an array of strings", value.kind);
  return each_element(value, name, [&](const Value& element, std::size_t index) -> Result<void> {
    if (index == kStopsMax)
      return invalid_input(std::string{name}, fmt::format("must have at most {} strings", kStopsMax));
    auto read = read_text(element, name, request_.stop.emplace_back());
    if (!read) read.error().where = fmt::format("{}[{}]", name, index);
    return read;
  });
}

Result<void> Walk::read_messages(const Value& value) {
  std::size_t count = 0;
  auto read = each_element(value, "messages", [&](const Value& message, std::size_t index) -> Result<void> {
    count = index + 1;
    if (message.kind != Kind::kObject) return wrong_kind(fmt::format("messages[{}]", index), "an object", message.kind);
    return within("messages", index, read_message(message));
  });
  if (read && count == 0) return invalid_input("messages", "must not be empty");
  return read;
}

Result<void> Walk::read_message(const Value& value) {
  std::string& text = request_.text;
  const std::size_t begin = text.size();
  std::string role;
  std::array<std::string_view, 2> calls;  // Tool calls of an assistant as JSON; they are part of the prompt.
  constexpr std::array<std::string_view, 4> kNames{"role", "content", "tool_calls", "function_call"};
  std::array<bool, kNames.size()> seen{};
  auto read = each_field(value, "", [&](std::string_view key, const Value& field) -> Result<void> {
    const auto name = static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), key) - kNames.begin());
    if (name == kNames.size()) return pass_rendered(field);
    if (std::exchange(seen[name], true)) return invalid_input(std::string{key}, "must not be repeated");
    if (name == 0) {
      if (auto known = read_text(field, key, role); !known) return known;
      role += '\n';
      text.insert(begin, role);
      return {};
    }
    if (field.is_null()) return {};  // The engine judges which messages may have null content.
    if (name == 1) return read_content(field);
    const auto span = pass_span(field);
    if (!span) return tl::make_unexpected(span.error());
    calls[name - 2] = *span;
    return {};
  });
  if (!read) return read;
  if (auto complete = check_message(role, seen[1]); !complete) return complete;
  text += '\n';
  for (const std::string_view call : calls)
    if (!call.empty()) text.append(call).append(1, '\n');
  return {};
}

Result<void> Walk::read_content(const Value& value) {
  if (value.kind == Kind::kString) return append_text(value, "content", request_.text);
  if (value.kind != Kind::kArray) return wrong_kind("content", "a string or an array of parts", value.kind);
  return each_element(value, "content", [this](const Value& part, std::size_t index) -> Result<void> {
    if (index > 0) request_.text += '\n';  // Joined like in vLLM.
    if (part.kind == Kind::kString) return append_text(part, "content", request_.text);
    if (part.kind != Kind::kObject) return wrong_kind(fmt::format("content[{}]", index), "an object", part.kind);
    return within("content", index, read_part(part));
  });
}

Result<void> Walk::read_part(const Value& value) {
  std::string type;
  std::optional<Value> text;
  MediaOfPart media;
  auto read = each_field(value, "", [&](std::string_view key, const Value& field) -> Result<void> {
    if (key == "type") {
      if (!type.empty()) return invalid_input("type", "must not be repeated");
      return read_text(field, key, type);
    }
    media.note_field(key, field.is_null());
    if (key != "text") {
      in_prompt_ = is_message_ && key == "content";  // The result of a tool may have images.
      auto passed = pass(field);
      in_prompt_ = false;
      return passed;
    }
    if (text.has_value()) return invalid_input("text", "must not be repeated");
    text.emplace(field);
    return pass(field);
  });
  if (!read) return read;
  if (type.empty()) return invalid_input("type", "is missing");
  media.note_type(type);
  if (type != "text") {
    append_block(request_, media, span_since(value), is_message_);
    return {};
  }
  request_.size.add(media, 0);
  if (!text.has_value()) return invalid_input("text", "is missing");
  return append_text(*text, "text", request_.text);
}

Result<void> Walk::read_prompt(std::string_view name, const Value& value) {
  if (value.kind == Kind::kString) {
    const std::size_t before = request_.text.size();
    if (auto read = append_text(value, name, request_.text); !read) return read;
    if (request_.text.size() == before) return invalid_input(std::string{name}, "must not be empty");
    return {};
  }
  if (value.kind != Kind::kArray)
    return wrong_kind(name, "a string, or an array of strings or of token numbers", value.kind);
  Kind first = Kind::kNone;
  auto read = each_element(value, name, [&](const Value& element, std::size_t index) {
    return read_prompt_element(name, element, first, index);
  });
  if (read && request_.text.empty()) return invalid_input(std::string{name}, "must not be empty");
  return read;
}

Result<void> Walk::read_prompt_element(std::string_view name, const Value& value, Kind& first, std::size_t index) {
  const auto where = [&] { return fmt::format("{}[{}]", name, index); };
  if (index == 0) first = value.kind;
  if (index > 0 && value.kind != Kind::kNumber) request_.plain = false;
  if (value.kind != first) return wrong_kind(where(), "of the kind of the first", value.kind);
  if (value.kind != Kind::kNumber) request_.size.prompts = index + 1;
  if (value.kind == Kind::kString) {
    if (index > 0) request_.text += '\n';
    return append_text(value, name, request_.text);
  }
  std::uint32_t token = 0;
  const auto append_token = [&](const Value& number) -> Result<void> {
    if (auto read = read_number(number, name, 0U, UINT32_MAX, token); !read) return read;
    for (int shift = 0; shift < 32; shift += 8) request_.text += static_cast<char>(token >> shift & 0xFF);
    ++request_.prompt_tokens_given;
    return {};
  };
  if (value.kind == Kind::kNumber) return append_token(value);
  if (value.kind != Kind::kArray) return wrong_kind(where(), "a string or a token number", value.kind);
  // Several prompts of token ids in one request.
  return each_element(value, name, [&](const Value& number, std::size_t) { return append_token(number); });
}

Result<void> Walk::finish() {
  if (auto complete = check_required(traits_, seen_); !complete) return complete;
  request_.stream = request_.stream && traits_.generates;
  if (has_stream_options_ && !request_.stream)
    return invalid_input("stream_options", "must not be given unless stream is true");
  if (request_.session_id.empty()) request_.session_id = session_of_params_;
  if (auto settled = settle_output_limits(request_, older_limit_, newer_limit_); !settled) return settled;
  settle_size(request_, without_space_behind(body_).size() - 1, in_control_);
  return {};
}

}  // namespace

struct RequestReader::State {
  ondemand::parser parser;
  std::string padded;
};

RequestReader::RequestReader() : state_(std::make_unique<State>()) {}
RequestReader::~RequestReader() = default;

core::Result<void> RequestReader::read(Endpoint endpoint, std::string_view body, InferenceRequest& request,
                                       std::size_t spaces_behind) {
  static_assert(kReadableBytes >= simdjson::SIMDJSON_PADDING);
  clear(request, endpoint);
  if (body.size() > kBodyBytesMax)
    return invalid_input("", fmt::format("the body has {} bytes, the maximum is {}", body.size(), kBodyBytesMax));
  // The parser's index of a long body takes five times its size.
  if (state_->parser.capacity() > kKeptBytesMax) state_ = std::make_unique<State>();
  if (spaces_behind < kReadableBytes) {
    std::string& padded = state_->padded;
    padded.reserve(body.size() + kReadableBytes);
    padded.assign(body);
    padded.append(kReadableBytes, ' ');
    body = std::string_view{padded}.substr(0, body.size());
  }
  ondemand::document document;
  const simdjson::padded_string_view view{body.data(), body.size(), body.size() + kReadableBytes};
  if (const auto error = state_->parser.iterate(view).get(document); error != simdjson::SUCCESS)
    return unreadable_body(error);
  return Walk{document, body, request}.read();
}

}  // namespace penstock::api
