// Decision logs: an error names one line, and what is read writes and reads back as the same bytes and can be told.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "decision/decision_text.h"
#include "report/decision_log.h"
#include "report/decision_log_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto log = report::parse_decision_jsonl({reinterpret_cast<const char*>(data), size}, "fuzz.jsonl");
  if (!log) {
    if (log.error().where.rfind("fuzz.jsonl:", 0) != 0) std::abort();
    return 0;
  }
  const std::string written = report::to_decision_jsonl(log->records);
  const auto again = report::parse_decision_jsonl(written, "fuzz.jsonl");
  if (!again || report::to_decision_jsonl(again->records) != written) std::abort();
  for (const report::DecisionTrack& track : report::decision_tracks(log->records)) {
    if (report::list_decisions(track).empty()) std::abort();
    for (const core::Instant at : {core::kStart, track.entries.back()->at, core::kNever})
      if (report::explain_decision(track, at).find('\x1b') != std::string::npos) std::abort();
  }
  for (const decision::DecisionRecord& entry : log->records)
    if (decision::what_would_change(entry).empty()) std::abort();
  return 0;
}
