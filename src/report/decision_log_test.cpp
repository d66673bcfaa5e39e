#include "report/decision_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "decision/decision_text.h"
#include "report/decision_log_text.h"

namespace penstock::report {
namespace {

using decision::DecisionRecord;
using decision::Limit;
using decision::Reason;
using decision::RunResult;
using decision::what_would_change;

core::Instant at(int second) { return core::kStart + std::chrono::seconds{second}; }

DecisionRecord record(int second, std::uint32_t current, std::uint32_t target, Reason reason,
                      Limit limit = Limit::kNone) {
  DecisionRecord made;
  made.at = at(second);
  made.policy = "penstock";
  made.pool = "default";
  made.current = current;
  made.target = target;
  made.reason = reason;
  made.limited_by = limit;
  return made;
}

DecisionRecord tried_record() {
  DecisionRecord made = record(750, 3, 5, Reason::kCheapestThatKeepsSlo);
  made.evidence = {{"request_rate", 11.25, "1/s"}, {"attainment", 0.9925, "share"}};
  made.candidates = {{{8}, 1.0, 1.0, 1.0, false}, {{5}, 0.9925, 1.0, 0.9925, true}, {{4}, 0.875, 0.9, 0.95, false}};
  made.pools = {"default"};
  return made;
}

std::vector<DecisionRecord> sample_log() {
  return {record(5, 3, 3, Reason::kInsufficientData), tried_record(),
          record(755, 5, 5, Reason::kCheapestThatKeepsSlo, Limit::kStabilization), record(1200, 5, 4, Reason::kSloMet)};
}

TEST(DecisionLog, RecordsOfARunAreInTheOrderOfTimeAndOfPools) {
  RunResult run;
  run.policy = "penstock";
  run.decisions = {record(10, 1, 2, Reason::kPanic), record(30, 2, 1, Reason::kSloMet)};
  run.holds = {record(5, 1, 1, Reason::kNoData), record(10, 1, 1, Reason::kFixed)};
  run.holds[1].pool = "other";
  std::vector<PoolInfo> pools(2);
  pools[0].name = "other";
  pools[1].name = "default";
  const auto records = decision_records({run}, pools);
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].reason, Reason::kNoData);
  EXPECT_EQ(records[1].reason, Reason::kFixed);
  EXPECT_EQ(records[2].reason, Reason::kPanic);
  EXPECT_EQ(records[3].at, at(30));
}

TEST(DecisionLog, ALineHoldsOneEntryWithStableKeys) {
  EXPECT_EQ(
      to_decision_jsonl(std::vector{tried_record()}),
      "{\"at_s\":750,\"policy\":\"penstock\",\"pool\":\"default\",\"current\":3,\"target\":5,"
      "\"reason\":\"cheapest_that_keeps_slo\",\"limited_by\":\"\",\"evidence\":["
      "{\"name\":\"request_rate\",\"value\":11.25,\"unit\":\"1/s\"},"
      "{\"name\":\"attainment\",\"value\":0.9925,\"unit\":\"share\"}],\"candidates\":["
      "{\"replicas\":{\"default\":8},\"slo_attainment\":1,\"ttft_attainment\":1,\"itl_attainment\":1,\"chosen\":false},"
      "{\"replicas\":{\"default\":5},\"slo_attainment\":0.9925,\"ttft_attainment\":1,\"itl_attainment\":0.9925,"
      "\"chosen\":true},"
      "{\"replicas\":{\"default\":4},\"slo_attainment\":0.875,\"ttft_attainment\":0.9,\"itl_attainment\":0.95,"
      "\"chosen\":false}],"
      "\"would_change\":\"scales up when the SLO attainment of 5 replicas is too low (simulated: 99.2 %), "
      "down when 4 replicas would be enough (simulated: 87.5 %)\"}\n");
}

