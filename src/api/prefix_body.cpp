#include "api/prefix_body.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/prompt_keys.h"
#include "core/utf8.h"

namespace penstock::api {
namespace {

// Templates render objects in their original order.
using Json = nlohmann::ordered_json;

// Fields that form the prompt or separate caches. Other fields are dropped.
constexpr std::array kKept{"model",
                           "messages",
                           "prompt",
                           "tools",
                           "documents",
                           "tool_choice",
                           "chat_template",
                           "functions",
                           "add_special_tokens",
                           "reasoning_effort",
                           "chat_template_kwargs"};

std::string dumped(const Json& body) { return body.dump(-1, ' ', false, Json::error_handler_t::replace); }

void truncate(std::string& text, std::size_t bytes) { text.resize(core::utf8_prefix(text, bytes).size()); }

class Cutter {
 public:
  Cutter(Endpoint endpoint, std::size_t text_bytes) : endpoint_(endpoint), text_bytes_(text_bytes) {}

  // Returns the prompt text as the request reader forms it; empty if the document is not a request.
  const std::string& text_of(const Json& body) {
    if (!reader_.read(endpoint_, dumped(body), request_)) request_.text.clear();
    return request_.text;
  }

  bool cut(Json& body) {
    return endpoint_ == Endpoint::kChatCompletions ? cut_chat(body) : cut_completion(body["prompt"]);
  }

 private:
  bool cut_completion(Json& prompt) const {
    if (prompt.is_string()) {
      truncate(prompt.get_ref<std::string&>(), text_bytes_);
      return true;
    }
    if (!prompt.is_array() || prompt.empty() || !prompt[0].is_number()) return false;
    const std::size_t tokens = std::min(prompt.size(), text_bytes_ / kBytesPerToken);
    prompt.erase(prompt.begin() + static_cast<std::ptrdiff_t>(tokens), prompt.end());
    return true;
  }

  bool cut_chat(Json& body) {
    const Json all = std::move(body["messages"]);
    const auto size_with = [&](std::size_t count) -> std::size_t {
      body["messages"] = Json(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      return count == 0 ? 0 : text_of(body).size();
    };
    std::size_t fit = 0, over = all.size() + 1;  // `fit` messages fit and `over` messages do not.
    while (over - fit > 1) {
      const std::size_t middle = fit + (over - fit) / 2;
      (size_with(middle) <= text_bytes_ ? fit : over) = middle;
    }
    Json part;
    if (fit < all.size()) part = beginning_of(all[fit], size_with(fit + 1) - text_bytes_);
    static_cast<void>(size_with(fit));
    Json& messages = body["messages"];
    if (!part.is_null()) messages.push_back(std::move(part));
    if (messages.empty()) return false;
    if (messages.back()["role"] != "user") messages.push_back({{"role", "user"}, {"content", "."}});
    return true;
  }

  // Returns a message that is shortened by `excess` bytes of text; null if that is impossible.
  static Json beginning_of(Json message, std::size_t excess) {
    if (message.contains("tool_calls") || message.contains("function_call")) return nullptr;
    Json* content = &message["content"];
    if (content->is_array() && content->size() == 1 && (*content)[0].is_object()) content = &(*content)[0]["text"];
    if (!content->is_string()) return nullptr;
    auto& text = content->get_ref<std::string&>();
    // The line break after a message is not part of the shared prefix.
    if (text.size() + 1 <= excess) return nullptr;
    truncate(text, text.size() + 1 - excess);
    return message;
  }

  Endpoint endpoint_;
  std::size_t text_bytes_;
  RequestReader reader_;
  InferenceRequest request_;
};

}  // namespace

std::optional<PrefixBody> prefix_body(Endpoint endpoint, std::string_view body, std::size_t text_bytes) {
  const Json whole = Json::parse(body, nullptr, false);
  if (!whole.is_object()) return std::nullopt;
  Json made = Json::object();
  for (const auto& [name, value] : whole.items())
    if (std::find(kKept.begin(), kKept.end(), name) != kKept.end()) made[name] = value;
  if (!made.contains(endpoint == Endpoint::kChatCompletions ? "messages" : "prompt")) return std::nullopt;
  Cutter cutter{endpoint, text_bytes};
  const std::string text = cutter.text_of(made);
  if (!cutter.cut(made)) return std::nullopt;
  made["max_tokens"] = 1;
  const std::string& begins = cutter.text_of(made);
  const auto differ = std::mismatch(text.begin(), text.end(), begins.begin(), begins.end()).first;
  const auto shared = std::min(static_cast<std::size_t>(differ - text.begin()), text_bytes);
  if (shared == 0) return std::nullopt;
  return PrefixBody{dumped(made), shared};
}

}  // namespace penstock::api
