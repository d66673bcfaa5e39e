#include "profiling/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace penstock::profiling {
namespace {

constexpr std::uint32_t kWindowSteps = 24, kWindowStepsLeast = 12;
// Servers deliver tokens of short steps together, and a window must be long against that.
constexpr double kWindowMsLeast = 100.0;
constexpr double kLimitMsLeast = 1'000.0;  // Of answers that show a limit; other programs seldom delay one so long.
constexpr std::uint32_t kWindowStepsMost = 512;
constexpr std::uint32_t kWarmUps = 4, kWarmUpOutput = 8, kWarmUpWords = 64, kWarmUpWordsMost = 1024;
constexpr std::size_t kPromptSamplesLeast = 3;
constexpr std::uint32_t kRetriesMost = 4, kLimitRepeats = 3;
constexpr std::uint32_t kOutputMost = 16'384;
constexpr double kCachedShareMost = 0.1;
constexpr double kKvShare = 0.95;  // Of the KV cache; an engine that is nearly full preempts sequences.

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// An endpoint that reports no usage has prompts of about the planned length.
std::vector<TimedAnswer> with_prompt_tokens(std::span<const TimedAnswer> answers, std::uint32_t planned) {
  std::vector<TimedAnswer> counted{answers.begin(), answers.end()};
  for (TimedAnswer& answer : counted)
    if (answer.prompt_tokens == 0) answer.prompt_tokens = planned;
  return counted;
}

core::Result<void> check_cached(const TimedAnswer& answer, const std::string& what) {
  if (answer.cached_tokens <= kCachedShareMost * answer.prompt_tokens) return {};
  return core::invalid_input(what,
                             fmt::format("{} of {} prompt tokens were found in the cache of the endpoint",
                                         answer.cached_tokens, answer.prompt_tokens),
                             "run it again: new prompts have other texts");
}

}  // namespace

Profiler::Profiler(const ProfilerOptions& options, const ProfilerState& state) : options_{options}, learned_{state} {
  learned_.points.clear();
  for (const GridPoint& point : measurement_grid(options.grid)) {
    Entry entry;
    entry.samples.point = point;
    entries_.push_back(std::move(entry));
  }
  leave_out();
  for (const PointSamples& samples : state.points)
    for (Entry& entry : entries_)
      if (entry.samples.point.same_as(samples.point))
        entry.samples.ms = samples.ms, entry.samples.tokens = samples.tokens;
}

bool Profiler::is_done(const Entry& entry) {
  const auto& ms = entry.samples.ms;
  return ms.size() >= kSamplesMost ||
         (agree(ms) && (!entry.samples.point.is_prompt() || ms.size() >= kPromptSamplesLeast));
}

const Profiler::Entry* Profiler::next_entry() const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return !entry.is_left_out && !is_done(entry); });
  return found != entries_.end() ? &*found : nullptr;
}

Profiler::Entry& Profiler::entry_of(const GridPoint& point) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.samples.point.same_as(point); });
  PENSTOCK_ASSERT(found != entries_.end(), "the burst is from next()");
  return *found;
}

// The texts of chat templates add a constant, and a word is one token or more.
std::uint32_t Profiler::words_for(std::uint32_t tokens) const {
  if (calibration_.size() < 2) return tokens;
  const auto& [low_words, low_tokens] = calibration_.front();
  const auto& [high_words, high_tokens] = calibration_.back();
  if (high_words <= low_words || high_tokens <= low_tokens) return tokens;
  const double per_word = (high_tokens - low_tokens) / (high_words - low_words);
  const double words = (tokens - (low_tokens - per_word * low_words)) / per_word;
  return static_cast<std::uint32_t>(std::max(1.0, std::round(words)));
}

std::uint32_t Profiler::output_max(const GridPoint& point) const {
  if (options_.context_tokens_max == 0) return kOutputMost;
  return options_.context_tokens_max > point.tokens + 1
             ? std::min(kOutputMost, options_.context_tokens_max - point.tokens - 1)
             : 1;
}

// The first sequence decodes while the prompts of the others are computed, and after them until the window is measured.
std::uint32_t Profiler::output_of(const Entry& entry) const {
  const GridPoint& point = entry.samples.point;
  if (point.is_prompt()) return 1;
  if (entry.output_tokens > 0) return entry.output_tokens;
  const double steps = 1.2 * static_cast<double>(point.kv_tokens()) / learned_.prompt_tokens_per_step;
  const auto tokens = kWindowSteps + static_cast<std::uint32_t>(std::ceil(steps)) + point.sequences / 8 + 2;
  return std::min(tokens, output_max(point));
}