TEST(DecisionLog, WhatIsWrittenReadsBackToTheSameBytes) {
  std::vector<DecisionRecord> log = sample_log();
  log[0].policy = "quoted \" \n name";
  log[0].evidence = {{"unknown", std::numeric_limits<double>::quiet_NaN(), "ms"}};
  const std::string text = to_decision_jsonl(log);
  const auto read = parse_decision_jsonl(text, "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->records.size(), log.size());
  EXPECT_EQ(read->records[0].policy, log[0].policy);
  EXPECT_TRUE(std::isnan(read->records[0].evidence[0].value));
  EXPECT_EQ(read->records[1].candidates[2].replicas, std::vector<std::uint32_t>{4});
  EXPECT_EQ(read->errors, 0U);
  EXPECT_EQ(to_decision_jsonl(read->records), text);
}

DecisionRecord diagnosed_record() {
  DecisionRecord entry = tried_record();
  entry.cause = decision::Cause::kQueue;
  entry.diagnosis = "TTFT is bad in pool default for \"all\"";
  entry.phase = decision::RolloutPhase::kGuardrails;
  entry.next_phase_target = 7;
  entry.forecast = decision::Forecast{12.5, 2048.0, {}, 0.75, 1.5};
  return entry;
}

TEST(DecisionLog, OptionalFieldsAreAtTheEndOfTheLineAndReadBack) {
  const std::string text = to_decision_jsonl(std::vector{diagnosed_record()});
  const std::string plain = to_decision_jsonl(std::vector{tried_record()});
  EXPECT_EQ(text.substr(0, plain.size() - 2), plain.substr(0, plain.size() - 2));
  EXPECT_TRUE(text.ends_with(
      ",\"cause\":\"queue\",\"diagnosis\":\"TTFT is bad in pool default for \\\"all\\\"\",\"phase\":\"guardrails\","
      "\"next_phase_target\":7,\"forecast\":{\"requests_per_s\":12.5,\"input_tokens\":2048,\"error\":0.75,"
      "\"naive_error\":1.5}}\n"))
      << text;
  const auto read = parse_decision_jsonl(text, "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  const DecisionRecord& record = read->records.front();
  EXPECT_EQ(record.cause, decision::Cause::kQueue);
  EXPECT_EQ(record.phase, decision::RolloutPhase::kGuardrails);
  EXPECT_EQ(record.next_phase_target, 7U);
  ASSERT_TRUE(record.forecast);
  EXPECT_EQ(record.forecast->error, 0.75);
  EXPECT_FALSE(record.forecast->output_tokens);
  EXPECT_EQ(to_decision_jsonl(read->records), text);
  const auto older = parse_decision_jsonl(plain, "log.jsonl");
  ASSERT_TRUE(older);
  EXPECT_FALSE(older->records.front().cause);
  EXPECT_FALSE(older->records.front().forecast);
}

TEST(DecisionLog, AnEmptyForecastIsNotWritten) {
  DecisionRecord entry = tried_record();
  entry.forecast.emplace();
  EXPECT_EQ(to_decision_jsonl(std::vector{entry}), to_decision_jsonl(std::vector{tried_record()}));
  EXPECT_EQ(explain_decision(decision_tracks(std::vector{entry})[0], at(752)).find("Expected"), std::string::npos);
}

TEST(DecisionLog, OptionalFieldsAreCheckedToo) {
  const std::string good = to_decision_jsonl(std::vector{diagnosed_record()});
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const auto read = parse_decision_jsonl(line.replace(line.find(from), from.size(), to), "log.jsonl");
    return read ? std::string{"no error"} : read.error().where + ": " + read.error().what;
  };
  EXPECT_EQ(message("\"cause\":\"queue\"", "\"cause\":7"), "log.jsonl:1: cause: must be text");
  EXPECT_EQ(message("\"next_phase_target\":7", "\"next_phase_target\":-7"),
            "log.jsonl:1: next_phase_target: must be a count of replicas");
  EXPECT_EQ(message("12.5", "\"much\""), "log.jsonl:1: forecast: requests_per_s: must be a number");
  EXPECT_EQ(message("12.5", "null"), "no error");
  EXPECT_EQ(message("\"forecast\":{", "\"forecast\":[],\"x\":{"), "log.jsonl:1: forecast: must be an object");
}

// `penstock decide` answers a line that it cannot use with such an object.
TEST(DecisionLog, ObjectsWithAnErrorAreSkippedAndCounted) {
  const std::string good = to_decision_jsonl(std::vector{tried_record()});
  const std::string error = "{\"error\":\"observation: invalid JSON at byte 13\",\"line\":2}\n";
  const auto read = parse_decision_jsonl(error + good + error + good, "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->records.size(), 2U);
  EXPECT_EQ(read->errors, 2U);
  EXPECT_EQ(to_decision_jsonl(read->records), good + good);
}

TEST(DecisionLog, AnIncompleteLastLineIsLeftOut) {
  const std::string good = to_decision_jsonl(std::vector{tried_record()});
  for (const std::size_t bytes : {std::size_t{1}, good.size() / 2, good.size() - 2}) {
    const auto read = parse_decision_jsonl(good + good + good.substr(0, bytes), "log.jsonl");
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->records.size(), 2U);
    EXPECT_EQ(read->cut_line, 3U);
  }
  const auto whole = parse_decision_jsonl(good + good.substr(0, good.size() - 1), "log.jsonl");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->records.size(), 2U);  // Only the end of the line is missing.
  EXPECT_EQ(whole->cut_line, 0U);
  EXPECT_FALSE(parse_decision_jsonl(good + good.substr(0, 9) + "\n" + good, "log.jsonl"));
  EXPECT_FALSE(parse_decision_jsonl("no log", "log.jsonl"));
}

