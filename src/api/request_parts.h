// Error messages and memory reuse of the request reader.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "api/engine_controls.h"
#include "api/json_text.h"
#include "api/request.h"
#include "api/request_fields.h"
#include "core/digits.h"
#include "core/result.h"

namespace penstock::api {

inline constexpr std::size_t kKeptBytesMax = 4 * 1024 * 1024;  // Maximum buffer size that is kept for the next request.

[[nodiscard]] inline tl::unexpected<core::Error> wrong_kind(std::string_view where, std::string_view expected,
                                                            Kind kind) {
  return core::invalid_input(std::string{where}, fmt::format("must be {}, is {}", expected, name_of(kind)));
}

// The error of a body that simdjson cannot read, by its error code.
[[nodiscard]] tl::unexpected<core::Error> unreadable_body(int simdjson_error);
// The error of a body that does not end with the brace of its object: it ends before it, or goes on after it.
[[nodiscard]] tl::unexpected<core::Error> wrong_end(std::string_view body);

// Prefixes the location of an inner error. An error of the whole body has no location.
[[nodiscard]] inline core::Result<void> within(std::string_view outer, core::Result<void> result) {
  if (!result && !result.error().where.empty()) result.error().where.insert(0, outer);
  return result;
}
[[nodiscard]] inline core::Result<void> within(std::string_view outer, std::size_t index, core::Result<void> result) {
  return result ? result : within(fmt::format("{}[{}].", outer, index), std::move(result));
}

[[nodiscard]] inline core::Result<void> check_size(std::string_view text, std::string_view where, std::size_t most) {
  if (text.empty()) return core::invalid_input(std::string{where}, "must not be empty");
  if (text.size() <= most) return {};
  return core::invalid_input(std::string{where}, fmt::format("must have at most {} bytes, has {}", most, text.size()));
}

[[nodiscard]] inline core::Result<void> read_flag(Kind kind, std::string_view token, std::string_view where,
                                                  bool& flag) {
  if (kind != Kind::kBool) return wrong_kind(where, "a boolean", kind);
  flag = token == "true";
  return {};
}

template <class Number>
[[nodiscard]] core::Result<void> read_whole_number(std::string_view token, std::string_view where, Number low,
                                                   Number high, Number& number) {
  const char* const end = token.data() + token.size();
  const auto read = std::from_chars(token.data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end && number >= low && number <= high) return {};
  // Engines accept 100.0 and 1e2, too: JSON does not distinguish them from 100.
  double value = 0.0;
  if (std::from_chars(token.data(), end, value).ec == std::errc{} && std::trunc(value) == value &&
      value >= static_cast<double>(low) && value <= static_cast<double>(high) && std::abs(value) <= core::kWholeMax) {
    number = static_cast<Number>(value);
    return {};
  }
  return core::invalid_input(std::string{where},
                             fmt::format("must be a whole number of {} to {}, is {}", low, high, token.substr(0, 32)));
}

// A field that limits the output: its value, 0 for null, and its position.
struct OutputLimit {
  std::uint32_t tokens = 0;
  Location location;
  bool is_zero = false;  // The value is the number 0.
};

// vLLM reads max_completion_tokens before max_tokens for chats, and max_tokens alone for completions. Some engines read
// another of the two, so that both must have the same value. A completion that repeats its prompt may have a limit of
// 0; vLLM computes one token for it and leaves it out.
[[nodiscard]] inline core::Result<void> settle_output_limits(InferenceRequest& request, const OutputLimit& older,
                                                             const OutputLimit& newer) {
  if (older.is_zero && !request.echoes)
    return core::invalid_input("max_tokens", "must be at least 1, is 0", "only a completion with echo may have 0");
  const bool counts_newer = request.endpoint == Endpoint::kChatCompletions && newer.tokens > 0;
  const OutputLimit &counted = counts_newer ? newer : older, &other = counts_newer ? older : newer;
  if (counted.tokens > 0 || counted.is_zero) request.max_tokens = std::max(1U, counted.tokens);
  request.edit.max_tokens = counted.location;
  if (other.tokens == 0) return {};
  request.edit.other_max_tokens = other.location;
  request.limits_differ = other.tokens != request.max_tokens;
  return {};
}

// Notes the field `key` if it controls engines, and returns whether it does. A field extends to the key of the next
// one, or to the closing brace.
inline bool locate_control(EditPoints& edit, bool in_control, std::string_view key, std::size_t key_at) {
  if (in_control) edit.controls.back().location.size = key_at - edit.controls.back().location.at;
  const std::size_t control = engine_control_named(key);
  if (control < kEngineControls.size()) edit.controls.push_back({control, {key_at, 0}});
  return control < kEngineControls.size();
}

// JSON readers differ in which duplicate they use; the engine must not see a different request.
[[nodiscard]] inline core::Result<void> note_first(std::uint32_t& seen, std::size_t index, std::string_view key) {
  const std::uint32_t bit = 1U << index;
  if ((seen & bit) != 0) return core::invalid_input(std::string{key}, "must not be repeated");
  seen |= bit;
  return {};
}

// `role` is followed by a line break.
[[nodiscard]] inline core::Result<void> check_message(std::string_view role, bool has_content) {
  if (role.empty()) return core::invalid_input("role", "is missing");
  if (!has_content && role != "assistant\n")
    return core::invalid_input("content", "is missing", "only an assistant message may omit it");
  return {};
}

// Fails if a field is missing. `seen` has one bit per Field, followed by one per text field of the endpoint.
[[nodiscard]] inline core::Result<void> check_required(const EndpointTraits& traits, std::uint32_t seen) {
  const auto has = [&](Field field) { return (seen >> static_cast<unsigned>(field) & 1U) != 0; };
  const std::uint32_t texts = seen >> kFieldNames.size();
  const bool is_message = traits.dialect == Dialect::kAnthropic;
  if (!has(Field::kModel)) return core::invalid_input("model", "is missing");
  if (is_message ? (texts & 1U) == 0 : texts == 0)
    return core::invalid_input(std::string{traits.text.front().name}, "is missing");
  if (is_message && traits.generates && !has(Field::kMaxTokens)) return core::invalid_input("max_tokens", "is missing");
  return {};
}

// The last step of a reader: `object_end` is the closing brace, and `in_control` whether the last field controls
// engines.
inline void settle_size(InferenceRequest& request, std::size_t object_end, bool in_control) {
  request.plain = request.plain && request.choices == 1;
  request.size.choices = std::max<std::uint64_t>(request.size.choices, request.choices);
  request.size.finish(request.text);
  EditPoints& edit = request.edit;
  edit.object_end = object_end;
  if (in_control) edit.controls.back().location.size = edit.object_end - edit.controls.back().location.at;
}

// Resets the request and keeps the memory of its text.
inline void clear(InferenceRequest& request, Endpoint endpoint) {
  std::string text = std::move(request.text), model = std::move(request.model);
  // Cheaper than the assignment of all members.
  static_assert(std::is_nothrow_default_constructible_v<InferenceRequest>);
  std::destroy_at(&request);
  std::construct_at(&request);
  request.endpoint = endpoint;
  if (text.capacity() > kKeptBytesMax) std::string{}.swap(text);
  text.clear();
  model.clear();
  request.text.swap(text);
  request.model.swap(model);
}

// Notes what a field, whose value begins with `token`, says of the tokens that an engine counts.
[[nodiscard]] inline core::Result<void> note_field(InferenceRequest& request, std::string_view name,
                                                   std::string_view token) {
  if (token == "null") return {};
  const bool is_response = request.endpoint == Endpoint::kResponses;
  if (is_response && name == "background" && token == "true")
    return core::invalid_input("background", "must be false", "the gateway keeps no responses; use stream");
  request.hides_reasoning = request.hides_reasoning || (name == "include_reasoning" && token == "false");
  request.extends_prompt = request.extends_prompt || (is_response && names_kept_prompt(name));
  request.plain = request.plain && name != "tools";
  request.cuts_prompt = request.cuts_prompt || name == "truncate_prompt_tokens" || name == "tools";
  request.hides_output = request.hides_output || may_hide_output(name);
  request.repeats_prompt = request.repeats_prompt || name == "echo";
  request.echoes = request.echoes || (name == "echo" && token == "true");
  return {};
}

}  // namespace penstock::api
