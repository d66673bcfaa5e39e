#include "engine_server/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/prompt_keys.h"
#include "core/key_salt.h"

namespace penstock::engine_server {
namespace {

std::uint32_t block_bytes(const SessionOptions& options) { return options.engine.block_tokens * api::kBytesPerToken; }

void append_tokens(std::vector<std::uint32_t>& ids, std::string_view chunk) {
  const std::size_t first = ids.size();
  ids.resize(first + chunk.size() / api::kBytesPerToken);
  for (std::size_t i = first; i < ids.size(); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(chunk.data()) + (i - first) * api::kBytesPerToken;
    ids[i] = static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8U |
             static_cast<std::uint32_t>(bytes[2]) << 16U | static_cast<std::uint32_t>(bytes[3]) << 24U;
  }
}

}  // namespace

Session::Session(const SessionOptions& options, const engine::StepTimeModel& step_time)
    : options_(options), engine_(options.engine, step_time), blocks_(options.kv_events ? block_bytes(options) : 0) {
  engine_.follow_tokens();
  engine_.cache().listen();
  if (options.hold_prefilled) engine_.hold_prefilled();
}

const SessionRequest* Session::find(std::uint32_t number) const {
  const auto found = requests_.find(number);
  return found == requests_.end() || found->second.leaving ? nullptr : &found->second.seen;
}

core::Instant Session::next_event() const { return engine_.next_event(); }

// ---- in -------------------------------------------------------------------------------------------------------------

core::Result<std::uint32_t> Session::submit(const Ask& ask) {
  const std::uint32_t prompt = std::max(api::simulated_tokens(ask.text.size()), 1U);
  if (prompt >= options_.context_tokens || ask.max_tokens.value_or(0) > options_.context_tokens - prompt) {
    const std::string asked =
        ask.max_tokens ? fmt::format(" and {} in the completion", *ask.max_tokens) : std::string{};
    return core::invalid_input({},
                               fmt::format("This model's maximum context length is {} tokens. However, you requested "
                                           "{} tokens in the prompt{}.",
                                           options_.context_tokens, prompt, asked));
  }
  Open open;
  SessionRequest& seen = open.seen;
  seen.prompt_tokens = prompt;
  AnswerSettings settings{ask.max_tokens.value_or(options_.context_tokens - prompt), ask.ignore_eos, ask.stop};
  if (ask.keep_kv) settings = {1, true, {}};
  seen.plan = plan_answer(options_.answers, prompt_hash(ask.text), settings);
  seen.times.arrived = ask.arrived;
  seen.times.submitted = now_;
  open.keep_kv = ask.keep_kv;

  const std::uint32_t number = next_number_;
  engine::EngineRequest request{number, prompt, seen.plan.tokens, ask.priority, {}, ask.prefilled};
  if (!engine::can_fit(options_.engine, request))
    return core::invalid_input({}, fmt::format("{} tokens in the prompt and {} in the completion are more than the KV "
                                               "cache of this engine holds.",
                                               prompt, seen.plan.tokens));
  ++next_number_;
  Open& kept = requests_.emplace(number, std::move(open)).first->second;
  if (ask.prefilled) {
    add_token(number, kept, now_);
    if (kept.seen.plan.tokens == 1) {
      complete(number, kept, now_);
      return number;
    }
  }
  acquire_blocks(ask, kept.block_ids);
  request.block_ids = kept.block_ids;
  engine_.submit(request, now_);
  return number;
}

void Session::acquire_blocks(const Ask& ask, std::vector<std::uint32_t>& ids) {
  const std::uint32_t bytes = block_bytes(options_);
  api::prompt_keys(ask.text, bytes, keys_);
  if (!ask.cache_salt.empty()) core::salt_keys(keys_, api::key_salt_of(ask.cache_salt));
  ids.reserve(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i)
    ids.push_back(
        blocks_.acquire(keys_[i], i == 0 ? BlockTable::kNone : ids.back(), ask.text.substr(i * bytes, bytes)));
}

void Session::set_prefill(bool prefill) {
  options_.hold_prefilled = prefill;
  engine_.hold_prefilled(prefill);
  discard_kv();
}

void Session::discard_kv() {
  engine_.cache().discard_unused();
  take_cache_events();
}

// ---- time -----------------------------------------------------------------------------------------------------------

void Session::advance(core::Instant now) {
  while (engine_.next_event() <= now) step(engine_.next_event());
  now_ = std::max(now_, now);
}

void Session::step(core::Instant at) {
  now_ = std::max(now_, at);
  events_.clear();
  engine_.advance(at, events_);
  if (engine_.last_iteration().time > core::Duration{}) {
    meter_.iteration(at, engine_.last_iteration());
    iterations.push_back({at, engine_.last_iteration(), engine_.state(at)});
  }
  for (const engine::EngineEvent& event : events_) on_event(event);
  take_cache_events();
  erase_left();
}

void Session::on_event(const engine::EngineEvent& event) {
  const auto found = requests_.find(event.request);
  PENSTOCK_ASSERT(found != requests_.end(), "an engine tells of open requests only");
  Open& open = found->second;
  open.seen.cached_tokens = event.cached_tokens;
  switch (event.kind) {
    case engine::EngineEventKind::kFirstToken: open.seen.times.admitted = event.admitted_at; [[fallthrough]];
    case engine::EngineEventKind::kToken: add_token(event.request, open, event.at); break;
    case engine::EngineEventKind::kCompleted: complete(event.request, open, event.at); break;
  }
}

void Session::add_token(std::uint32_t number, Open& open, core::Instant at) {
  SessionRequest& seen = open.seen;
  if (seen.generated++ == 0) {
    seen.times.first_token = at;
    meter_.first_token(seen.times);
  } else {
    meter_.next_token(at - seen.times.last_token);
  }
  seen.times.last_token = at;
  touch(number, open);
}

void Session::complete(std::uint32_t number, Open& open, core::Instant at) {
  SessionRequest& seen = open.seen;
  seen.completed = true;
  meter_.finished(seen.times, seen.prompt_tokens, seen.generated, seen.plan.finish == api::FinishReason::kLength);
  touch(number, open);
  if (!options_.hold_prefilled) return;
  seen.holds_kv = open.keep_kv;
  if (!seen.holds_kv) engine_.release_held(number, at);
}

void Session::touch(std::uint32_t number, Open& open) {
  if (open.progress_at < progressed.size() && progressed[open.progress_at] == number) return;
  open.progress_at = progressed.size();
  progressed.push_back(number);
}

// ---- out ------------------------------------------------------------------------------------------------------------

void Session::cancel(std::uint32_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end() || found->second.leaving) return;
  const bool ended = found->second.seen.completed;
  const bool known = engine_.cancel(number, now_).has_value();
  take_cache_events();
  if (ended || !known) {
    erase(number);
    return;
  }
  meter_.aborted();
  found->second.leaving = true;  // The engine refers to its block ids until the iteration ends.
  leaving_.push_back(number);
  if (engine_.next_event() == core::kNever) erase_left();
}