TEST(DecisionLog, ErrorsNameFileLineAndKey) {
  const std::string good = to_decision_jsonl(std::vector{tried_record()});
  const auto message = [&](const std::string& bad) {
    const auto read = parse_decision_jsonl(good + "\n" + bad + "\n", "log.jsonl");
    return read ? std::string{"no error"} : read.error().where + ": " + read.error().what;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good.substr(0, good.size() - 1);
    return line.replace(line.find(from), from.size(), to);
  };
  EXPECT_EQ(message("{"), "log.jsonl:3: is not a JSON object");
  EXPECT_EQ(message("[]"), "log.jsonl:3: must be an object");
  EXPECT_EQ(message("{}"), "log.jsonl:3: at_s: is missing");
  EXPECT_EQ(message(with("\"policy\":", "\"plicy\":")), "log.jsonl:3: policy: is missing");
  EXPECT_EQ(message(with("cheapest_that_keeps_slo", "cheapest")), "log.jsonl:3: reason: unknown name 'cheapest'");
  EXPECT_EQ(message(with("\"limited_by\":\"\"", "\"limited_by\":\"later\"")),
            "log.jsonl:3: limited_by: unknown name 'later'");
  EXPECT_EQ(message(with("\"current\":3", "\"current\":-3")), "log.jsonl:3: current: must be a count of replicas");
  EXPECT_EQ(message(with("750", "-1")), "log.jsonl:3: at_s: must be seconds since the start, from 0 to 100 years");
  EXPECT_EQ(message(with("750", "null")), "log.jsonl:3: at_s: must be seconds since the start, from 0 to 100 years");
  EXPECT_EQ(message(with("\"cheapest_that_keeps_slo\"", "7")), "log.jsonl:3: reason: must be text");
  EXPECT_EQ(message(with("11.25", "\"x\"")), "log.jsonl:3: evidence[0]: value: must be a number");
  EXPECT_EQ(message(with("\"chosen\":true", "\"chosen\":1")),
            "log.jsonl:3: candidates[1]: chosen: must be true or false");
  EXPECT_EQ(message(with("{\"default\":5}", "{\"other\":5}")),
            "log.jsonl:3: candidates[1]: names other pools than the candidates before it");
  EXPECT_EQ(message(std::string(kDecisionLineBytesMax + 1, 'x')), "log.jsonl:3: is longer than 1048576 bytes");
}

TEST(DecisionLog, KeysOfALaterVersionAreIgnored) {
  std::string line = to_decision_jsonl(std::vector{tried_record()});
  line.replace(1, 0, "\"later\":[1,2],");
  EXPECT_TRUE(parse_decision_jsonl(line + "\r\n \n", "log.jsonl"));
}

