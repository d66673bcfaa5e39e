// Answers as the load generator times them: outcome and tokens do not depend on how the bytes are cut.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/random.h"
#include "load/answer_timer.h"

namespace {

using namespace penstock;
using namespace std::chrono_literals;

load::RequestRecord timed(bool stream, std::string_view bytes, std::uint64_t piece_max, core::RandomStream& random) {
  load::AnswerTimer timer{stream, 0s, 1s};
  timer.take_head(200, false, 2s);
  core::Duration now = 3s;
  std::uint64_t tokens = 0;
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), 1 + random.below(piece_max));
    const auto taken = timer.take_body(bytes.substr(0, piece), now += 1ms);
    if (taken.gap && taken.count == 0) std::abort();
    tokens += taken.count;
    bytes.remove_prefix(piece);
  }
  timer.end(now);
  // A last line without its end is counted when the body is complete.
  if (timer.record().text_events < tokens || timer.record().text_events > tokens + 1) std::abort();
  if (timer.record().itl() && *timer.record().itl() < 0s) std::abort();
  return timer.record();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  core::RandomStream random{size};
  for (const bool stream : {true, false}) {
    const load::RequestRecord whole = timed(stream, bytes, UINT32_MAX, random);
    for (const std::uint64_t piece_max : {1, 7, 40, 3000}) {
      const load::RequestRecord cut = timed(stream, bytes, piece_max, random);
      if (cut.outcome != whole.outcome || cut.reason != whole.reason || cut.tokens != whole.tokens) std::abort();
    }
  }
  return 0;
}
