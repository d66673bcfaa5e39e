// Messages of Envoy's external processing protocol, which endpoint pickers speak.
// Source: envoy/service/ext_proc/v3/external_processor.proto and envoy/extensions/filters/http/ext_proc/v3 of Envoy
// 1.40, and docs/proposals/004-endpoint-picker-protocol of
// https://github.com/kubernetes-sigs/gateway-api-inference-extension
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace penstock::connect {

inline constexpr std::string_view kExtProcMethod = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

enum class ExtProcPart : std::uint8_t {
  kRequestHeaders,
  kRequestBody,
  kRequestTrailers,
  kResponseHeaders,
  kResponseBody,
  kResponseTrailers,
};

// How Envoy sends the body of a direction, and which answers it expects.
enum class BodySendMode : std::uint8_t { kNone, kStreamed, kBuffered, kBufferedPartial, kFullDuplexStreamed, kGrpc };

// One message of Envoy. The views point into the message. Unknown fields are skipped.
struct ProcessingRequest {
  ExtProcPart part = ExtProcPart::kRequestHeaders;
  std::vector<net::Field> headers;  // Or trailers. Names are in lower case; pseudo header fields are among them.
  std::string_view body;            // A piece, or all of it, as the mode says.
  bool end_of_stream = false;       // Nothing follows in this direction but trailers.
  // The first message of a call states the modes.
  std::optional<BodySendMode> request_body_mode, response_body_mode;
  bool is_observing = false;                // Envoy reads no answers.
  bool has_endpoints = false;               // The proxy states which endpoints may be picked; else any may.
  std::vector<std::string_view> endpoints;  // "ip:port". An empty list that is stated allows none.
  std::string_view served_endpoint;         // Of response headers, where the proxy states it; else empty.
};

// `request` keeps its memory from message to message. False: the message is malformed, or is none of these parts.
[[nodiscard]] bool read_processing_request(std::string_view message, ProcessingRequest& request);

struct HeaderMutation {
  std::vector<net::Field> set;            // Overwritten, or added.
  std::vector<std::string_view> removed;  // Names.
};

// Answers to headers, of either direction. A picked endpoint, "ip:port", or several with commas between, is written
// into the field kPickedEndpointField and into the dynamic metadata "envoy.lb", where load balancing policies look for
// it, and Envoy chooses the route again.
[[nodiscard]] std::string headers_response(ExtProcPart part, const HeaderMutation& mutation,
                                           std::string_view picked_endpoint = {});
// Body messages in the mode of the direction. `body` replaces what Envoy sent; in the modes kFullDuplexStreamed and
// kGrpc, nothing but these pieces is passed on, and `end_of_stream` ends them. Other modes ignore it.
[[nodiscard]] std::string body_response(ExtProcPart part, BodySendMode mode, std::string_view body, bool end_of_stream);
// Leaves the body as it is (kBuffered, kBufferedPartial, kStreamed).
[[nodiscard]] std::string unchanged_body_response(ExtProcPart part);
// Answers a body in the modes kBuffered and kBufferedPartial, in which Envoy still holds the headers, so that an
// endpoint may be picked by the body. Without a body, it stays as it is.
[[nodiscard]] std::string buffered_body_response(ExtProcPart part, const HeaderMutation& mutation,
                                                 std::string_view picked_endpoint,
                                                 std::optional<std::string_view> body);
[[nodiscard]] std::string trailers_response(ExtProcPart part);
// Envoy answers the client itself. Content-Length is Envoy's. `details` is shown in Envoy's access log.
[[nodiscard]] std::string immediate_response(int status, std::span<const net::Field> fields, std::string_view body,
                                             std::string_view details);

inline constexpr std::string_view kPickedEndpointField = "x-gateway-destination-endpoint";
// In the mode kFullDuplexStreamed Envoy takes pieces up to this size.
inline constexpr std::size_t kExtProcPieceBytes = 62'000;

}  // namespace penstock::connect
