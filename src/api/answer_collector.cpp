#include "api/answer_collector.h"

#include <simdjson.h>
#include <charconv>

#include "api/json_text.h"

namespace penstock::api {
namespace {

namespace ondemand = simdjson::ondemand;

std::string_view token_of(ondemand::value& value) { return without_space_behind(value.raw_json_token()); }

// Returns the text between the quotes; empty if the value is not a string.
std::string_view text_of(ondemand::value& value) {
  const std::string_view token = token_of(value);
  return kind_of(token) == Kind::kString ? token.substr(1, token.size() - 2) : std::string_view{};
}

// Returns the JSON of an object; empty for other values.
std::string_view json_of(ondemand::value& value) {
  ondemand::object object;
  std::string_view json;
  if (value.get_object().get(object) != simdjson::SUCCESS || object.raw_json().get(json) != simdjson::SUCCESS)
    return {};
  return without_space_behind(json);
}

// Returns false if the value is not an object or not JSON.
template <class OnField>
bool each_field(ondemand::value& value, OnField&& on_field) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return false;
  for (auto entry : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return false;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    ondemand::value inner = field.value();
    if (!on_field(key, inner)) return false;
  }
  return true;
}

int status_in(std::string_view error) {
  constexpr std::string_view kCode = R"("code":)";
  constexpr int kUnknown = 502;
  const std::size_t at = error.find(kCode);
  if (at == std::string_view::npos) return kUnknown;
  const std::size_t digits = error.find_first_not_of(' ', at + kCode.size());
  int status = 0;
  if (digits != std::string_view::npos)
    static_cast<void>(std::from_chars(error.data() + digits, error.data() + error.size(), status));
  return status >= 400 && status <= 599 ? status : kUnknown;
}

void append_quoted(std::string& out, std::string_view inner) { out.append(1, '"').append(inner).append(1, '"'); }

}  // namespace

struct AnswerCollector::Parser {
  ondemand::parser parser;
  std::string padded;
};

AnswerCollector::AnswerCollector(bool chat) : chat_(chat), parser_(std::make_unique<Parser>()) {}
AnswerCollector::~AnswerCollector() = default;
AnswerCollector::AnswerCollector(AnswerCollector&&) noexcept = default;
AnswerCollector& AnswerCollector::operator=(AnswerCollector&&) noexcept = default;

void AnswerCollector::reset() {
  full_ = false;
  error_status_ = 0;
  for (std::string* text : {&line_, &id_, &model_, &content_, &reasoning_, &reasoning_name_, &refusal_, &finish_reason_,
                            &created_, &usage_, &error_})
    text->clear();
}

void AnswerCollector::append(std::string& text, std::string_view more) {
  if (content_.size() + reasoning_.size() + refusal_.size() + more.size() > kTextBytesMax)
    full_ = true;
  else
    text.append(more);
}

void AnswerCollector::take(std::string_view bytes) {
  while (!bytes.empty() && !full_ && error_.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > kEventBytesMax) {
      full_ = true;
      return;
    }
    if (end == std::string_view::npos) {
      line_.append(piece);
      return;
    }
    if (line_.empty()) {
      end_line(piece);
    } else {
      line_.append(piece);
      end_line(line_);
      line_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

// Events that are not JSON are skipped.
void AnswerCollector::end_line(std::string_view line) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;
  std::string& padded = parser_->padded;
  padded.assign(line.substr(kData.size()));
  const std::size_t size = padded.size();
  padded.append(simdjson::SIMDJSON_PADDING, ' ');
  ondemand::document document;
  ondemand::value root;
  if (parser_->parser.iterate(padded.data(), size, padded.size()).get(document) != simdjson::SUCCESS) return;
  if (document.get_value().get(root) != simdjson::SUCCESS) return;

  const auto on_delta = [&](std::string_view key, ondemand::value& value) {
    if (key == "content") append(content_, text_of(value));
    if (key == "refusal") append(refusal_, text_of(value));
    if (key == "reasoning_content" || (key == "reasoning" && reasoning_name_ != "reasoning_content")) {
      if (const std::string_view text = text_of(value); !text.empty()) {
        reasoning_name_ = key;
        append(reasoning_, text);
      }
    }
    return true;
  };
  const auto on_choice = [&](std::string_view key, ondemand::value& value) {
    if (key == "delta") return each_field(value, on_delta);
    if (key == "text") append(content_, text_of(value));
    if (key == "finish_reason")
      if (const std::string_view reason = text_of(value); !reason.empty()) finish_reason_ = reason;
    return true;
  };
  static_cast<void>(each_field(root, [&](std::string_view key, ondemand::value& value) {
    if (key == "id" && id_.empty()) id_ = text_of(value);
    if (key == "model" && model_.empty()) model_ = text_of(value);
    if (key == "created" && created_.empty() && kind_of(token_of(value)) == Kind::kNumber) created_ = token_of(value);
    if (key == "usage")
      if (const std::string_view json = json_of(value); !json.empty()) usage_ = json;
    if (key == "error")
      if (const std::string_view json = json_of(value); !json.empty()) {
        error_ = json;
        error_status_ = status_in(error_);
      }
    if (key != "choices") return true;
    ondemand::array choices;
    if (value.get_array().get(choices) != simdjson::SUCCESS) return false;
    for (auto entry : choices) {
      ondemand::value choice;
      if (std::move(entry).get(choice) != simdjson::SUCCESS || !each_field(choice, on_choice)) return false;
    }
    return true;
  }));
}

std::string AnswerCollector::error() const { return error_.empty() ? std::string{} : R"({"error":)" + error_ + "}"; }

std::string AnswerCollector::document(std::string_view id, std::string_view model, const Usage& counted) const {
  std::string out;
  out.reserve(content_.size() + reasoning_.size() + refusal_.size() + usage_.size() + 512);
  out += R"({"id":)";
  id_.empty() ? append_json_string(out, id) : append_quoted(out, id_);
  out += chat_ ? R"(,"object":"chat.completion","created":)" : R"(,"object":"text_completion","created":)";
  out += created_.empty() ? std::string_view{"0"} : std::string_view{created_};
  out += R"(,"model":)";
  model_.empty() ? append_json_string(out, model) : append_quoted(out, model_);
  out += R"(,"choices":[{"index":0,)";
  if (chat_) {
    out += R"("message":{"role":"assistant","content":)";
    content_.empty() && !reasoning_.empty() ? void(out += "null") : append_quoted(out, content_);
    out += R"(,"refusal":)";
    refusal_.empty() ? void(out += "null") : append_quoted(out, refusal_);
    if (!reasoning_.empty()) {
      out.append(",\"").append(reasoning_name_).append("\":");
      append_quoted(out, reasoning_);
    }
    out += '}';
  } else {
    out += R"("text":)";
    append_quoted(out, content_);
  }
  out += R"(,"logprobs":null,"finish_reason":)";
  append_quoted(out, whole() ? std::string_view{finish_reason_} : std::string_view{"length"});
  out += "}],";
  if (usage_.empty())
    append_usage(out, counted);
  else
    out.append(R"("usage":)").append(usage_);
  out += '}';
  return out;
}

}  // namespace penstock::api
