#include "net/body_framing.h"

#include <algorithm>

namespace penstock::net {

void BodyFraming::begin(const ResponseHead& head, bool to_head, bool raw) {
  raw_ = raw;
  kind_ = Kind::kLength;
  left_ = 0;
  if (to_head || head.status < 200 || head.status == 204 || head.status == 304) return;
  if (head.chunked) {
    kind_ = Kind::kChunked;
    chunks_.reset();
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
  ChunkReader::Step step = chunks_.take(bytes);
  if (!raw_) return step;
  std::size_t consumed = step.consumed;
  while (step.state == ChunkReader::State::kMore && consumed < bytes.size()) {
    step = chunks_.take(bytes.substr(consumed));
    consumed += step.consumed;
  }
  return {step.state, consumed, bytes.substr(0, consumed)};
}

}  // namespace penstock::net