std::optional<Burst> Profiler::next() const {
  const Entry* entry = next_entry();
  if (entry == nullptr) return std::nullopt;
  Burst burst;
  if (calibration_.size() < kWarmUps) {
    const std::uint32_t longest = std::max(2U, std::min(kWarmUpWordsMost, options_.grid.prompt_tokens / 2));
    burst.prompt_words = calibration_.size() < kWarmUps / 2 ? std::min(kWarmUpWords, longest / 2) : longest;
    burst.output_tokens = kWarmUpOutput;
    return burst;
  }
  burst.point = entry->samples.point;
  burst.requests = std::max(1U, burst.point.sequences);
  burst.prompt_words = words_for(burst.point.tokens);
  burst.output_tokens = output_of(*entry);
  return burst;
}

core::Result<void> Profiler::take(const Burst& burst, std::span<const TimedAnswer> answers) {
  PENSTOCK_ASSERT(answers.size() == burst.requests, "each request has an answer");
  if (burst.is_warm_up()) return take_warm_up(burst, answers.front());
  Entry& entry = entry_of(burst.point);
  const auto taken = burst.point.is_prompt() ? take_prompt(entry, answers.front()) : take_steps(entry, burst, answers);
  if (!taken || !contradict(entry.samples.ms)) return taken;
  const auto [low, high] = std::minmax_element(entry.samples.ms.begin(), entry.samples.ms.end());
  return core::invalid_input(
      to_string(burst.point),
      fmt::format("took from {:.1f} to {:.1f} ms in {} measurements", *low, *high, entry.samples.ms.size()),
      "other traffic or other programs slow the endpoint down: run it again without them");
}

core::Result<void> Profiler::take_warm_up(const Burst& burst, const TimedAnswer& answer) {
  const auto first = ttft_ms(answer);
  if (!first) return core::invalid_input("the endpoint", "answered without text");
  const double tokens = answer.prompt_tokens > 0 ? answer.prompt_tokens : burst.prompt_words;
  calibration_.emplace_back(burst.prompt_words, tokens);
  prompt_token_ms_ = *first / tokens;
  if (const auto sample = decode_sample({&answer, 1})) step_ms_ = sample->step_ms;
  return {};
}

core::Result<void> Profiler::take_prompt(Entry& entry, const TimedAnswer& answer) {
  const std::string what = to_string(entry.samples.point);
  if (auto checked = check_cached(answer, what); !checked) return checked;
  const auto time = ttft_ms(answer);
  if (!time) {
    // A first token may be a part of a character, which has no text.
    if (++entry.retries > kRetriesMost) return core::invalid_input(what, "was answered without text");
    return {};
  }
  entry.samples.ms.push_back(std::max(1e-3, *time - options_.round_trip_ms));
  entry.samples.tokens.push_back(answer.prompt_tokens > 0 ? answer.prompt_tokens : entry.samples.point.tokens);
  prompt_token_ms_ = entry.samples.ms.back() / entry.samples.point.tokens;
  return {};
}

core::Result<void> Profiler::take_steps(Entry& entry, const Burst& burst, std::span<const TimedAnswer> answers) {
  for (const TimedAnswer& answer : answers)
    if (auto checked = check_cached(answer, to_string(burst.point)); !checked) return checked;
  const std::uint32_t at_once = sequences_at_once(answers);
  const auto sample = decode_sample(with_prompt_tokens(answers, burst.point.tokens));
  if (!sample || sample->steps < kWindowStepsLeast) return take_short_window(entry, burst, at_once);
  if (sample->steps * sample->step_ms < kWindowMsLeast && burst.output_tokens < kWindowStepsMost &&
      burst.output_tokens < output_max(burst.point)) {
    entry.output_tokens = std::min(2 * burst.output_tokens, output_max(burst.point));
    return {};
  }
  entry.samples.ms.push_back(sample->step_ms);
  entry.samples.tokens.push_back(sample->context_tokens);
  step_ms_ = sample->step_ms;
  if (burst.requests < 4) return {};
  const std::uint32_t steps = std::max(1U, prompt_steps(answers));
  const double per_step = static_cast<double>(burst.requests - 1) * burst.point.tokens / steps;
  // A few steps show only that a step computes at least so many.
  double& learned = learned_.prompt_tokens_per_step;
  learned = std::max(16.0, steps >= 4 ? per_step : std::max(learned, per_step));
  return {};
}