void Session::release(std::uint32_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end() || !found->second.seen.holds_kv) return;
  engine_.release_held(number, now_);
  take_cache_events();
  erase(number);
}

void Session::forget(std::uint32_t number) {
  const SessionRequest* request = find(number);
  PENSTOCK_ASSERT(request != nullptr && request->completed, "an open request is cancelled, not forgotten");
  if (!request->holds_kv) erase(number);
}

void Session::erase(std::uint32_t number) {
  const auto found = requests_.find(number);
  // The end of a prompt is evicted before its start.
  for (auto id = found->second.block_ids.rbegin(); id != found->second.block_ids.rend(); ++id) blocks_.release(*id);
  requests_.erase(found);
}

void Session::erase_left() {
  for (const std::uint32_t number : leaving_) erase(number);
  leaving_.clear();
}

// ---- what the cache gained and lost ---------------------------------------------------------------------------------

void Session::take_cache_events() {
  std::vector<engine::CacheEvent>& events = engine_.cache().events();
  for (const engine::CacheEvent& event : events) {
    const auto block = static_cast<std::uint32_t>(event.key);
    if (options_.kv_events) {
      if (event.stored)
        note_stored(block);
      else if (auto* last = kv_events.empty() ? nullptr : std::get_if<telemetry::BlockRemoved>(&kv_events.back()))
        last->block_hashes.push_back(blocks_.key(block));
      else
        kv_events.emplace_back(telemetry::BlockRemoved{{blocks_.key(block)}, "GPU", std::nullopt});
    }
    blocks_.set_kept(block, event.stored);
  }
  events.clear();
}

void Session::note_stored(std::uint32_t block) {
  auto* run = kv_events.empty() ? nullptr : std::get_if<telemetry::BlockStored>(&kv_events.back());
  if (run == nullptr || !blocks_.has_parent(block) || run->block_hashes.back() != blocks_.parent_key(block)) {
    telemetry::BlockStored stored;
    if (blocks_.has_parent(block)) stored.parent_block_hash = blocks_.parent_key(block);
    stored.block_size = options_.engine.block_tokens;
    stored.medium = "GPU";
    kv_events.emplace_back(std::move(stored));
    run = &std::get<telemetry::BlockStored>(kv_events.back());
  }
  run->block_hashes.push_back(blocks_.key(block));
  append_tokens(run->token_ids, blocks_.chunk(block));
}

}  // namespace penstock::engine_server
