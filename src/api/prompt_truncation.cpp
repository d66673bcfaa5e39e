#include "api/prompt_truncation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "api/body_fields.h"
#include "api/json_text.h"
#include "core/utf8.h"

namespace penstock::api {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Roles in the text of a request; see InferenceRequest::text.
constexpr std::string_view kUserText = "user\n";
bool is_pinned(std::string_view text) { return text.starts_with("system\n") || text.starts_with("developer\n"); }
bool is_result(std::string_view text) { return text.starts_with("tool\n") || text.starts_with("function\n"); }

struct Message {
  Location location;  // In the body.
  double tokens = 0.0;
  bool pinned = false, user = false, result = false;
  std::size_t unit = 0;  // Messages that are dropped together have the same number.
};

// The reader counts what each message adds to the prompt.
std::optional<std::vector<Message>> messages_of(std::string_view body, const Location& array,
                                                const core::PromptExcess& excess) {
  const auto elements = elements_of(body.substr(array.at, array.size));
  if (!elements) return std::nullopt;
  std::vector<Message> messages;
  RequestReader reader;
  InferenceRequest alone;
  std::string text;
  for (const Location& element : *elements) {
    Message message;
    message.location = {array.at + element.at, element.size};
    text.assign(R"({"model":"m","messages":[)").append(body.substr(message.location.at, message.location.size));
    text.append("]}");
    if (!reader.read(Endpoint::kChatCompletions, text, alone)) return std::nullopt;
    message.pinned = is_pinned(alone.text);
    message.user = alone.text.starts_with(kUserText);
    message.result = is_result(alone.text);
    message.tokens = excess.tokens_per_text_byte * static_cast<double>(alone.size.text_bytes) +
                     excess.tokens_per_rendered_byte * static_cast<double>(alone.size.rendered_bytes);
    messages.push_back(message);
  }
  return messages;
}

// Numbers the units: turns up to the last user message, then that message, then the steps behind it. Templates expect
// that a conversation begins with a user message, so that turns are dropped whole. Returns the units that stay.
std::vector<std::size_t> number_units(std::vector<Message>& messages) {
  const auto last_user =
      std::find_if(messages.rbegin(), messages.rend(), [](const Message& message) { return message.user; });
  const auto last = messages.rend() - last_user;  // One more than its index; 0 without one.
  std::size_t unit = 0, of_last_user = 0;
  for (auto at = messages.begin(); at != messages.end(); ++at) {
    if (at->pinned) continue;
    const bool is_behind = at - messages.begin() >= last;
    if (at->user || (is_behind && !at->result)) ++unit;
    at->unit = unit;
    if (at - messages.begin() + 1 == last) of_last_user = unit;
  }
  return last == 0 ? std::vector{unit} : std::vector{of_last_user, unit};
}

std::optional<TruncatedPrompt> truncated_chat(std::string_view body, const Location& array,
                                              const core::PromptExcess& excess) {
  auto messages = messages_of(body, array, excess);
  if (!messages) return std::nullopt;
  const std::vector<std::size_t> kept = number_units(*messages);
  const auto may_drop = [&](const Message& message) {
    return !message.pinned && std::find(kept.begin(), kept.end(), message.unit) == kept.end();
  };
  // Units are dropped whole and in their order, until enough is saved.
  double saved = 0.0;
  std::optional<std::size_t> last_dropped;
  for (const Message& message : *messages) {
    if (!may_drop(message)) continue;
    if (saved >= excess.tokens && message.unit != last_dropped) break;
    last_dropped = message.unit;
    saved += message.tokens;
  }
  if (!last_dropped) return std::nullopt;
  TruncatedPrompt made;
  std::size_t at = 0;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    if (!may_drop((*messages)[i]) || (*messages)[i].unit > *last_dropped) continue;
    // The last message stays, so that one follows.
    made.body.append(body.substr(at, (*messages)[i].location.at - at));
    at = (*messages)[i + 1].location.at;
    ++made.messages;
  }
  made.body.append(body.substr(at));
  return made;
}

// Bytes of the first code point of the text between the quotes of a string: in JSON, and as text.
struct CodePoint {
  std::size_t raw = 1, text = 1;
};

