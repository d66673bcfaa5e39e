// Selects the header fields that pass through the gateway in either direction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request.h"
#include "core/time.h"
#include "dispatch/refusal.h"
#include "net/http.h"

namespace penstock::gateway {

// Header fields that control engines or the proxies in front of them, or that are credentials. They never pass, unless
// an option names them.
inline constexpr std::array<std::string_view, 16> kHeaderControls{"x-data-parallel-rank",
                                                                  "x-data-parallel-host-port",
                                                                  "x-prefiller-host-port",
                                                                  "x-prefiller-url",
                                                                  "x-encoder-hosts-ports",
                                                                  "x-gateway-destination-endpoint",
                                                                  "x-gateway-destination-endpoint-subset",
                                                                  "x-gateway-inference-objective",
                                                                  "x-gateway-inference-fairness-id",
                                                                  "x-worker-instance-id",
                                                                  "x-prefill-instance-id",
                                                                  "x-dp-rank",
                                                                  "x-smg-target-worker",
                                                                  "x-smg-routing-key",
                                                                  "cookie",
                                                                  "api-key"};
// Returns the index of the name in kHeaderControls, and its size for any other name.
[[nodiscard]] std::size_t header_control_named(std::string_view name);

// Returns true if the name is one of api::kEngineControls.
[[nodiscard]] bool is_engine_control(std::string_view name);

// Appends the client's fields that replicas may see, each with its line end: content type, accepted types, user agent,
// trace context, and those that `more` names. Never forwarded are fields of the connection, those that the gateway
// writes itself, and the client's key, which is meant for the gateway.
void append_forwarded_request_fields(std::string& out, const net::RequestHead& head, std::span<const std::string> more);

// Returns status line and fields of an answer without framing fields and without the empty line, extended by the
// replica that answered and the reason for its choice, unless `replica` is empty.
void append_answer_head(std::string& out, const net::ResponseHead& head, std::string_view request_id,
                        std::string_view replica, std::string_view why);
// Parses such text; the views point into it.
[[nodiscard]] std::vector<net::Field> fields_of(std::string_view answer_head);

// Appends the limits of a tenant and what is left of them, under the names and in the formats of OpenAI.
void append_rate_limits(std::vector<std::pair<std::string, std::string>>& fields, const admission::RateLimits& limits);

// Returns the id for a replica: unique, because engines mix up requests with the same id, and without punctuation that
// an engine could read as an address. It begins with the client's id if that is usable.
[[nodiscard]] std::string engine_request_id(std::string_view id, std::uint64_t number);

// Appends the id of a request whose client sent none: "req-" and 16 hexadecimal digits.
void append_request_id(std::string& out, std::uint64_t number);

// Returns the id, or nothing if it must not appear in logs and headers: at most 128 visible ASCII characters are
// allowed.
[[nodiscard]] std::string usable_request_id(std::string_view id);

// The ids of one request. `engine` is empty if it is the same.
struct RequestIds {
  std::string own, engine;
  // `given` is the client's id; a usable one stays its own.
  void assign(std::string_view given, std::uint64_t number);
  [[nodiscard]] std::string_view for_engine() const { return engine.empty() ? own : engine; }
};

// Returns the id of a conversation: X-Session-ID, the body's session_id, or its `user`. Empty without any.
[[nodiscard]] std::string_view session_of(const net::RequestHead& head, const api::InferenceRequest& request);

// Parses "2s", "1500ms", "0.5m", "1h": above 0, at most one day. Empty if the text is invalid.
[[nodiscard]] std::optional<core::Duration> time_budget_in(std::string_view text);

}  // namespace penstock::gateway