TEST(WhatWouldChange, LoadsNameTheirThresholdsFromTheEvidence) {
  DecisionRecord loaded = record(60, 4, 4, Reason::kWithinTolerance);
  loaded.evidence = {{"request_rate", 7.5, "1/s"}, {"target_per_replica", 2.0, "1/s"}, {"provisioned", 4, "replicas"}};
  EXPECT_EQ(what_would_change(loaded),
            "scales up when request_rate exceeds about 8.00 1/s (now 7.50), down when request_rate falls below about "
            "6.00 1/s");
  loaded.current = loaded.target = 1;
  EXPECT_EQ(what_would_change(loaded), "scales up when request_rate exceeds about 2.00 1/s (now 7.50)");
}

TEST(WhatWouldChange, ALimitComesFirst) {
  DecisionRecord limited = tried_record();
  limited.limited_by = Limit::kHotKvCache;
  EXPECT_TRUE(what_would_change(limited).starts_with("shrinks once KV cache use has fallen; scales up when the SLO"));
}

TEST(WhatWouldChange, ACooldownFollowsAFailedActionOrARecentNeed) {
  DecisionRecord limited = record(60, 2, 2, Reason::kLoadAboveTarget);
  limited.limited_by = Limit::kCooldown;
  EXPECT_EQ(decision::because(limited),
            "it is limited by a cooldown: a scaling action failed, or more replicas were needed recently");
  EXPECT_TRUE(what_would_change(limited).starts_with("changes once the cooldown has passed"));
}

TEST(WhatWouldChange, ComparesFleetsThatDifferInThisPoolOnly) {
  DecisionRecord two = record(60, 2, 2, Reason::kCheapestThatKeepsSlo);
  two.pools = {"prefill", "decode"};
  two.pool = "prefill";
  two.candidates = {{{2, 3}, 0.99, 1, 1, true}, {{1, 2}, 0.5, 1, 1, false}, {{2, 2}, 0.75, 1, 1, false}};
  EXPECT_EQ(what_would_change(two), "scales up when the SLO attainment of 2 replicas is too low (simulated: 99.0 %)");
  two.pool = "decode";
  EXPECT_TRUE(what_would_change(two).ends_with("down when 2 replicas would be enough (simulated: 75.0 %)"));
  two.pool = "another";
  EXPECT_FALSE(what_would_change(two).empty());
}

TEST(WhatWouldChange, EveryReasonAndLimitHasAnAnswer) {
  for (int reason = 0; reason <= static_cast<int>(Reason::kSloBurns); ++reason)
    EXPECT_FALSE(what_would_change(record(1, 1, 1, static_cast<Reason>(reason))).empty());
  for (const auto reason :
       {Reason::kSchedule, Reason::kWarmPool, Reason::kObserveOnly, Reason::kIdle, Reason::kFormula, Reason::kSloBurns})
    EXPECT_EQ(what_would_change(record(1, 1, 1, reason)).find("does not say"), std::string::npos);
  DecisionRecord limited = tried_record();
  const std::string plain = what_would_change(limited);
  for (int limit = 1; limit <= static_cast<int>(Limit::kRefused); ++limit) {
    limited.limited_by = static_cast<Limit>(limit);
    EXPECT_TRUE(what_would_change(limited).ends_with("; " + plain)) << to_string(limited.limited_by);
  }
}

// Sentences on one line each.
std::string unwrapped(std::string text) {
  constexpr std::string_view kBreak = "\n    ";
  for (std::size_t at = text.find(kBreak); at != std::string::npos; at = text.find(kBreak, at + 1))
    if (text[at + kBreak.size()] != ' ') text.replace(at, kBreak.size(), " ");
  return text;
}
std::string explained(const DecisionTrack& track, core::Instant at) { return unwrapped(explain_decision(track, at)); }

