#include "connect/envoy/ext_proc_messages.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/protobuf.h"

namespace penstock::connect {
namespace {

using core::protobuf::Writer;

// The messages below were written by the definitions of Envoy as they are in the Python package xds-protos 1.85.
std::string bytes_of(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<char>(digit(hex[at]) << 4 | digit(hex[at + 1])));
  return bytes;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) hex += {kDigits[static_cast<std::uint8_t>(c) >> 4], kDigits[c & 15]};
  return hex;
}

std::string text_of(const std::vector<net::Field>& fields) {
  std::string text;
  for (const net::Field& field : fields) text.append(field.name).append("=").append(field.value).append(";");
  return text;
}

constexpr std::string_view kHeaders =
    "125e0a5a0a0f0a073a6d6574686f641a04504f53540a1d0a053a706174681a142f76312f636861742f636f6d706c6574696f6e730a"
    "1b0a0d617574686f72697a6174696f6e1a0a426561726572206b65790a0b0a036f6c64120474657874180142d2010a530a14656e76"
    "6f792e66696c746572732e687474702e78123b0a390a25782d676174657761792d64657374696e6174696f6e2d656e64706f696e74"
    "2d7375627365741210320e0a0c1a0a31302e392e392e393a310a7b0a14656e766f792e6c622e7375627365745f68696e7412630a12"
    "0a056f74686572120911000000000000f83f0a4d0a25782d676174657761792d64657374696e6174696f6e2d656e64706f696e742d"
    "737562736574122432220a0f1a0d31302e302e302e313a383030300a0f1a0d31302e302e302e323a383030304a400a1b656e766f79"
    "2e66696c746572732e687474702e6578745f70726f6312210a1f0a0e736f757263652e61646472657373120d1a0b3132372e302e30"
    "2e313a3150015a0408041001";
constexpr std::string_view kResponseHeaders =
    "1a120a100a0e0a073a7374617475731a0332303042ac010a620a14656e766f792e6c622e7375627365745f68696e74124a0a480a25"
    "782d676174657761792d64657374696e6174696f6e2d656e64706f696e742d737562736574121f1a1d31302e302e302e313a383030"
    "302c2031302e302e302e323a383030302c0a460a08656e766f792e6c62123a0a380a25782d676174657761792d64657374696e6174"
    "696f6e2d656e64706f696e742d736572766564120f1a0d31302e302e302e323a38303030";
constexpr std::string_view kNoEndpoints =
    "120042470a450a14656e766f792e6c622e7375627365745f68696e74122d0a2b0a25782d676174657761792d64657374696e617469"
    "6f6e2d656e64706f696e742d737562736574120232005a00";

TEST(ExtProcMessages, TheFirstMessageHasHeadersModesAndTheEndpointsThatMayBePicked) {
  const std::string message = bytes_of(kHeaders);
  ProcessingRequest request;
  ASSERT_TRUE(read_processing_request(message, request));
  EXPECT_EQ(request.part, ExtProcPart::kRequestHeaders);
  EXPECT_EQ(text_of(request.headers), ":method=POST;:path=/v1/chat/completions;authorization=Bearer key;old=text;");
  EXPECT_TRUE(request.end_of_stream);
  EXPECT_EQ(request.request_body_mode, BodySendMode::kFullDuplexStreamed);
  EXPECT_EQ(request.response_body_mode, BodySendMode::kStreamed);
  EXPECT_TRUE(request.is_observing);
  EXPECT_TRUE(request.has_endpoints);
  EXPECT_EQ(request.endpoints, (std::vector<std::string_view>{"10.0.0.1:8000", "10.0.0.2:8000"}));
  EXPECT_EQ(request.served_endpoint, "");
}

TEST(ExtProcMessages, EndpointsMayBeAListInOneString) {
  const std::string message = bytes_of(kResponseHeaders);
  ProcessingRequest request;
  ASSERT_TRUE(read_processing_request(message, request));
  EXPECT_EQ(request.part, ExtProcPart::kResponseHeaders);
  EXPECT_EQ(text_of(request.headers), ":status=200;");
  EXPECT_EQ(request.endpoints, (std::vector<std::string_view>{"10.0.0.1:8000", "10.0.0.2:8000"}));
  EXPECT_EQ(request.served_endpoint, "10.0.0.2:8000");
}

TEST(ExtProcMessages, AnEmptyListOfEndpointsIsNotNone) {
  const std::string message = bytes_of(kNoEndpoints);
  ProcessingRequest request;
  ASSERT_TRUE(read_processing_request(message, request));
  EXPECT_TRUE(request.has_endpoints);
  EXPECT_TRUE(request.endpoints.empty());
  EXPECT_EQ(request.request_body_mode, BodySendMode::kNone) << "zeros are not written";
  EXPECT_EQ(request.response_body_mode, BodySendMode::kNone);
}

