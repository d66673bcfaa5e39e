// HTTP/1.1 and server-sent events as bytes. What is cut into pieces means the same as what comes whole: heads, bodies
// in chunks, events. What is accepted is safe to pass on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "net/sse.h"

namespace {

using namespace penstock::net;

void check(bool holds) {
  if (!holds) std::abort();
}

bool same_fields(const MessageHead& left, const MessageHead& right) {
  return std::equal(left.fields.begin(), left.fields.end(), right.fields.begin(), right.fields.end(),
                    [](const Field& a, const Field& b) { return a.name == b.name && a.value == b.value; }) &&
         left.content_length == right.content_length && left.chunked == right.chunked &&
         left.keep_alive == right.keep_alive && left.http_1_0 == right.http_1_0;
}

void check_head(const MessageHead& head) {
  check(!(head.chunked && (head.content_length || head.http_1_0)));
  check(head.fields.size() <= MessageHead::kFieldsMax);
  for (const Field& field : head.fields) {
    check(!field.name.empty() && head.has_field(field.name));
    for (const std::string_view text : {field.name, field.value}) check(text.find_first_of({"\r\n\0", 3}) == text.npos);
  }
}

// Grows by `step` bytes at a time, as a head does that arrives in pieces.
template <class Head, class Parse>
void feed_head(std::string_view bytes, std::size_t step, Parse&& parse) {
  Head whole, cut;
  const HeadResult expected = parse(bytes, whole, 0);
  HeadResult result;
  std::size_t searched = 0;
  for (std::size_t size = 0; result.state == HeadState::kIncomplete && size < bytes.size();) {
    size = std::min(bytes.size(), size + step);
    result = parse(bytes.substr(0, size), cut, searched);
    searched = size;
  }
  check(result.state == expected.state && result.bytes == expected.bytes);
  if (expected.state == HeadState::kMalformed) check(result.status == expected.status && *expected.fault != '\0');
  if (expected.state != HeadState::kComplete) return;
  check(expected.bytes <= bytes.size() && bytes.substr(0, expected.bytes).ends_with("\r\n\r\n"));
  check(same_fields(whole, cut));
  check_head(whole);
}

struct Chunks {
  std::string payload;
  std::size_t consumed = 0;
  ChunkReader::State state = ChunkReader::State::kMore;
};
Chunks feed_chunks(std::string_view bytes, std::size_t step) {
  ChunkReader reader;
  Chunks chunks;
  while (!bytes.empty() && chunks.state == ChunkReader::State::kMore) {
    const ChunkReader::Step taken = reader.take(bytes.substr(0, step));
    check(taken.consumed > 0 || taken.state == ChunkReader::State::kMalformed);
    chunks.payload.append(taken.payload);
    chunks.consumed += taken.consumed;
    chunks.state = taken.state;
    bytes.remove_prefix(taken.consumed);
  }
  return chunks;
}

std::vector<std::string> feed_events(std::string_view bytes, std::size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
    check(reader.take(bytes.substr(0, step), [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first byte says in which pieces the rest arrives.
  const std::size_t step = size > 0 ? 1 + data[0] % 64 : 1;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0};

  feed_head<RequestHead>(bytes, step, [](std::string_view text, RequestHead& head, std::size_t searched) {
    const HeadResult result = parse_request_head(text, head, searched);
    if (result.state == HeadState::kComplete) check(!head.path().empty() && head.parameter("a").size() <= text.size());
    return result;
  });
  feed_head<ResponseHead>(bytes, step, [](std::string_view text, ResponseHead& head, std::size_t searched) {
    const HeadResult result = parse_response_head(text, head, searched);
    if (result.state == HeadState::kComplete) check(head.status >= 100 && head.status <= 599);
    return result;
  });

  // A body by itself, and behind a head.
  const std::size_t end = bytes.find("\r\n\r\n");
  for (const std::string_view body : {bytes, end == bytes.npos ? std::string_view{} : bytes.substr(end + 4)}) {
    const Chunks whole = feed_chunks(body, body.size()), cut = feed_chunks(body, step);
    check(whole.payload == cut.payload && whole.state == cut.state && whole.consumed == cut.consumed);
    if (whole.state != ChunkReader::State::kDone) continue;
    std::string again;
    append_chunk(again, whole.payload);
    again += kLastChunk;
    check(feed_chunks(again, step).payload == whole.payload);
  }

  check(feed_events(bytes, bytes.size() + 1) == feed_events(bytes, step));
  if (const auto decoded = decode_query(bytes)) check(decoded->size() <= bytes.size());
  return 0;
}
