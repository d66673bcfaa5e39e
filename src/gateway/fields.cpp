#include "gateway/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/engine_controls.h"

namespace penstock::gateway {
namespace {

constexpr std::array<std::string_view, 9> kHopByHop = {
    "connection",        "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade"};
constexpr std::array<std::string_view, 5> kRewritten = {"host", "content-length", "authorization", "expect",
                                                        "x-request-id"};
constexpr std::array<std::string_view, 7> kForwarded = {"content-type", "accept",  "user-agent", "traceparent",
                                                        "tracestate",   "baggage", "b3"};

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view known) { return net::equal_fold(name, known); });
}

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

void append_field(std::string& out, const net::Field& field) {
  out.append(field.name).append(": ").append(field.value).append("\r\n");
}

}  // namespace

std::size_t header_control_named(std::string_view name) {
  // Most fields of a request begin with another letter.
  if (name.empty() || std::string_view{"acxACX"}.find(name.front()) == std::string_view::npos)
    return kHeaderControls.size();
  const auto same = [&](std::string_view known) { return net::equal_fold(name, known); };
  return static_cast<std::size_t>(std::find_if(kHeaderControls.begin(), kHeaderControls.end(), same) -
                                  kHeaderControls.begin());
}

bool is_engine_control(std::string_view name) { return api::engine_control_named(name) < api::kEngineControls.size(); }

void append_forwarded_request_fields(std::string& out, const net::RequestHead& head,
                                     std::span<const std::string> more) {
  const std::string_view connection = head.field("connection");
  for (const net::Field& field : head.fields) {
    const auto same = [&](const std::string& known) { return net::equal_fold(field.name, known); };
    const bool passes =
        is_one_of(field.name, kForwarded) || (std::any_of(more.begin(), more.end(), same) &&
                                              !is_one_of(field.name, kHopByHop) && !is_one_of(field.name, kRewritten));
    if (passes && !named_in(connection, field.name)) append_field(out, field);
  }
}

void append_answer_head(std::string& out, const net::ResponseHead& head, std::string_view request_id,
                        std::string_view replica, std::string_view why) {
  out.append("HTTP/1.1 ").append(std::to_string(head.status)).append(" ");
  out.append(net::reason_phrase(head.status)).append("\r\n");
  const std::string_view connection = head.field("connection");
  for (const net::Field& field : head.fields)
    if (!is_one_of(field.name, kHopByHop) && !net::equal_fold(field.name, "content-length") &&
        !net::equal_fold(field.name, "x-request-id") && !net::equal_fold(field.name, "set-cookie") &&
        !named_in(connection, field.name))
      append_field(out, field);
  append_field(out, {"x-request-id", request_id});
  if (replica.empty()) return;
  append_field(out, {"x-penstock-replica", replica});
  append_field(out, {"x-penstock-route", why});
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
  const double seconds = unit == "ms" ? number / 1000.0 : unit == "s" ? number : unit == "m" ? 60.0 * number : 0.0;
  if (!(seconds >= 0.001 && seconds <= kMost)) return std::nullopt;
  return core::from_seconds(seconds);
}

}  // namespace penstock::gateway