core::Result<void> Profiler::take_short_window(Entry& entry, const Burst& burst, std::uint32_t at_once) {
  const bool can_grow = burst.output_tokens < output_max(burst.point);
  const bool has_grown = at_once >= burst.requests || entry.at_once == 0 || at_once > entry.at_once * 5 / 4;
  const bool may_retry = ++entry.retries <= kRetriesMost;
  if (can_grow && has_grown && may_retry) {
    entry.at_once = at_once;
    entry.output_tokens = std::min(2 * burst.output_tokens, output_max(burst.point));
    return {};
  }
  if (at_once == 0 || at_once >= burst.requests)
    return core::invalid_input(to_string(burst.point), "answers are too short to be measured",
                               "the endpoint must support ignore_eos and stream each token");
  // A busy machine delays an answer until another has ended, which looks like a limit. Answers that take longer than
  // such a delay decide.
  if (entry.times_limited++ < kLimitRepeats) {
    entry.at_once = std::max(entry.at_once, at_once);
    if (can_grow && burst.output_tokens * step_ms_ < kLimitMsLeast)
      entry.output_tokens = std::min(2 * burst.output_tokens, output_max(burst.point));
    return {};
  }
  learn_limit(burst.point, std::max(entry.at_once, at_once));
  return {};
}

void Profiler::learn_limit(const GridPoint& point, std::uint32_t at_once) {
  const bool ran_shorter = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const GridPoint& other = entry.samples.point;
    return !entry.samples.ms.empty() && other.sequences >= point.sequences && other.tokens < point.tokens;
  });
  if (ran_shorter)
    learned_.kv_tokens_too_many = point.kv_tokens();
  else
    learned_.sequences_max = at_once;
  leave_out();
}

// Leaves out points beyond the limits. A limit of sequences becomes a value of the grid.
void Profiler::leave_out() {
  const std::uint32_t most = learned_.sequences_max;
  if (most > 0 && most < options_.grid.sequences) {
    options_.grid.sequences = most;
    for (const GridPoint& point : measurement_grid(options_.grid)) {
      const bool is_known = std::any_of(entries_.begin(), entries_.end(),
                                        [&](const Entry& entry) { return entry.samples.point.same_as(point); });
      if (is_known) continue;
      Entry entry;
      entry.samples.point = point;
      // Required points come first.
      entries_.insert(point.is_required ? entries_.begin() : entries_.end(), std::move(entry));
    }
  }
  for (Entry& entry : entries_) {
    const GridPoint& point = entry.samples.point;
    if (point.is_prompt()) continue;
    const bool too_many = most > 0 && point.sequences > most;
    const bool did_not_fit = learned_.kv_tokens_too_many > 0 && point.kv_tokens() >= learned_.kv_tokens_too_many;
    const double needed = static_cast<double>(point.sequences) * (point.tokens + kWindowSteps);
    const bool will_not_fit = options_.kv_tokens_max > 0.0 && needed > kKvShare * options_.kv_tokens_max;
    entry.is_left_out = too_many || did_not_fit || will_not_fit;
  }
}

double Profiler::estimated_ms(const Entry& entry) const {
  const GridPoint& point = entry.samples.point;
  const std::size_t least = point.is_prompt() ? kPromptSamplesLeast : kSamplesLeast;
  const std::size_t samples = std::max<std::size_t>(1, least - std::min(least, entry.samples.ms.size()));
  const double prompts = std::max(1.0, static_cast<double>(point.sequences)) * point.tokens * prompt_token_ms_;
  return static_cast<double>(samples) * (prompts + (point.is_prompt() ? 0.0 : output_of(entry) * step_ms_));
}

Progress Profiler::progress() const {
  Progress progress;
  double left_ms = 0.0;
  for (const Entry& entry : entries_) {
    if (entry.is_left_out) continue;
    ++progress.total;
    if (is_done(entry))
      ++progress.measured;
    else
      left_ms += estimated_ms(entry);
  }
  progress.remaining = core::from_milliseconds(left_ms);
  return progress;
}

bool Profiler::has_required() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return !entry.samples.point.is_required || entry.is_left_out || is_done(entry);
  });
}

ProfilerState Profiler::state() const {
  ProfilerState state = learned_;
  for (const Entry& entry : entries_)
    if (!entry.samples.ms.empty()) state.points.push_back(entry.samples);
  return state;
}

core::Result<MeasuredModel> Profiler::model() const {
  MeasuredPoints points;
  std::size_t missing = 0, required = 0;
  const GridPoint* hole = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.is_left_out) continue;
    const GridPoint& point = entry.samples.point;
    required += point.is_required ? 1 : 0;
    if (!is_done(entry)) {
      if (!point.is_required) continue;
      ++missing;
      if (hole == nullptr) hole = &point;
      continue;
    }
    const double tokens = mean(entry.samples.tokens), ms = median(entry.samples.ms);
    if (point.is_prompt())
      points.prompts.push_back({tokens, ms});
    else
      points.steps.push_back({static_cast<double>(point.tokens), static_cast<double>(point.sequences), tokens, ms});
  }
  if (hole != nullptr)
    return core::invalid_input(
        to_string(*hole), fmt::format("was not measured; {} of {} required points are missing", missing, required));
  return MeasuredModel::make(points);
}

}  // namespace penstock::profiling