CodePoint first_code_point(std::string_view raw, std::string& scratch) {
  if (raw.front() != '\\') {
    const std::size_t bytes = std::max<std::size_t>(1, core::utf8_length(raw));
    return {bytes, bytes};
  }
  constexpr std::size_t kShort = 2, kUnicode = 6, kPair = 12;
  CodePoint found;
  found.raw = raw.substr(1, 1) == "u" ? kUnicode : kShort;
  scratch.clear();
  // The first half of a surrogate pair is no text alone.
  if (!append_unescaped(scratch, raw.substr(0, found.raw))) {
    found.raw = std::min(kPair, raw.size());
    scratch.clear();
    static_cast<void>(append_unescaped(scratch, raw.substr(0, found.raw)));
  }
  found.text = scratch.size();
  return found;
}

// The end of the shortest beginning with at least so many bytes of text; the size of `raw` if there is none.
std::size_t end_of_beginning(std::string_view raw, std::size_t text_bytes) {
  std::string scratch;
  std::size_t at = 0;
  for (std::size_t bytes = 0; at < raw.size() && bytes < text_bytes;) {
    const CodePoint point = first_code_point(raw.substr(at), scratch);
    at += point.raw;
    bytes += point.text;
  }
  return at;
}

// The position behind the comma that follows so many elements; npos if there is none.
std::size_t behind_ids(std::string_view array, std::size_t ids) {
  std::size_t at = 0;
  for (std::size_t dropped = 0; dropped < ids; ++dropped) {
    at = array.find(',', at);
    if (at == std::string_view::npos) return at;
    ++at;
  }
  return at;
}

std::optional<TruncatedPrompt> without(std::string_view body, std::size_t begin, std::size_t end) {
  if (begin == end) return std::nullopt;
  TruncatedPrompt made;
  made.body.reserve(body.size() - (end - begin));
  made.body.append(body.substr(0, begin)).append(body.substr(end));
  return made;
}

std::optional<TruncatedPrompt> truncated_completion(std::string_view body, Location prompt,
                                                    const core::PromptExcess& excess) {
  constexpr std::size_t kBytesPerId = 4;  // See InferenceRequest::text.
  const double most = static_cast<double>(kBytesPerId * body.size());
  const auto bytes =
      static_cast<std::size_t>(std::ceil(std::clamp(excess.tokens / excess.tokens_per_text_byte, 0.0, most)));
  const auto is_list_of = [&](char kind) {
    const std::size_t first = body.find_first_not_of(kBlanks, prompt.at + 1);
    return body[prompt.at] == '[' && body[first] == kind;
  };
  if (is_list_of('"') || is_list_of('[')) {
    const auto elements = elements_of(body.substr(prompt.at, prompt.size));
    if (!elements || elements->size() != 1) return std::nullopt;
    prompt = {prompt.at + elements->front().at, elements->front().size};
  }
  if (body[prompt.at] == '"') {
    const std::string_view raw = body.substr(prompt.at + 1, prompt.size - 2);
    const std::size_t end = end_of_beginning(raw, bytes);
    return end == raw.size() ? std::nullopt : without(body, prompt.at + 1, prompt.at + 1 + end);
  }
  if (body[prompt.at] != '[') return std::nullopt;
  const std::string_view ids = body.substr(prompt.at + 1, prompt.size - 1);
  const std::size_t end = behind_ids(ids, (bytes + kBytesPerId - 1) / kBytesPerId);
  return end == std::string_view::npos ? std::nullopt : without(body, prompt.at + 1, prompt.at + 1 + end);
}

}  // namespace

bool can_truncate(const InferenceRequest& request) {
  const PromptSize& size = request.size;
  const bool has_media = size.images + size.audios + size.files > 0 || size.media_bytes > 0 || size.has_embeds;
  return (request.endpoint == Endpoint::kChatCompletions || request.endpoint == Endpoint::kCompletions) &&
         size.prompts == 1 && !has_media;
}

std::optional<TruncatedPrompt> truncated_prompt(Endpoint endpoint, std::string_view body,
                                                const core::PromptExcess& excess) {
  const bool is_chat = endpoint == Endpoint::kChatCompletions;
  const auto fields = fields_of(body);
  if (!fields || (!is_chat && endpoint != Endpoint::kCompletions)) return std::nullopt;
  const std::string_view name = is_chat ? "messages" : "prompt";
  const auto found =
      std::find_if(fields->begin(), fields->end(), [&](const FieldLocation& field) { return field.name == name; });
  if (found == fields->end()) return std::nullopt;
  return is_chat ? truncated_chat(body, found->value_location(), excess)
                 : truncated_completion(body, found->value_location(), excess);
}

}  // namespace penstock::api
