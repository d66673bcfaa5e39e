#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "net/http.h"

namespace penstock::net {
namespace {

struct Read {
  std::string payload;
  std::size_t consumed = 0;
  ChunkReader::State state = ChunkReader::State::kMore;
};

Read read_in_pieces(std::string_view text, std::size_t size) {
  ChunkReader reader;
  Read read;
  while (!text.empty() && read.state == ChunkReader::State::kMore) {
    std::string_view piece = text.substr(0, size);
    while (!piece.empty() && read.state == ChunkReader::State::kMore) {
      const auto step = reader.take(piece);
      read.payload.append(step.payload);
      read.consumed += step.consumed;
      read.state = step.state;
      piece.remove_prefix(step.consumed);
      text.remove_prefix(step.consumed);
    }
  }
  return read;
}

TEST(ChunkReader, ReadsTheBodyInPiecesOfAnySize) {
  const std::string body = "5\r\nhello\r\n00C;name=\"a;b\"\r\n, wide world\r\n0;last\r\nTrailer: x\r\nOther: y\r\n\r\n";
  const std::string text = body + "GET / HTTP/1.1\r\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const Read read = read_in_pieces(text, size);
    EXPECT_EQ(read.state, ChunkReader::State::kDone);
    EXPECT_EQ(read.payload, "hello, wide world");
    EXPECT_EQ(read.consumed, body.size());
  }
}

TEST(ChunkReader, RejectsAmbiguousInput) {
  const std::vector<std::string> cases = {
      "\r\n",                                          // No length.
      ";x\r\n",                                        //
      "-1\r\n",                                        //
      "+5\r\nhello\r\n",                               //
      "0x5\r\nhello\r\n",                              //
      " 5\r\nhello\r\n",                               //
      "5 \r\nhello\r\n",                               //
      "5\nhello\r\n",                                  // Bare line feeds.
      "5;x\nhello\r\n",                                //
      "5\r\nhello\n",                                  //
      "5\r\nhello!\r\n",                               // Longer than its length.
      "5\rxhello\r\n",                                 //
      "5\r\r\nhello\r\n",                              //
      "0\r\nTrailer: x\n\r\n",                         //
      "0\r\nTrailer: \x01\r\n\r\n",                    //
      "0\r\n\rx",                                      //
      "1000000000000000\r\n",                          // 16 digits.
      "1;" + std::string(20'000, 'x') + "\r\n",        //
      "0\r\nX: " + std::string(20'000, 'x') + "\r\n",  //
  };
  for (const std::string& text : cases)
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, text.size()})
      EXPECT_EQ(read_in_pieces(text, size).state, ChunkReader::State::kMalformed) << text.substr(0, 40);
}

TEST(ChunkReader, ExtensionsOfManyChunksAreLimitedTogether) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "1;" + std::string(100, 'x') + "\r\ny\r\n";
  EXPECT_EQ(read_in_pieces(text, text.size()).state, ChunkReader::State::kMalformed);
}

TEST(ChunkReader, RoundTrips) {
  std::string text, body;
  for (const std::size_t size : {1u, 9u, 15u, 16u, 255u, 4096u, 70'000u}) {
    append_chunk(text, std::string(size, 'x'));
    append_chunk(text, "");
    body.append(size, 'x');
  }
  text += kLastChunk;
  const Read read = read_in_pieces(text, text.size());
  EXPECT_EQ(read.state, ChunkReader::State::kDone);
  EXPECT_EQ(read.payload, body);
  EXPECT_EQ(read.consumed, text.size());
}

TEST(DecodeQuery, DecodesPercentAndPlus) {
  EXPECT_EQ(decode_query("a%2Fb+c%20d"), "a/b c d");
  EXPECT_EQ(decode_query(""), "");
  EXPECT_EQ(decode_query("%"), std::nullopt);
  EXPECT_EQ(decode_query("%2"), std::nullopt);
  EXPECT_EQ(decode_query("%2x"), std::nullopt);
  EXPECT_EQ(encode_query("a/b c\xff-_.~"), "a%2Fb%20c%FF-_.~");
}

}  // namespace
}  // namespace penstock::net