TEST(Explain, NamesDecisionReasonEvidenceAndNextChange) {
  const auto log = sample_log();
  const auto tracks = decision_tracks(log);
  ASSERT_EQ(tracks.size(), 1U);
  EXPECT_EQ(explained(tracks[0], at(752)),
            "penstock, pool default, at 12m32s: 5 replicas.\n"
            "  Decided at 12m30s: grows from 3 to 5 replicas, because this is the cheapest simulated fleet "
            "that meets the SLO.\n"
            "  Based on:\n"
            "     request_rate  11.2 1/s\n"
            "     attainment      99.2 %\n"
            "  Simulated fleets (replicas) and the share of requests that would have met the SLO:\n"
            "     default  SLO attainment  TTFT met  ITL met\n"
            "     4                87.5 %    90.0 %   95.0 %\n"
            "     5                99.2 %   100.0 %   99.2 %  chosen\n"
            "     8               100.0 %   100.0 %  100.0 %\n"
            "  What would change this decision: scales up when the SLO attainment of 5 replicas is too low (simulated: "
            "99.2 %), down when 4 replicas would be enough (simulated: 87.5 %).\n"
            "  Next change: at 20m it shrinks from 5 to 4 replicas, because the SLO is met with a margin.\n");
}

TEST(Explain, NamesReplicasAsleep) {
  auto log = sample_log();
  for (DecisionRecord& record : log) record.asleep = 2;
  EXPECT_NE(explained(decision_tracks(log)[0], at(752)).find("grows from 3 to 5 replicas, with 2 more asleep, because"),
            std::string::npos);
  const auto read = parse_decision_jsonl(to_decision_jsonl(log), "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->records.front().asleep, 2U);
}

TEST(Explain, AHoldNamesTheChangeThatItKeepsAndItsLimit) {
  const auto log = sample_log();
  const std::string text = explained(decision_tracks(log)[0], at(900));
  EXPECT_NE(
      text.find("Decided at 12m35s: holds 5 replicas, because it is limited by the stabilisation window: a larger "
                "target was proposed recently.\n"
                "  Reason of the proposal: this is the cheapest simulated fleet that meets the SLO.\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("Last change: at 12m30s it grows from 3 to 5 replicas"), std::string::npos);
}

TEST(Explain, NamesTheFleetForWaitingRequests) {
  auto log = sample_log();
  log.back().reason = Reason::kSloAtRisk;
  log.back().limited_by = Limit::kNone;
  log.back().evidence = {{"fleet_for_backlog", 14.0, "replicas"}};
  const std::string text = explained(decision_tracks(log)[0], at(99999));
  EXPECT_NE(text.find(", and requests that wait already need 14 replicas"), std::string::npos) << text;
}

TEST(Explain, PutsEveryReasonAndLimitIntoWords) {
  auto log = sample_log();
  const auto tracks = decision_tracks(log);
  const auto has = [&](const char* name) {  // names of one word may be in the sentence
    return std::string_view{name}.find('_') != std::string_view::npos &&
           explained(tracks[0], at(99999)).find(name) != std::string::npos;
  };
  for (int reason = 0; reason <= static_cast<int>(Reason::kSloBurns); ++reason) {
    log.back().reason = static_cast<Reason>(reason);
    EXPECT_FALSE(has(to_string(log.back().reason))) << reason;
    EXPECT_STRNE(decision::because(log.back().reason), "");
  }
  for (int limit = 1; limit <= static_cast<int>(Limit::kRefused); ++limit) {
    log.back().limited_by = static_cast<Limit>(limit);
    const std::string name = fmt::format("limited by {}.", to_string(log.back().limited_by));
    EXPECT_EQ(explained(tracks[0], at(99999)).find(name), std::string::npos) << limit;
    EXPECT_STRNE(decision::limited_by(log.back().limited_by), "");
  }
}

TEST(Explain, BeforeTheFirstAndAfterTheLastDecision) {
  const auto log = sample_log();
  const auto track = decision_tracks(log)[0];
  EXPECT_EQ(explained(track, at(4)).substr(0, 73),
            "penstock, pool default, at 4s: no decision yet; the run started with 3 re");
  EXPECT_NE(explained(track, at(99999)).find("Next change: none before the end of the log."), std::string::npos);
}

TEST(Explain, TheListHasALineForEachDecision) {
  const auto log = sample_log();
  EXPECT_EQ(list_decisions(decision_tracks(log)[0]),
            "penstock, pool default: 2 changes, 2 holds\n"
            "      5s    = 3  insufficient_data\n"
            "  12m30s  3 → 5  cheapest_that_keeps_slo\n"
            "  12m35s    = 5  cheapest_that_keeps_slo  limited by stabilization\n"
            "     20m  5 → 4  slo_met\n");
}

TEST(Explain, TheListHasTheFirstOfSeveralHolds) {
  auto log = sample_log();
  log.insert(log.begin() + 3, 2, log[2]);
  const DecisionTrack track = decision_tracks(log)[0];
  EXPECT_EQ(list_decisions(track),
            "penstock, pool default: 2 changes, 4 holds\n"
            "      5s    = 3  insufficient_data\n"
            "  12m30s  3 → 5  cheapest_that_keeps_slo\n"
            "  12m35s    = 5  cheapest_that_keeps_slo  limited by stabilization  (and 2 more holds)\n"
            "     20m  5 → 4  slo_met\n");
  const std::string all = list_decisions(track, Holds::kAll);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 7);
}

TEST(Explain, LinesFitATerminal) {
  const auto log = sample_log();
  const std::string text = explain_decision(decision_tracks(log)[0], at(752));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    EXPECT_LE(text.find('\n', begin) - begin, 100U) << text;
}

TEST(Explain, ShowsTheDiagnosisThePhaseAndTheForecast) {
  const std::vector<DecisionRecord> log = {diagnosed_record()};
  const auto track = decision_tracks(log)[0];
  const std::string text = explained(track, at(752));
  EXPECT_NE(text.find("meets the SLO.\n"
                      "  Diagnosis: TTFT is bad in pool default for \"all\".\n"
                      "  Phase guardrails: the target would be 7 replicas in phase throughput.\n"
                      "  Expected over the start-up time: 12.5 requests/s, 2048 prompt tokens each; recent error 0.75 "
                      "requests/s; error of a forecast without change 1.50 requests/s.\n"
                      "  Based on:\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(list_decisions(track),
            "penstock, pool default: 1 change, 0 holds\n"
            "  12m30s  3 → 5  cheapest_that_keeps_slo    cause queue\n");
  DecisionRecord last_phase = diagnosed_record();
  last_phase.diagnosis.clear();
  last_phase.next_phase_target.reset();
  last_phase.forecast = decision::Forecast{{}, {}, {}, 0.5, {}};
  const std::string less = explained(decision_tracks(std::vector{last_phase})[0], at(752));
  EXPECT_NE(less.find("  Diagnosis: queue.\n  Phase guardrails.\n"
                      "  Expected over the start-up time: not known yet; recent error 0.50 requests/s.\n"),
            std::string::npos)
      << less;
}

TEST(Explain, ControlCharactersInNamesAreReplaced) {
  DecisionRecord entry = diagnosed_record();
  entry.policy = entry.pool = entry.diagnosis = "\x1b[2J\nx";
  entry.evidence = {{"\x1b[2J", 1.0, "\x1b]0;x\x07"}};
  entry.pools = {"\x1b[31m"};
  const std::vector<DecisionRecord> log = {entry};
  const auto track = decision_tracks(log)[0];
  EXPECT_EQ((explained(track, at(9999)) + list_decisions(track)).find('\x1b'), std::string::npos);
}

TEST(Explain, TimesAreWrittenInTheRequestedForm) {
  EXPECT_EQ(format_moment(core::kStart), "0s");
  EXPECT_EQ(format_moment(at(3600)), "1h");
  EXPECT_EQ(format_moment(at(750)), "12m30s");
  EXPECT_EQ(format_moment(core::kStart + std::chrono::milliseconds{1250}), "1s250ms");
}

}  // namespace
}  // namespace penstock::report
