// The session under a clock of the test's own.
#include "engine_server/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/prompt_keys.h"
#include "core/random.h"
#include "engine/engine_testing.h"

namespace penstock::engine_server {
namespace {

using engine::testing::LinearNanoseconds;
using namespace std::chrono_literals;

// A step takes 1 ms and a microsecond for each prompt token.
const LinearNanoseconds kTimes{{.step = 1'000'000, .prefill_token = 1'000}};

SessionOptions small() {
  SessionOptions options;
  options.engine.block_tokens = 4;
  options.engine.kv_blocks = 200;
  options.engine.max_sequences = 4;
  options.engine.max_batched_tokens = 256;
  options.context_tokens = 600;
  return options;
}

Ask ask(std::string_view text, std::uint32_t tokens) {
  Ask made;
  made.text = text;
  made.max_tokens = tokens;
  made.ignore_eos = true;
  return made;
}

std::uint32_t submit(Session& session, const Ask& what) {
  const auto number = session.submit(what);
  EXPECT_TRUE(number.has_value()) << number.error().message();
  session.advance(session.now());
  return *number;
}

void run_out(Session& session) {
  while (session.next_event() != core::kNever) session.advance(session.next_event());
}

const std::string kPrompt(40, 'p');  // ten tokens

TEST(Session, TokensComeOneAnIterationAtTheirTimes) {
  Session session{small(), kTimes};
  const std::uint32_t number = submit(session, ask(kPrompt, 3));
  session.advance(core::kStart + 1'009us);
  EXPECT_EQ(session.find(number)->generated, 0U);
  session.advance(core::kStart + 1'010us);
  EXPECT_EQ(session.find(number)->generated, 1U);
  EXPECT_EQ(session.progressed, std::vector<std::uint32_t>{number});
  session.advance(core::kStart + 2'010us);
  EXPECT_EQ(session.find(number)->generated, 2U);
  EXPECT_EQ(session.progressed.size(), 1U) << "each is named once";
  EXPECT_FALSE(session.find(number)->completed);
  session.advance(core::kStart + 1h);
  EXPECT_TRUE(session.find(number)->completed);
  EXPECT_EQ(session.find(number)->prompt_tokens, 10U);
  EXPECT_EQ(session.find(number)->times.last_token, core::kStart + 3'010us) << "not at the time of the query";
  session.forget(number);
  EXPECT_EQ(session.open(), 0U);
  EXPECT_EQ(session.find(number), nullptr);
}

TEST(Session, PromptsThatBeginAlikeAreFoundInTheCache) {
  Session session{small(), kTimes};
  const std::uint32_t first = submit(session, ask(kPrompt + "first and more", 2));
  run_out(session);
  const std::uint32_t second = submit(session, ask(kPrompt + "other and more", 2));
  run_out(session);
  EXPECT_EQ(session.find(first)->cached_tokens, 0U);
  EXPECT_EQ(session.find(second)->cached_tokens, 8U) << "two whole blocks of the ten tokens";
}

TEST(Session, RequestsBeyondTheContextOrTheCacheAreRefused) {
  SessionOptions options = small();
  Session session{options, kTimes};
  const auto over_context = session.submit(ask(kPrompt, 591));
  ASSERT_FALSE(over_context.has_value());
  EXPECT_NE(over_context.error().what.find("maximum context length is 600 tokens"), std::string::npos);
  EXPECT_TRUE(session.submit(ask(kPrompt, 590)).has_value());
  options.engine.kv_blocks = 20;
  Session tight{options, kTimes};
  const auto over_cache = tight.submit(ask(kPrompt, 100));
  ASSERT_FALSE(over_cache.has_value());
  EXPECT_NE(over_cache.error().what.find("KV cache"), std::string::npos);
  EXPECT_EQ(tight.open(), 0U);
  EXPECT_EQ(tight.blocks().size(), 0U);
}

TEST(Session, ACancelledRequestFreesItsSlotWithinOneIteration) {
  SessionOptions options = small();
  options.engine.max_sequences = 1;
  Session session{options, kTimes};
  const std::uint32_t first = submit(session, ask(kPrompt, 500));
  const std::uint32_t second = submit(session, ask("another prompt", 500));
  session.advance(core::kStart + 50ms);
  EXPECT_EQ(session.state().waiting, 1U);
  session.cancel(first);
  session.cancel(first);
  EXPECT_EQ(session.find(first), nullptr);
  session.advance(core::kStart + 51'100us);
  EXPECT_EQ(session.state().waiting, 0U);
  session.progressed.clear();
  session.advance(core::kStart + 53ms);
  EXPECT_EQ(session.progressed, std::vector<std::uint32_t>{second});
  EXPECT_EQ(session.open(), 1U);
}

TEST(Session, AWaitingRequestThatLeavesIsForgottenAtOnce) {
  SessionOptions options = small();
  options.engine.max_sequences = 1;
  Session session{options, kTimes};
  submit(session, ask(kPrompt, 50));
  const std::uint32_t second = submit(session, ask("another prompt", 50));
  session.cancel(second);
  EXPECT_EQ(session.state().waiting, 0U);
  run_out(session);
  EXPECT_EQ(session.meter().figures(session.state(), session.now()).finished.abort, 1U);
}

TEST(Session, APrefillEngineKeepsTheKvUntilItIsReleased) {
  SessionOptions options = small();
  options.hold_prefilled = true;
  Session session{options, kTimes};
  Ask what = ask(kPrompt, 100);
  what.keep_kv = true;
  const std::uint32_t kept = submit(session, what);
  const std::uint32_t other = submit(session, ask("something else", 3));
  run_out(session);
  EXPECT_EQ(session.find(kept)->generated, 1U) << "another engine generates the rest";
  EXPECT_TRUE(session.find(kept)->holds_kv);
  EXPECT_FALSE(session.find(other)->holds_kv);
  EXPECT_EQ(session.state().active_kv_tokens, 12U);
  session.forget(kept);
  session.forget(other);
  EXPECT_EQ(session.open(), 1U);
  session.release(kept);
  session.release(kept);
  EXPECT_EQ(session.open(), 0U);
  EXPECT_EQ(session.state().active_kv_tokens, 0U);
}

TEST(Session, AFetchedPromptBringsItsFirstTokenAndIsNotComputed) {
  Session session{small(), kTimes};
  Ask what = ask(kPrompt, 3);
  what.prefilled = true;
  const std::uint32_t number = submit(session, what);
  EXPECT_EQ(session.find(number)->generated, 1U);
  run_out(session);
  EXPECT_EQ(session.find(number)->generated, 3U);
  EXPECT_TRUE(session.find(number)->completed);
  EXPECT_EQ(session.state().prompt_tokens, 0U);
  what.max_tokens = 1;
  const std::uint32_t single = submit(session, what);
  EXPECT_TRUE(session.find(single)->completed);
}

TEST(Session, CacheEventsHaveBlockKeysAndTokens) {
  SessionOptions options = small();
  options.kv_events = true;
  options.engine.kv_blocks = 12;
  Session session{options, kTimes};
  const std::string prompt = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop";  // two whole blocks and a bit
  submit(session, ask(prompt, 1));
  run_out(session);
  std::vector<std::uint64_t> keys;
  api::prompt_keys(prompt, 16, keys);
  ASSERT_EQ(session.kv_events.size(), 1U);
  const auto& stored = std::get<telemetry::BlockStored>(session.kv_events.front());
  EXPECT_EQ(stored.block_hashes, keys);
  EXPECT_EQ(stored.parent_block_hash, std::nullopt);
  EXPECT_EQ(stored.block_size, 4U);
  ASSERT_EQ(stored.token_ids.size(), 8U);
  EXPECT_EQ(stored.token_ids.front(), 0x64636261U) << "\"abcd\", least byte first";
  session.kv_events.clear();

  submit(session, ask(prompt.substr(0, 16) + std::string(16, 'x'), 1));  // shares the first block
  run_out(session);
  ASSERT_EQ(session.kv_events.size(), 1U);
  EXPECT_EQ(std::get<telemetry::BlockStored>(session.kv_events.front()).parent_block_hash, keys.front());
  session.kv_events.clear();

  submit(session, ask(std::string(160, 'y'), 1));
  run_out(session);
  std::set<std::uint64_t> removed;
  for (const telemetry::KvEvent& event : session.kv_events)
    if (const auto* gone = std::get_if<telemetry::BlockRemoved>(&event))
      removed.insert(gone->block_hashes.begin(), gone->block_hashes.end());
  EXPECT_TRUE(removed.contains(keys.back()));
}

TEST(Session, AnIterationIsRecordedWithWhatWaited) {
  SessionOptions options = small();
  options.engine.max_sequences = 1;
  Session session{options, kTimes};
  submit(session, ask(kPrompt, 2));
  submit(session, ask("another prompt", 1));
  run_out(session);
  ASSERT_EQ(session.iterations.size(), 3U);
  EXPECT_EQ(session.iterations[0].detail.shape.prefill_new_tokens, 10U);
  EXPECT_EQ(session.iterations[0].state.waiting, 1U);
  EXPECT_EQ(session.iterations[1].detail.decoded, 1U);
  EXPECT_EQ(session.iterations[1].detail.time, 1ms);
  EXPECT_EQ(session.iterations[2].ended_at, core::kStart + 3'014us);
}

TEST(Session, LatenciesAreReportedInWallClockSeconds) {
  Session session{small(), kTimes};
  session.meter().set_scale(0.1);  // ten times faster
  Ask what = ask(kPrompt, 3);
  submit(session, what);
  run_out(session);
  const telemetry::EngineFigures figures = session.meter().figures(session.state(), session.now());
  EXPECT_NEAR(figures.ttft_s.sum, 0.1 * 1.01e-3, 1e-9);
  EXPECT_NEAR(figures.itl_s.sum, 0.1 * 2e-3, 1e-9);
  EXPECT_NEAR(figures.tpot_s.sum, 0.1 * 1e-3, 1e-9);
  EXPECT_EQ(figures.finished.length, 1U);
  EXPECT_EQ(figures.prompt_tokens.sum, 10.0);
  EXPECT_EQ(figures.generation_tokens.sum, 3.0);
  EXPECT_EQ(figures.iteration_tokens.count(), 3U);
}

// ---- whatever happens -----------------------------------------------------------------------------------------------

TEST(SessionProperty, EverythingIsReleasedAndTheCacheEventsBalance) {
  std::size_t completed = 0, cancelled = 0, removed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    SessionOptions options = small();
    options.kv_events = true;
    options.hold_prefilled = random.below(3) == 0;
    options.engine.kv_blocks = static_cast<std::uint32_t>(20 + random.below(80));
    options.engine.prefix_caching = random.below(5) != 0;
    Session session{options, kTimes};
    std::vector<std::uint32_t> open;
    core::Instant now;
    std::set<std::uint64_t> held;  // by the events
    const auto settle = [&] {
      for (const telemetry::KvEvent& event : session.kv_events) {
        if (const auto* stored = std::get_if<telemetry::BlockStored>(&event)) {
          ASSERT_EQ(stored->token_ids.size(), stored->block_hashes.size() * 4);
          for (const std::uint64_t key : stored->block_hashes) ASSERT_TRUE(held.insert(key).second);
        } else if (const auto* gone = std::get_if<telemetry::BlockRemoved>(&event)) {
          removed += gone->block_hashes.size();
          for (const std::uint64_t key : gone->block_hashes) ASSERT_EQ(held.erase(key), 1U);
        }
      }
      session.kv_events.clear();
      for (const std::uint32_t number : std::exchange(session.progressed, {})) {
        const SessionRequest* request = session.find(number);
        if (request == nullptr || !request->completed) continue;
        ASSERT_EQ(request->generated, request->plan.tokens);
        ++completed;
        if (!request->holds_kv) std::erase(open, number);
        session.forget(number);
      }
    };
    for (int i = 0; i < 120; ++i) {
      now += core::Duration{static_cast<std::int64_t>(random.exponential(3e6))};
      session.advance(now);
      settle();
      if (HasFatalFailure()) return;
      const std::uint64_t what = random.below(3);
      if (what == 0 && !open.empty()) {
        const std::size_t victim = random.below(open.size());
        const SessionRequest* request = session.find(open[victim]);
        if (request->holds_kv && random.below(2) == 0)
          session.release(open[victim]);
        else
          session.cancel(open[victim]);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(victim));
        ++cancelled;
      } else {
        const std::string text = std::string(random.below(80), static_cast<char>('a' + random.below(3))) +
                                 std::string(random.below(60), 'z');
        Ask made = ask(text, static_cast<std::uint32_t>(1 + random.below(40)));
        made.prefilled = !options.hold_prefilled && random.below(4) == 0;
        made.keep_kv = options.hold_prefilled && random.below(2) == 0;
        const auto number = session.submit(made);
        session.advance(now);
        if (number) open.push_back(*number);
      }
    }
    for (const std::uint32_t number : open) session.cancel(number);
    now += 1s;
    session.advance(now);
    settle();
    if (HasFatalFailure()) return;
    ASSERT_EQ(session.open(), 0U);
    ASSERT_EQ(session.state().active_kv_tokens, 0U);
    ASSERT_EQ(session.next_event(), core::kNever);
    // A block has a number as long as the cache has it, and no longer.
    ASSERT_EQ(session.blocks().size(), held.size());
  }
  EXPECT_GT(completed, 1000U);
  EXPECT_GT(cancelled, 1000U);
  EXPECT_GT(removed, 1000U);
}

}  // namespace
}  // namespace penstock::engine_server
