#include "gateway/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "api/engine_controls.h"
#include "core/append.h"
#include "core/name_filter.h"

namespace penstock::gateway {
namespace {

// Names of fields; their case is ignored.
template <std::size_t N>
class FieldNames {
 public:
  constexpr explicit FieldNames(const std::array<std::string_view, N>& names) : names_(names), filter_(names) {}
  [[nodiscard]] std::size_t index_of(std::string_view name) const {  // Returns N for any other name.
    if (!filter_.may_have(name)) return N;
    const auto same = [&](std::string_view known) { return net::equal_fold(name, known); };
    return static_cast<std::size_t>(std::find_if(names_.begin(), names_.end(), same) - names_.begin());
  }
  [[nodiscard]] bool has(std::string_view name) const { return index_of(name) < N; }

 private:
  std::array<std::string_view, N> names_;
  core::NameFilter filter_;
};

constexpr FieldNames kHopByHop{std::array<std::string_view, 9>{"connection", "keep-alive", "proxy-authenticate",
                                                               "proxy-authorization", "proxy-connection", "te",
                                                               "trailer", "transfer-encoding", "upgrade"}};
constexpr FieldNames kRewritten{
    std::array<std::string_view, 6>{"host", "content-length", "authorization", "x-api-key", "expect", "x-request-id"}};
constexpr FieldNames kForwarded{std::array<std::string_view, 9>{"content-type", "accept", "user-agent", "traceparent",
                                                                "tracestate", "baggage", "b3", "anthropic-version",
                                                                "anthropic-beta"}};
// Fields of an answer that the gateway writes itself or keeps.
constexpr FieldNames kKept{std::array<std::string_view, 9>{
    "content-length", "x-request-id", "set-cookie", "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens", "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests"}};
constexpr FieldNames kControls{kHeaderControls};

// Connection may name further hop-by-hop fields (RFC 9110, 7.6.1).
bool named_in(std::string_view connection, std::string_view name) {
  while (!connection.empty()) {
    const std::size_t comma = std::min(connection.find(','), connection.size());
    std::string_view token = connection.substr(0, comma);
    while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    if (net::equal_fold(token, name)) return true;
    connection.remove_prefix(std::min(comma + 1, connection.size()));
  }
  return false;
}

// "6s", "1m30s", "1h0m5s": whole seconds, rounded up.
std::string duration_text(core::Duration duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  std::string text = fmt::format("{}s", seconds % 60);
  if (seconds >= 60) text.insert(0, fmt::format("{}m", seconds / 60 % 60));
  if (seconds >= 3600) text.insert(0, fmt::format("{}h", seconds / 3600));
  return text;
}

void append_field(std::string& out, const net::Field& field) {
  core::append_all(out, {field.name, ": ", field.value, "\r\n"});
}

}  // namespace

std::size_t header_control_named(std::string_view name) { return kControls.index_of(name); }

bool is_engine_control(std::string_view name) { return api::engine_control_named(name) < api::kEngineControls.size(); }

void append_forwarded_request_fields(std::string& out, const net::RequestHead& head,
                                     std::span<const std::string> more) {
  const std::string_view connection = head.field("connection");
  for (const net::Field& field : head.fields) {
    const auto same = [&](const std::string& known) { return net::equal_fold(field.name, known); };
    const bool passes = kForwarded.has(field.name) || (std::any_of(more.begin(), more.end(), same) &&
                                                       !kHopByHop.has(field.name) && !kRewritten.has(field.name));
    if (passes && !named_in(connection, field.name)) append_field(out, field);
  }
}

void append_answer_head(std::string& out, const net::ResponseHead& head, std::string_view request_id,
                        std::string_view replica, std::string_view why) {
  core::append_all(out, {"HTTP/1.1 ", std::to_string(head.status), " ", net::reason_phrase(head.status), "\r\n"});
  const std::string_view connection = head.field("connection");
  for (const net::Field& field : head.fields)
    if (!kHopByHop.has(field.name) && !kKept.has(field.name) && !named_in(connection, field.name))
      append_field(out, field);
  append_field(out, {"x-request-id", request_id});
  if (replica.empty()) return;
  append_field(out, {"x-penstock-replica", replica});
  append_field(out, {"x-penstock-route", why});
}

void append_rate_limits(std::vector<std::pair<std::string, std::string>>& fields, const admission::RateLimits& limits) {
  if (limits.tokens > 0.0) {
    fields.emplace_back("x-ratelimit-limit-tokens", fmt::format("{:.0f}", std::floor(limits.tokens)));
    fields.emplace_back("x-ratelimit-remaining-tokens", fmt::format("{:.0f}", std::floor(limits.tokens_left)));
    fields.emplace_back("x-ratelimit-reset-tokens", duration_text(limits.tokens_reset));
  }
  if (limits.requests > 0) {
    fields.emplace_back("x-ratelimit-limit-requests", std::to_string(limits.requests));
    fields.emplace_back("x-ratelimit-remaining-requests", std::to_string(limits.requests_left));
  }
}

std::vector<net::Field> fields_of(std::string_view answer_head) {
  std::vector<net::Field> fields;
  answer_head.remove_prefix(std::min(answer_head.find("\r\n") + 2, answer_head.size()));
  while (!answer_head.empty()) {
    const std::string_view line = answer_head.substr(0, answer_head.find("\r\n"));
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    fields.push_back({line.substr(0, colon), line.substr(std::min(colon + 2, line.size()))});
    answer_head.remove_prefix(std::min(line.size() + 2, answer_head.size()));
  }
  return fields;
}

std::string engine_request_id(std::string_view id, std::uint64_t number) {
  constexpr std::size_t kIdMax = 64;
  const auto is_safe = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
  };
  if (id.size() > kIdMax || !std::all_of(id.begin(), id.end(), is_safe)) id = "req";
  return fmt::format("{}-{:016x}", id, number);
}

void append_request_id(std::string& out, std::uint64_t number) {
  std::array<char, 20> id{'r', 'e', 'q', '-'};
  for (std::size_t at = id.size(); at > 4; number >>= 4) id[--at] = "0123456789abcdef"[number & 0xF];
  out.append(id.data(), id.size());
}

std::string usable_request_id(std::string_view id) {
  constexpr std::size_t kIdMax = 128;
  if (id.size() > kIdMax) return {};
  if (!std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < '\x7f'; })) return {};
  return std::string{id};
}

std::string_view session_of(const net::RequestHead& head, const api::InferenceRequest& request) {
  if (const std::string_view handler = head.field("x-session-id"); !handler.empty()) return handler;
  return request.session_id.empty() ? std::string_view{request.user} : std::string_view{request.session_id};
}

std::optional<core::Duration> time_budget_in(std::string_view text) {
  constexpr double kMost = 86'400.0;
  double number = 0.0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (read.ec != std::errc{}) return std::nullopt;
  const std::string_view unit{read.ptr, static_cast<std::size_t>(end - read.ptr)};
  const double seconds = unit == "ms"  ? number / 1000.0
                         : unit == "s" ? number
                         : unit == "m" ? 60.0 * number
                         : unit == "h" ? 3600.0 * number
                                       : 0.0;
  if (!(seconds >= 0.001 && seconds <= kMost)) return std::nullopt;
  return core::from_seconds(seconds);
}

void RequestIds::assign(std::string_view given, std::uint64_t number) {
  own = usable_request_id(given);
  engine.clear();
  if (own.empty())
    append_request_id(own, number);
  else
    engine = engine_request_id(own, number);
}

}  // namespace penstock::gateway
