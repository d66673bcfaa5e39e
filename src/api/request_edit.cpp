// Changes a few fields of a body. All other bytes are unchanged, because clients may sign or compare them.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "api/body_fields.h"
#include "api/engine_controls.h"
#include "api/json_text.h"
#include "api/request.h"

namespace penstock::api {
namespace {

using core::Result;

struct Edit {
  std::string_view name;
  std::optional<std::string_view> value;  // JSON; empty removes the field.
  bool add = false;                       // Adds the field if it is absent.
};

// Each field that stays keeps the text between it and the previous field.
Result<std::string> edited(std::string_view body, std::span<const Edit> edits) {
  const auto fields = fields_of(body);
  if (!fields) return tl::make_unexpected(fields.error());
  const std::size_t open = body.find('{') + 1;
  std::string out;
  out.reserve(body.size() + 256);
  out.append(body.substr(0, open));
  std::size_t before = open;  // End of the previous field, kept or not.
  bool first = true;
  for (const FieldLocation& field : *fields) {
    const auto edit = std::find_if(edits.begin(), edits.end(), [&](const Edit& e) { return e.name == field.name; });
    if (edit == edits.end() || edit->value.has_value()) {
      // Blanks before the first field are not a comma.
      const std::size_t from = first && before != open ? field.begin : before;
      const bool kept = edit == edits.end();
      out.append(body.substr(from, (kept ? field.end : field.value) - from));
      if (!kept) out.append(*edit->value);
      first = false;
    }
    before = field.end;
  }
  for (const Edit& edit : edits) {
    const auto named = [&](const FieldLocation& field) { return field.name == edit.name; };
    if (!edit.add || std::any_of(fields->begin(), fields->end(), named)) continue;
    out += fmt::format(R"({}"{}":{})", first ? "" : ",", edit.name, *edit.value);
    first = false;
  }
  out.append(body.substr(before));
  return out;
}

constexpr std::string_view kUsageOption = R"("include_usage":true)";

// Bytes of the body that other bytes replace.
struct Replacement {
  Location place;
  std::string text;
};

// Empty: the field is absent and is added at the end.
std::optional<Replacement> usage_replacement(std::string_view body, const EditPoints& points) {
  if (points.include_usage.size > 0) return Replacement{points.include_usage, "true"};
  if (points.stream_options.size == 0) return std::nullopt;
  const std::size_t at = points.stream_options.at;
  if (body[at] != '{') return Replacement{points.stream_options, fmt::format("{{{}}}", kUsageOption)};
  const std::size_t next = body.find_first_not_of(" \t\r\n", at + 1);
  return Replacement{{at + 1, 0}, fmt::format("{}{}", kUsageOption, body[next] == '}' ? "" : ",")};
}

// An engine refuses a request whose min_tokens is above its max_tokens.
bool exceeds(std::string_view body, const Location& number, std::uint32_t limit) {
  double value = 0.0;
  const char* const begin = body.data() + number.at;
  return std::from_chars(begin, begin + number.size, value).ec == std::errc{} && value > limit;
}

// An engine refuses a message whose budget for thinking is not below its max_tokens, or less than 1024.
std::optional<Replacement> thinking_replacement(std::string_view body, const EditPoints& points, std::uint32_t limit) {
  constexpr std::uint32_t kBudgetMin = 1024;
  if (limit == 0 || !exceeds(body, points.thinking_budget, limit - 1)) return std::nullopt;
  if (limit > kBudgetMin) return Replacement{points.thinking_budget, fmt::format("{}", limit - 1)};
  return Replacement{points.thinking, R"({"type":"disabled"})"};
}

}  // namespace

bool append_changed_body(std::string& out, std::string_view body, Endpoint endpoint, const EditPoints& points,
                         const BodyChanges& changes) {
  std::uint64_t kept = changes.kept_controls;
  if (changes.priority) kept &= ~(1ULL << engine_control_named("priority"));
  if (!changes.cache_salt.empty()) kept &= ~(1ULL << engine_control_named("cache_salt"));
  const auto stays = [&](const ControlField& field) { return (kept >> field.control & 1U) != 0; };
  const bool drops = !std::all_of(points.controls.begin(), points.controls.end(), stays);
  if (!drops && !changes.max_tokens && !changes.priority && changes.cache_salt.empty() && !changes.include_usage)
    return false;
  out.reserve(out.size() + body.size() + 128);
  std::size_t at = 0;  // End of what was appended or dropped.
  const auto append_until = [&](std::size_t end) { out.append(body.substr(at, end - at)); };
  std::vector<Replacement> replacements;  // In their order.
  for (const Location& limit : {points.max_tokens, points.other_max_tokens})
    if (changes.max_tokens && limit.size > 0) replacements.push_back({limit, fmt::format("{}", *changes.max_tokens)});
  if (changes.max_tokens && exceeds(body, points.min_tokens, *changes.max_tokens))
    replacements.push_back({points.min_tokens, fmt::format("{}", *changes.max_tokens)});
  if (changes.max_tokens)
    if (auto thinking = thinking_replacement(body, points, *changes.max_tokens))
      replacements.push_back(*std::move(thinking));
  auto usage = changes.include_usage ? usage_replacement(body, points) : std::nullopt;
  const bool adds_usage = changes.include_usage && !usage;
  if (usage) replacements.push_back(*std::move(usage));
  std::sort(replacements.begin(), replacements.end(),
            [](const Replacement& a, const Replacement& b) { return a.place.at < b.place.at; });
  std::size_t next = 0;
  const auto replace_before = [&](std::size_t end) {
    for (; next < replacements.size() && replacements[next].place.at < end; ++next) {
      append_until(replacements[next].place.at);
      out.append(replacements[next].text);
      at = replacements[next].place.end();
    }
  };
  for (const ControlField& field : points.controls) {
    if (stays(field)) continue;
    replace_before(field.location.at);
    append_until(field.location.at);
    at = field.location.end();
    if (at != points.object_end) continue;
    // The field `model` is before the last fields, so a comma separates them.
    while (out.back() != ',') out.pop_back();
    out.pop_back();
  }
  replace_before(points.object_end);
  append_until(points.object_end);
  at = points.object_end;
  // A request has at least the field `model`, so a comma is correct.
  if (changes.max_tokens && points.max_tokens.size == 0)
    fmt::format_to(std::back_inserter(out), R"(,"{}":{})", traits_of(endpoint).max_tokens, *changes.max_tokens);
  if (adds_usage) out.append(R"(,"stream_options":{)").append(kUsageOption).append("}");
  if (changes.priority) fmt::format_to(std::back_inserter(out), R"(,"priority":{})", *changes.priority);
  if (!changes.cache_salt.empty()) {
    out.append(R"(,"cache_salt":)");
    append_json_string(out, changes.cache_salt);
  }
  append_until(body.size());
  return true;
}

core::Result<std::string> streamed_body(std::string_view body) {
  constexpr std::array kEdits{Edit{"stream", "true", true}, Edit{"stream_options", R"({"include_usage":true})", true}};
  return edited(body, kEdits);
}

core::Result<std::string> prefill_body(std::string_view body) {
  constexpr std::string_view kKeep =
      R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,)"
      R"("remote_host":null,"remote_port":null})";
  constexpr std::array kEdits{Edit{"max_tokens", "1", true},        Edit{"max_completion_tokens", "1"},
                              Edit{"min_tokens", std::nullopt},     Edit{"stream", "false"},
                              Edit{"stream_options", std::nullopt}, Edit{"kv_transfer_params", kKeep, true}};
  return edited(body, kEdits);
}

