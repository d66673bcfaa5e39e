#include "net/server_request.h"

#include <algorithm>

namespace penstock::net {

namespace {

// Bytes that have come, and bytes that are to come, from which on the socket is read into the body itself.
constexpr std::size_t kDirectBytesMin = 64 * 1024;

}  // namespace

void Request::keep_head(std::string_view bytes) {
  head_bytes.assign(bytes);
  const char* const base = head_bytes.data();
  const auto rebase = [&](std::string_view& view) { view = {base + (view.data() - bytes.data()), view.size()}; };
  rebase(head.method);
  rebase(head.target);
  for (Field& field : head.fields) {
    rebase(field.name);
    rebase(field.value);
  }
}

bool Request::make_room() {
  if (head.chunked) return false;
  if (body.size() > body_read) return true;
  const std::size_t whole = *head.content_length;
  if (body_read < kDirectBytesMin || whole - body_read < kDirectBytesMin) return false;
  if (body_read >= kStepBytes) body.reserve(whole);
  body.resize(std::min(whole, body_read + std::min(kStepBytes, 4 * body_read)));
  return true;
}

Request::Taken Request::take_body(std::string_view& rest, std::size_t bytes_max) {
  if (!head.chunked) {
    const std::string_view piece = rest.substr(0, *head.content_length - body_read);
    body.append(piece);
    rest.remove_prefix(piece.size());
    return {piece.size()};
  }
  const ChunkReader::Step step = chunks.take(rest);
  rest.remove_prefix(step.consumed);
  if (step.state == ChunkReader::State::kMalformed) return {0, 400, "malformed chunk in the request body"};
  if (body.size() + step.payload.size() > bytes_max) return {0, 413, "the request body is too large"};
  body.append(step.payload);
  last_chunk_read = step.state == ChunkReader::State::kDone;
  return {step.payload.size()};
}

}  // namespace penstock::net
