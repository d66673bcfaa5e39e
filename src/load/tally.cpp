#include "load/tally.h"

#include <algorithm>
#include <utility>

#include "core/traffic_class.h"
#include "signals/bands.h"

namespace penstock::load {
namespace {

constexpr std::size_t kExampleBytesMax = 200;

double milliseconds(core::Duration duration) {
  return std::max(core::to_milliseconds(duration), 0.0);  // Readings of the clock may differ by nanoseconds.
}

void join(TimeSlot& into, const TimeSlot& other) {
  into.meant += other.meant;
  into.ok += other.ok;
  into.refused += other.refused;
  into.errors += other.errors;
  into.tokens += other.tokens;
  into.in_flight_max = std::max(into.in_flight_max, other.in_flight_max);
  into.ttft_ms.merge(other.ttft_ms);
  into.itl_ms.merge(other.itl_ms);
}

bool is_error(Outcome outcome) {
  return outcome == Outcome::kFailed || outcome == Outcome::kTruncated || outcome == Outcome::kTimedOut;
}

// A request that timed out before its first token waited at least that long. Without it, a server that never answers
// would appear fast.
std::optional<core::Duration> ttft_at_least(const RequestRecord& record, const RequestShape& shape) {
  if (!shape.stream) return std::nullopt;
  if (record.first_token) return record.ttft();
  if (record.outcome == Outcome::kTimedOut) return record.latency();
  return std::nullopt;
}

}  // namespace

std::uint64_t Figures::errors() const {
  return of(Outcome::kFailed) + of(Outcome::kTruncated) + of(Outcome::kTimedOut);
}
std::uint64_t Figures::ended() const { return of(Outcome::kOk) + of(Outcome::kRefused) + errors(); }

void Figures::add(const RequestRecord& record, const RequestShape& shape) {
  ++outcomes[static_cast<std::size_t>(record.outcome)];
  if (const auto ttft = ttft_at_least(record, shape)) ttft_ms.add(milliseconds(*ttft));
  if (record.outcome != Outcome::kOk) return;
  if (const auto itl = record.itl()) itl_ms.add(milliseconds(*itl));
  latency_ms.add(milliseconds(record.latency()));
  tokens_out += record.tokens;
  tokens_wanted += shape.output_tokens;
}

Tally::Tally(std::vector<std::string> tenants)
    : tenants_{std::move(tenants)},
      by_class_(2),
      by_tenant_(tenants_.size()),
      by_prompt_(signals::kPromptBands.size()),
      by_output_(signals::kOutputBands.size()) {}

TimeSlot& Tally::slot_at(core::Duration time) {
  auto index = static_cast<std::size_t>(std::max(time, core::Duration{}) / slot_width_);
  while (index >= kSlotsMax) {
    for (std::size_t i = 1; i < slots_.size(); ++i) {
      if (i % 2 == 1)
        join(slots_[i / 2], slots_[i]);
      else
        slots_[i / 2] = std::move(slots_[i]);
    }
    slots_.resize((slots_.size() + 1) / 2);
    slot_width_ *= 2;
    index /= 2;
  }
  if (index >= slots_.size()) slots_.resize(index + 1);
  return slots_[index];
}

Tally::Second& Tally::second_at(core::Duration time) {
  const std::int64_t number = time / std::chrono::seconds{1};
  Second& second = seconds_[static_cast<std::size_t>(number) % kSeconds];
  if (second.number != number) {
    second = Second{};
    second.number = number;
  }
  return second;
}

void Tally::record_sent(const Sent& sent) {
  ++slot_at(sent.intended).meant;
  ++second_at(sent.sent).sent;
  if (sent.held_by_limit)
    ++held_by_limit_;
  else
    lateness_ms_.add(milliseconds(sent.sent - sent.intended));
}

void Tally::record_unsent(core::Duration intended) {
  ++slot_at(intended).meant;
  ++held_by_limit_;
}

void Tally::record_in_flight(std::uint32_t requests, core::Duration now) {
  TimeSlot& slot = slot_at(now);
  slot.in_flight_max = std::max(slot.in_flight_max, requests);
}

void Tally::record_first_token(core::Duration ttft, core::Duration now) {
  second_at(now).ttft_ms.add(milliseconds(ttft));
}

void Tally::record_tokens(const AnswerTimer::Tokens& tokens, core::Duration now) {
  tokens_received_ += tokens.count;
  slot_at(now).tokens += tokens.count;
  Second& second = second_at(now);
  second.tokens += tokens.count;
  if (tokens.gap) {
    gaps_ms_.add(milliseconds(*tokens.gap));
    second.gap_ms.add(milliseconds(*tokens.gap));
  }
  gaps_ms_.add(0.0, tokens.count - 1);
  second.gap_ms.add(0.0, tokens.count - 1);
}

void Tally::record_end(const RequestRecord& record, const RequestShape& shape, std::string_view response) {
  all_.add(record, shape);
  by_class_[static_cast<std::size_t>(shape.traffic_class)].add(record, shape);
  by_tenant_[shape.tenant].add(record, shape);
  by_prompt_[signals::band_of(signals::kPromptBands, shape.input_tokens)].add(record, shape);
  by_output_[signals::band_of(signals::kOutputBands, shape.output_tokens)].add(record, shape);
  last_end_ = std::max(last_end_, record.end);
  if (record.first_byte) first_byte_ms_.add(milliseconds(*record.first_byte - record.intended));
  if (record.text_events >= 2) max_gaps_ms_.add(milliseconds(record.max_gap));

  TimeSlot& slot = slot_at(record.intended);
  slot.errors += is_error(record.outcome) ? 1U : 0U;
  slot.refused += record.outcome == Outcome::kRefused ? 1U : 0U;
  if (const auto ttft = ttft_at_least(record, shape)) {
    slot.ttft_ms.add(milliseconds(*ttft));
    if (!record.first_token) record_first_token(*ttft, record.end);
  }
  if (record.outcome == Outcome::kOk) {
    ++slot.ok;
    cached_tokens_ += record.cached_tokens;
    prompt_tokens_ += record.prompt_tokens > 0 ? record.prompt_tokens : shape.input_tokens;
    if (const auto itl = record.itl()) slot.itl_ms.add(milliseconds(*itl));
  } else if (!record.reason.empty()) {
    const bool is_known = causes_.contains(record.reason) || causes_.size() < kCausesMax;
    Cause& cause = causes_[is_known ? record.reason : "other"];
    ++cause.count;
    if (cause.example.empty()) cause.example = response.substr(0, kExampleBytesMax);
  }
}

std::vector<Segment> Tally::segments() const {
  std::vector<Segment> segments;
  const auto add = [&](std::string_view group, std::string label, const Figures& figures) {
    if (figures.ended() > 0) segments.push_back({group, std::move(label), figures});
  };
  add("class", core::kInteractiveClass, by_class_[0]);
  add("class", core::kBatchClass, by_class_[1]);
  for (std::size_t i = 0; i < tenants_.size(); ++i) add("tenant", tenants_[i], by_tenant_[i]);
  for (std::size_t i = 0; i < by_prompt_.size(); ++i) add("prompt", signals::kPromptBands[i].label, by_prompt_[i]);
  for (std::size_t i = 0; i < by_output_.size(); ++i) add("output", signals::kOutputBands[i].label, by_output_[i]);
  return segments;
}

Tally::Recent Tally::recent(core::Duration now) const {
  const std::int64_t current = now / std::chrono::seconds{1};
  Recent recent;
  std::uint64_t sent = 0, tokens = 0;
  for (const Second& second : seconds_) {
    if (second.number < 0 || second.number >= current || second.number < current - 10) continue;
    recent.ttft_ms.merge(second.ttft_ms);
    recent.gap_ms.merge(second.gap_ms);
    sent += second.sent;
    tokens += second.tokens;
  }
  const double span_s = static_cast<double>(std::clamp<std::int64_t>(current, 1, 10));
  recent.sent_per_s = static_cast<double>(sent) / span_s;
  recent.tokens_per_s = static_cast<double>(tokens) / span_s;
  return recent;
}

}  // namespace penstock::load
