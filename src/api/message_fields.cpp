#include "api/message_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "api/body_fields.h"
#include "api/json_text.h"
#include "api/request_parts.h"

namespace penstock::api {
namespace {

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";
constexpr std::string_view kCacheControl = "cache_control";

// The JSON of a field of an object; empty if it has none.
std::string_view value_named(std::string_view object, std::string_view name) {
  const auto fields = fields_of(object);
  if (!fields) return {};
  const auto found =
      std::find_if(fields->begin(), fields->end(), [&](const FieldLocation& field) { return field.name == name; });
  return found == fields->end() ? std::string_view{} : object.substr(found->value, found->end - found->value);
}

std::optional<std::string> string_of(std::string_view json) {
  std::string text;
  if (kind_of(json) != Kind::kString || !append_unescaped(text, json.substr(1, json.size() - 2))) return std::nullopt;
  return text;
}

core::Result<void> append_system(std::string& out, std::string_view json) {
  if (const auto text = string_of(json)) {
    out += *text;
    return {};
  }
  if (kind_of(json) != Kind::kArray) return wrong_kind("system", "a string or an array of blocks", kind_of(json));
  const auto blocks = elements_of(json);
  if (!blocks) return tl::make_unexpected(blocks.error());
  bool first = true;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const std::string_view block = json.substr((*blocks)[i].at, (*blocks)[i].size);
    if (kind_of(block) != Kind::kObject) return wrong_kind(fmt::format("system[{}]", i), "an object", kind_of(block));
    const std::string_view value = value_named(block, "text");
    const auto text = string_of(value);
    if (!text && value.empty()) return core::invalid_input(fmt::format("system[{}].text", i), "is missing");
    if (!text) return wrong_kind(fmt::format("system[{}].text", i), "a string", kind_of(value));
    if (text->starts_with(kBillingHeader)) continue;
    if (!std::exchange(first, false)) out += '\n';
    out += *text;
  }
  return {};
}

std::string without_cache_control(std::string_view block) {
  std::string kept{block};
  if (block.find(kCacheControl) == std::string_view::npos) return kept;
  const auto fields = fields_of(block);
  if (!fields) return kept;
  for (std::size_t i = 0; i < fields->size(); ++i) {
    const FieldLocation& field = (*fields)[i];
    if (field.name != kCacheControl) continue;
    // With the comma before it, or the one behind it.
    const bool is_last = i + 1 == fields->size();
    const std::size_t begin = is_last && i > 0 ? (*fields)[i - 1].end : field.begin;
    return kept.erase(begin, (is_last ? field.end : (*fields)[i + 1].begin) - begin);
  }
  return kept;
}

}  // namespace

core::Result<void> insert_system(std::string& text, std::size_t at, std::string_view json) {
  std::string system = "system\n";
  if (auto appended = append_system(system, json); !appended) return appended;
  text.insert(at, system += '\n');
  return {};
}

void append_block(InferenceRequest& request, const MediaOfPart& media, std::string_view block, bool is_message) {
  const std::size_t before = request.text.size();
  if (is_message)
    request.text += without_cache_control(block);
  else
    request.text += block;
  request.size.add(media, request.text.size() - before);
}

bool is_message_field(std::string_view name) { return name == "metadata" || name == "thinking"; }

void note_message_field(InferenceRequest& request, std::string_view name, std::string_view json, std::size_t at) {
  if (kind_of(json) != Kind::kObject) return;
  if (name == "metadata") {
    if (auto user = string_of(value_named(json, "user_id"))) request.user = *std::move(user);
    return;
  }
  const std::string_view budget = value_named(json, "budget_tokens");
  if (kind_of(budget) != Kind::kNumber) return;
  request.edit.thinking = {at, json.size()};
  request.edit.thinking_budget = {at + static_cast<std::size_t>(budget.data() - json.data()), budget.size()};
}

}  // namespace penstock::api
