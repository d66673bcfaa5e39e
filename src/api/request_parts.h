// Error messages and memory reuse of the request reader.
#pragma once

#include <fmt/format.h>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "api/json_text.h"
#include "api/request.h"
#include "core/result.h"

namespace penstock::api {

inline constexpr std::size_t kKeptBytesMax = 4 * 1024 * 1024;  // Maximum buffer size that is kept for the next request.

[[nodiscard]] inline tl::unexpected<core::Error> wrong_kind(std::string_view where, std::string_view expected,
                                                            Kind kind) {
  return core::invalid_input(std::string{where}, fmt::format("must be {}, is {}", expected, name_of(kind)));
}

// Prefixes the location of an inner error. An error of the whole body has no location.
[[nodiscard]] inline core::Result<void> within(std::string_view outer, core::Result<void> result) {
  if (!result && !result.error().where.empty()) result.error().where.insert(0, outer);
  return result;
}
[[nodiscard]] inline core::Result<void> within(std::string_view outer, std::size_t index, core::Result<void> result) {
  return result ? result : within(fmt::format("{}[{}].", outer, index), std::move(result));
}

template <class Number>
[[nodiscard]] core::Result<void> read_whole_number(std::string_view token, std::string_view where, Number low,
                                                   Number high, Number& number) {
  const char* const end = token.data() + token.size();
  const auto read = std::from_chars(token.data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end && number >= low && number <= high) return {};
  return core::invalid_input(std::string{where},
                             fmt::format("must be a whole number of {} to {}, is {}", low, high, token.substr(0, 32)));
}

// Resets the request and keeps the memory of its text.
inline void clear(InferenceRequest& request, Endpoint endpoint) {
  InferenceRequest fresh;
  fresh.endpoint = endpoint;
  if (request.text.capacity() > kKeptBytesMax) std::string{}.swap(request.text);
  fresh.text = std::move(request.text);
  fresh.model = std::move(request.model);
  fresh.text.clear();
  fresh.model.clear();
  request = std::move(fresh);
}

}  // namespace penstock::api