TEST(ExtProcMessages, BodiesAndTrailersAreReadAndNothingOfTheLastMessageStays) {
  ProcessingRequest request;
  const std::string headers = bytes_of(kHeaders);
  ASSERT_TRUE(read_processing_request(headers, request));
  const std::string body = bytes_of("22110a0d7b226d6f64656c223a226d227d1001");
  ASSERT_TRUE(read_processing_request(body, request));
  EXPECT_EQ(request.part, ExtProcPart::kRequestBody);
  EXPECT_EQ(request.body, R"({"model":"m"})");
  EXPECT_TRUE(request.end_of_stream);
  EXPECT_TRUE(request.headers.empty() && request.endpoints.empty());
  EXPECT_FALSE(request.has_endpoints || request.is_observing || request.request_body_mode);
  const std::string piece = bytes_of("2a0b0a09646174613a20780a0a");
  ASSERT_TRUE(read_processing_request(piece, request));
  EXPECT_EQ(request.part, ExtProcPart::kResponseBody);
  EXPECT_EQ(request.body, "data: x\n\n");
  EXPECT_FALSE(request.end_of_stream);
  const std::string trailers = bytes_of("3a140a120a100a0b677270632d7374617475731a0130");
  ASSERT_TRUE(read_processing_request(trailers, request));
  EXPECT_EQ(request.part, ExtProcPart::kResponseTrailers);
  EXPECT_EQ(text_of(request.headers), "grpc-status=0;");
  EXPECT_EQ(request.body, "");
}

TEST(ExtProcMessages, WhatIsNoMessageIsRefused) {
  ProcessingRequest request;
  EXPECT_FALSE(read_processing_request("", request)) << "no part";
  EXPECT_FALSE(read_processing_request("\x50\x01", request)) << "no part";
  EXPECT_FALSE(read_processing_request("\x50\x01\x22", request)) << "cut off";
  for (const std::string_view each : {kHeaders, kResponseHeaders, kNoEndpoints}) {
    const std::string message = bytes_of(each);
    for (std::size_t size = 0; size < message.size(); ++size)
      (void)read_processing_request(std::string_view{message}.substr(0, size), request);
    EXPECT_FALSE(read_processing_request(std::string_view{message}.substr(0, message.size() - 1), request));
  }
  Writer header, map, headers, message, modes;
  header.bytes(3, "a value without a name");
  map.bytes(1, header.message());
  headers.bytes(1, map.message());
  message.bytes(2, headers.message());
  EXPECT_FALSE(read_processing_request(message.message(), request));
  modes.bytes(2, {});
  modes.bytes(11, "\x08\x06");
  EXPECT_FALSE(read_processing_request(modes.message(), request)) << "an unknown mode";
}

TEST(ExtProcMessages, APickIsAFieldAndMetadata) {
  const std::array<net::Field, 1> set{{{"x-a", "1"}}};
  EXPECT_EQ(hex_of(headers_response(ExtProcPart::kRequestHeaders, {{set.begin(), set.end()}, {"authorization"}},
                                    "10.0.0.1:8000")),
            "0a580a5612520a0c0a080a03782d611a013118020a330a2f0a1e782d676174657761792d64657374696e6174696f6e2d65"
            "6e64706f696e741a0d31302e302e302e313a383030301802120d617574686f72697a6174696f6e280142430a410a08656e"
            "766f792e6c6212352a330a310a1e782d676174657761792d64657374696e6174696f6e2d656e64706f696e74120f1a0d31"
            "302e302e302e313a38303030");
  EXPECT_EQ(hex_of(headers_response(ExtProcPart::kResponseHeaders, {})), "12020a00");
}

TEST(ExtProcMessages, BodiesAreAnsweredInTheirMode) {
  EXPECT_EQ(hex_of(body_response(ExtProcPart::kRequestBody, BodySendMode::kFullDuplexStreamed, "abc", true)),
            "1a0d0a0b1a091a070a036162631001");
  EXPECT_EQ(hex_of(body_response(ExtProcPart::kResponseBody, BodySendMode::kStreamed, "abc", true)),
            "22090a071a050a03616263");
  EXPECT_EQ(hex_of(unchanged_body_response(ExtProcPart::kRequestBody)), "1a020a00");
  const std::string body(200, 'y');
  EXPECT_EQ(body_response(ExtProcPart::kResponseBody, BodySendMode::kFullDuplexStreamed, body, false),
            bytes_of("22d4010ad1011ace011acb010ac801") + body);
}

TEST(ExtProcMessages, AnEndpointIsPickedByABufferedBody) {
  EXPECT_EQ(hex_of(buffered_body_response(ExtProcPart::kRequestBody, {}, "10.0.0.1:8000", "{}")),
            "1a410a3f12350a330a2f0a1e782d676174657761792d64657374696e6174696f6e2d656e64706f696e741a0d31302e302e"
            "302e313a3830303018021a040a027b7d280142430a410a08656e766f792e6c6212352a330a310a1e782d67617465776179"
            "2d64657374696e6174696f6e2d656e64706f696e74120f1a0d31302e302e302e313a38303030");
  EXPECT_EQ(buffered_body_response(ExtProcPart::kRequestBody, {}, {}, std::nullopt),
            unchanged_body_response(ExtProcPart::kRequestBody));
}

TEST(ExtProcMessages, TrailersAndImmediateResponses) {
  EXPECT_EQ(hex_of(trailers_response(ExtProcPart::kResponseTrailers)), "3200");
  const std::array<net::Field, 1> fields{{{"retry-after", "3"}}};
  EXPECT_EQ(hex_of(immediate_response(429, fields, "{}", "queue_full")),
            "3a2d0a0308ad0312160a140a100a0b72657472792d61667465721a013318021a027b7d2a0a71756575655f66756c6c");
}

}  // namespace
}  // namespace penstock::connect
