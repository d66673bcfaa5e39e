#include "net/body_framing.h"

#include <algorithm>
#include <array>

namespace penstock::net {

namespace {

// RFC 9110, 6.5.1: fields that frame, route or authenticate a message have no place behind its body.
constexpr std::array<std::string_view, 10> kForbidden = {
    "transfer-encoding", "content-length", "content-encoding", "content-type", "content-range",
    "trailer",           "host",           "connection",       "set-cookie",   "authorization"};

// Returns the lines with a legal name, and the empty line that ends them.
std::string legal_trailers(std::string_view lines) {
  std::string legal;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(std::min(line.size() + 2, lines.size()));
    const std::string_view name = line.substr(0, line.find(':'));
    const bool is_forbidden = std::any_of(kForbidden.begin(), kForbidden.end(),
                                          [&](std::string_view known) { return equal_fold(name, known); });
    if (name.size() < line.size() && is_token(name) && !is_forbidden) legal.append(line).append("\r\n");
  }
  return legal.append("\r\n");
}

}  // namespace

void BodyFraming::begin(const ResponseHead& head, bool to_head, bool raw) {
  raw_ = raw;
  kind_ = Kind::kLength;
  left_ = 0;
  if (to_head || head.status < 200 || head.status == 204 || head.status == 304) return;
  if (head.chunked) {
    kind_ = Kind::kChunked;
    chunks_.reset();
    trailers_.clear();
  } else if (head.content_length) {
    left_ = *head.content_length;
  } else {
    kind_ = Kind::kUntilClose;
  }
}

ChunkReader::Step BodyFraming::take(std::string_view bytes) {
  if (kind_ == Kind::kUntilClose) return {ChunkReader::State::kMore, bytes.size(), bytes};
  if (kind_ == Kind::kLength) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
    left_ -= size;
    return {left_ == 0 ? ChunkReader::State::kDone : ChunkReader::State::kMore, size, bytes.substr(0, size)};
  }
  return raw_ ? take_raw(bytes) : chunks_.take(bytes);
}

ChunkReader::Step BodyFraming::take_raw(std::string_view bytes) {
  constexpr std::string_view kNoTrailers = "\r\n";
  ChunkReader::Step step;
  std::size_t consumed = 0;
  const bool began_in_trailer = chunks_.in_trailer();
  while (!chunks_.in_trailer() && step.state == ChunkReader::State::kMore && consumed < bytes.size()) {
    step = chunks_.take(bytes.substr(consumed));
    consumed += step.consumed;
  }
  if (step.state == ChunkReader::State::kMalformed) return step;
  if (!began_in_trailer) {
    // The usual end takes no further step.
    if (chunks_.in_trailer() && bytes.substr(consumed).starts_with(kNoTrailers)) {
      step = chunks_.take(bytes.substr(consumed, kNoTrailers.size()));
      consumed += step.consumed;
    }
    return {step.state, consumed, bytes.substr(0, consumed)};
  }
  step = chunks_.take(bytes);
  trailers_.append(bytes.substr(0, step.consumed));
  if (step.state != ChunkReader::State::kDone) return step;
  trailers_ = legal_trailers(trailers_);
  step.payload = trailers_;
  return step;
}

}  // namespace penstock::net