std::string tokenize_body(std::string_view body) {
  constexpr std::array<std::string_view, 8> kFields{"model",
                                                    "messages",
                                                    "prompt",
                                                    "tools",
                                                    "chat_template_kwargs",
                                                    "add_generation_prompt",
                                                    "continue_final_message",
                                                    "add_special_tokens"};
  const auto fields = fields_of(body);
  if (!fields) return {};
  std::string made;
  for (const FieldLocation& field : *fields) {
    if (std::find(kFields.begin(), kFields.end(), field.name) == kFields.end()) continue;
    made.append(made.empty() ? "{\"" : ",\"").append(field.name).append("\":");
    made.append(body.substr(field.value, field.end - field.value));
  }
  return made.empty() ? made : made + "}";
}

core::Result<std::string> decode_body(std::string_view body, std::string_view kv_transfer_params) {
  if (kind_of(kv_transfer_params) != Kind::kObject)
    return core::environment_error("kv_transfer_params", "the prefill engine returned none");
  const std::array edits{Edit{"kv_transfer_params", kv_transfer_params, true}};
  return edited(body, edits);
}

std::string kv_transfer_params_of(std::string_view answer) {
  const auto fields = fields_of(answer);
  if (!fields) return {};
  const auto named = [](const FieldLocation& field) { return field.name == "kv_transfer_params"; };
  const auto found = std::find_if(fields->begin(), fields->end(), named);
  if (found == fields->end()) return {};
  const std::string_view params = answer.substr(found->value, found->end - found->value);
  return kind_of(params) == Kind::kObject ? std::string{params} : std::string{};
}

}  // namespace penstock::api
