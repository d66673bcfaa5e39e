// Selects the header fields that pass through the gateway in either direction.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/time.h"
#include "net/http.h"

namespace penstock::gateway {

// Returns the client's fields, each with its line end, without hop-by-hop fields, fields that the gateway writes
// itself, and the client's key, which is meant for the gateway.
void append_forwarded_request_fields(std::string& out, const net::RequestHead& head);

// Returns status line and fields of an answer without framing fields and without the empty line, extended by the
// replica that answered and the reason for its choice.
void append_answer_head(std::string& out, const net::ResponseHead& head, std::string_view request_id,
                        std::string_view replica, std::string_view why);
// Parses such text; the views point into it.
[[nodiscard]] std::vector<net::Field> fields_of(std::string_view answer_head);

// Returns the id, or nothing if it must not appear in logs and headers: at most 128 visible ASCII characters are
// allowed.
[[nodiscard]] std::string usable_request_id(std::string_view id);

// Returns the id of a conversation: X-Session-ID, the body's session_id, or its `user`. Empty without any.
[[nodiscard]] std::string_view session_of(const net::RequestHead& head, const api::InferenceRequest& request);

// Parses "2s", "1500ms", "0.5m": above 0, at most one day. Empty if the text is invalid.
[[nodiscard]] std::optional<core::Duration> time_budget_in(std::string_view text);

}  // namespace penstock::gateway
