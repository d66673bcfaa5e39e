// Messages of Envoy to an endpoint picker: what is read lies within the message and is the same if it is read again,
// and answers contain what they were given.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "connect/envoy/ext_proc_messages.h"
#include "core/protobuf.h"

namespace {

using namespace penstock;
using connect::BodySendMode;
using connect::ExtProcPart;

void check(bool holds) {
  if (!holds) std::abort();
}

// Returns the content of the field, which the message has once.
std::string_view only(std::string_view message, std::uint32_t number) {
  core::protobuf::Reader reader{message};
  std::optional<std::string_view> found;
  while (const auto field = reader.next()) {
    if (field->number != number) continue;
    check(!found);
    found = field->bytes;
  }
  check(reader.is_valid() && found);
  return *found;
}

std::size_t count(std::string_view message, std::uint32_t number) {
  core::protobuf::Reader reader{message};
  std::size_t found = 0;
  while (const auto field = reader.next()) found += field->number == number ? 1 : 0;
  check(reader.is_valid());
  return found;
}

void check_body_answers(std::string_view body, bool ends) {
  const ExtProcPart part = ExtProcPart::kResponseBody;
  const std::string whole = connect::body_response(part, BodySendMode::kBuffered, body, ends);
  check(only(only(only(only(whole, 4), 1), 3), 1) == body);
  const std::string piece = connect::body_response(part, BodySendMode::kFullDuplexStreamed, body, ends);
  const std::string_view streamed = only(only(only(only(piece, 4), 1), 3), 3);
  check(only(streamed, 1) == body && count(streamed, 2) == (ends ? 1 : 0));
  const std::string picked = connect::buffered_body_response(ExtProcPart::kRequestBody, {}, "10.0.0.1:8000", body);
  const std::string_view common = only(only(picked, 3), 1);
  check(only(only(common, 3), 1) == body && count(only(common, 2), 1) == 1 && count(common, 5) == 1);
  check(count(picked, 8) == 1);
}

void check_header_answers(const connect::ProcessingRequest& request) {
  const std::string answer = connect::headers_response(ExtProcPart::kRequestHeaders, {request.headers, {"x"}}, {});
  const std::string_view mutation = only(only(only(answer, 1), 1), 2);
  check(count(mutation, 1) == request.headers.size() && count(mutation, 2) == 1);
  const std::string immediate = connect::immediate_response(429, request.headers, "{}", "details");
  check(request.headers.empty() || count(only(only(immediate, 7), 2), 1) == request.headers.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view message{reinterpret_cast<const char*>(data), size};
  const auto is_within = [&](std::string_view view) {
    return view.empty() || (view.data() >= message.data() && view.data() + view.size() <= message.data() + size);
  };
  static connect::ProcessingRequest request;  // Keeps its memory, as a server's does.
  const bool is_valid = connect::read_processing_request(message, request);
  for (const net::Field& header : request.headers) check(is_within(header.name) && is_within(header.value));
  for (const std::string_view endpoint : request.endpoints) check(!endpoint.empty() && is_within(endpoint));
  check(is_within(request.body) && is_within(request.served_endpoint));
  connect::ProcessingRequest again;
  check(connect::read_processing_request(message, again) == is_valid);
  check(again.part == request.part && again.body == request.body && again.end_of_stream == request.end_of_stream &&
        again.headers.size() == request.headers.size() && again.endpoints == request.endpoints &&
        again.has_endpoints == request.has_endpoints && again.request_body_mode == request.request_body_mode);
  if (!is_valid) return 0;
  check_body_answers(request.body, request.end_of_stream);
  check_header_answers(request);
  return 0;
}
