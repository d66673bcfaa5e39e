// Which header fields pass through the gateway, in either direction.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/time.h"
#include "net/http.h"

namespace penstock::gateway {

// The client's fields but those that concern one connection only, those that the gateway writes itself, and the client's
// key: that is for the gateway. Each line with its end.
void append_forwarded_request_fields(std::string& out, const net::RequestHead& head);

// Status line and fields of an answer without those on framing and without the empty line; tells who answered, and why it.
void append_answer_head(std::string& out, const net::ResponseHead& head, std::string_view request_id,
                        std::string_view replica, std::string_view why);
// The fields in such text; views into it.
[[nodiscard]] std::vector<net::Field> fields_of(std::string_view answer_head);

// The id as it came, or empty if it is no id that may stand in logs and headers: at most 128 visible ASCII characters.
[[nodiscard]] std::string usable_request_id(std::string_view id);

// What keeps a conversation together: X-Session-ID, the body's session_id, or its `user`. Empty: nothing does.
[[nodiscard]] std::string_view session_of(const net::RequestHead& head, const api::InferenceRequest& request);

// "2s", "1500ms", "0.5m": above 0, a day at most. None: it is something else.
[[nodiscard]] std::optional<core::Duration> time_budget_in(std::string_view text);

}  // namespace penstock::gateway
