// Answers on their way past: what is counted does not depend on how the bytes are cut, nor on chunks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/answer_watch.h"
#include "core/random.h"

namespace {

using namespace penstock;

void expect_same(const api::AnswerWatch& a, const api::AnswerWatch& b) {
  if (a.text_events() != b.text_events() || a.usage() != b.usage() || a.done() != b.done()) std::abort();
  if (a.text_bytes() != b.text_bytes() || a.whole() != b.whole() || a.malformed() != b.malformed()) std::abort();
  if (a.error_status() != b.error_status() || a.within_event() != b.within_event()) std::abort();
  if (a.has_content() != b.has_content()) std::abort();
}

api::AnswerWatch watched(bool stream, std::string_view bytes, std::uint64_t piece_max, core::RandomStream& random) {
  api::AnswerWatch watch;
  watch.reset(stream);
  std::uint32_t counted = 0;
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), 1 + random.below(piece_max));
    counted += watch.take(bytes.substr(0, piece));
    bytes.remove_prefix(piece);
  }
  if (counted != watch.text_events()) std::abort();
  return watch;
}

std::string chunked(std::string_view bytes, std::uint64_t chunk_max, core::RandomStream& random) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t chunk = std::min<std::size_t>(bytes.size(), 1 + random.below(chunk_max));
    char size[20];
    out.append(size, static_cast<std::size_t>(std::snprintf(size, sizeof size, "%zX\r\n", chunk)));
    out.append(bytes.substr(0, chunk)).append("\r\n");
    bytes.remove_prefix(chunk);
  }
  return out + "0\r\n\r\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  core::RandomStream random{size};
  for (const bool stream : {true, false}) {
    const auto whole = watched(stream, bytes, UINT32_MAX, random);
    for (const std::uint64_t piece_max : {1, 7, 300, 3000}) {
      expect_same(whole, watched(stream, bytes, piece_max, random));
      // Bytes that begin as an answer does have no framing themselves.
      if (!bytes.starts_with("data:") && !bytes.starts_with("{")) continue;
      expect_same(whole, watched(stream, chunked(bytes, piece_max, random), 1 + random.below(500), random));
    }
  }
  return 0;
}
