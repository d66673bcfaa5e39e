#include "net/server_request.h"

#include <algorithm>

namespace penstock::net {

namespace {

// Bytes that have come, and bytes that are to come, from which on the socket is read into the body itself.
constexpr std::size_t kDirectBytesMin = 64 * 1024;
// Limit of one read, so that other connections get their turn.
constexpr std::size_t kReadBytesMax = 256 * 1024;
constexpr std::size_t kRoomGrowthMax = 4 * 1024 * 1024;

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

BodyAdmission Request::admit(ExchangeHandler& handler, MemoryBudget& memory, std::uint64_t bytes) {
  BodyAdmission admission;
  admission.account = payer;
  const std::size_t next = admitted_bytes == 0 ? ExchangeHandler::kAdmittedBytes : ExchangeHandler::kLargeBytes;
  if (bytes > std::max(next, admitted_bytes)) {
    admitted_bytes = static_cast<std::size_t>(bytes);
    admission = handler.admit_body(head, bytes);
    if (admission.refusal_status != 0) return admission;
  }
  if (admission.account == nullptr) admission.account = &memory.unattributed();
  payer = admission.account;
  const auto left = static_cast<std::size_t>(bytes - std::min<std::uint64_t>(bytes, body.size()));
  const bool fits = body.charge_to(*admission.account) && admission.account->has_room(left);
  if (!fits || !body.reserve(std::min(left, kDirectBytesMin))) admission.refusal_status = 503;
  return admission;
}

bool Request::reads_directly() const {
  return !head.chunked && body.size() >= kDirectBytesMin && *head.content_length - body.size() >= kDirectBytesMin;
}

std::size_t Request::make_room() {
  const std::size_t growth = std::min(body.size(), kRoomGrowthMax);
  if (body.room() == 0 && !body.reserve(std::min<std::size_t>(*head.content_length, body.size() + growth))) return 0;
  return std::min(body.room(), kReadBytesMax);
}

Request::Taken Request::take_body(std::string_view& rest, std::size_t bytes_max) {
  constexpr Taken kNoMemory{0, 503, {}};
  if (!head.chunked) {
    const std::string_view piece = rest.substr(0, *head.content_length - body.size());
    if (!body.append(piece, *head.content_length)) return kNoMemory;
    rest.remove_prefix(piece.size());
    return {piece.size()};
  }
  const ChunkReader::Step step = chunks.take(rest);
  rest.remove_prefix(step.consumed);
  if (step.state == ChunkReader::State::kMalformed) return {0, 400, "the request body has a malformed chunk"};
  if (body.size() + step.payload.size() > bytes_max) return {0, 413, "the request body is too large"};
  if (!body.append(step.payload)) return kNoMemory;
  last_chunk_read = step.state == ChunkReader::State::kDone;
  return {step.payload.size()};
}

}  // namespace penstock::net
