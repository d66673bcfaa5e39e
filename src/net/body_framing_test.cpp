#include "net/body_framing.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::net {
namespace {

using State = ChunkReader::State;

struct Taken {
  State state = State::kMore;
  std::string payload;
  std::size_t consumed = 0;
};
// Consumes all bytes in pieces of the given size.
Taken take_all(BodyFraming& framing, std::string_view bytes, std::size_t size) {
  Taken taken;
  while (!bytes.empty() && taken.state == State::kMore) {
    std::string_view piece = bytes.substr(0, size);
    while (!piece.empty() && taken.state == State::kMore) {
      const auto step = framing.take(piece);
      taken.state = step.state;
      taken.payload += step.payload;
      taken.consumed += step.consumed;
      piece.remove_prefix(step.consumed);
      bytes.remove_prefix(step.consumed);
    }
  }
  return taken;
}

ResponseHead head_of(int status) {
  ResponseHead head;
  head.status = status;
  return head;
}

TEST(BodyFraming, RecognisesResponsesWithoutABody) {
  for (const int status : {204, 304}) {
    ResponseHead head = head_of(status);
    head.content_length = 10;
    BodyFraming framing;
    framing.begin(head, false, false);
    EXPECT_EQ(framing.take("").state, State::kDone) << status;
  }
  ResponseHead head = head_of(200);
  head.chunked = true;
  BodyFraming framing;
  framing.begin(head, true, false);
  EXPECT_EQ(framing.take("").state, State::kDone);
}

TEST(BodyFraming, EndsAfterTheContentLength) {
  for (const std::size_t size : {1U, 2U, 100U}) {
    ResponseHead head = head_of(200);
    head.content_length = 5;
    BodyFraming framing;
    framing.begin(head, false, size == 2);
    const Taken taken = take_all(framing, "helloHTTP/1.1", size);
    EXPECT_EQ(taken.state, State::kDone);
    EXPECT_EQ(taken.payload, "hello");
    EXPECT_EQ(taken.consumed, 5U);
  }
}

TEST(BodyFraming, RemovesOrKeepsChunkFraming) {
  const std::string_view body = "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: 1\r\n\r\n";
  for (const std::size_t size : {1U, 3U, 100U}) {
    ResponseHead head = head_of(200);
    head.chunked = true;
    BodyFraming plain, raw;
    plain.begin(head, false, false);
    raw.begin(head, false, true);
    const Taken payload = take_all(plain, std::string{body} + "more", size);
    const Taken framed = take_all(raw, std::string{body} + "more", size);
    EXPECT_EQ(payload.payload, "hello!");
    EXPECT_EQ(framed.payload, body);
    EXPECT_EQ(payload.consumed, body.size());
    EXPECT_EQ(framed.consumed, body.size());
    EXPECT_EQ(framed.state, State::kDone);
  }
}

TEST(BodyFraming, DropsTrailersWithIllegalNames) {
  const std::string_view body = "1\r\n!\r\n0\r\n";
  const std::string_view trailers =
      "Good: 1\r\nBad Name: 2\r\nno colon\r\n: empty\r\n folded: 3\r\ncontent-LENGTH: 4\r\nSet-Cookie: a=b\r\nLast: "
      "5\r\n\r\n";
  for (const std::size_t size : {1U, 2U, 3U, 7U, 500U}) {
    ResponseHead head = head_of(200);
    head.chunked = true;
    BodyFraming framing;
    framing.begin(head, false, true);
    const Taken taken = take_all(framing, std::string{body}.append(trailers) + "more", size);
    EXPECT_EQ(taken.state, State::kDone);
    EXPECT_EQ(taken.payload, std::string{body} + "Good: 1\r\nLast: 5\r\n\r\n") << size;
    EXPECT_EQ(taken.consumed, body.size() + trailers.size());
  }
}

TEST(BodyFraming, TheUsualEndIsOneStep) {
  ResponseHead head = head_of(200);
  head.chunked = true;
  BodyFraming framing;
  framing.begin(head, false, true);
  const std::string_view whole = "1\r\na\r\n0\r\n\r\n";
  const auto step = framing.take(whole);
  EXPECT_EQ(step.payload, whole);
  EXPECT_EQ(step.state, State::kDone);
}

TEST(BodyFraming, RawPiecesAreReturnedWhole) {
  ResponseHead head = head_of(200);
  head.chunked = true;
  BodyFraming framing;
  framing.begin(head, false, true);
  const std::string_view two = "1\r\na\r\n1\r\nb\r\n";
  const auto step = framing.take(two);
  EXPECT_EQ(step.payload, two);
  EXPECT_EQ(step.state, State::kMore);
}

TEST(BodyFraming, DetectsMalformedChunksInBothModes) {
  for (const bool raw : {false, true}) {
    ResponseHead head = head_of(200);
    head.chunked = true;
    BodyFraming framing;
    framing.begin(head, false, raw);
    EXPECT_EQ(take_all(framing, "5\r\nhelloX\r\n", 100).state, State::kMalformed);
  }
}

TEST(BodyFraming, WithoutALengthEndsWithTheConnection) {
  BodyFraming framing;
  framing.begin(head_of(200), false, false);
  EXPECT_TRUE(framing.ends_with_connection());
  EXPECT_EQ(framing.take("anything").payload, "anything");
  EXPECT_EQ(framing.take("").state, State::kMore);
}

}  // namespace
}  // namespace penstock::net
