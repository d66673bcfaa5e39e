#include "report/decision_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planner/policy.h"
#include "report/decision_log_words.h"

namespace penstock::report {
namespace {

using signals::DecisionEntry;
using signals::DecisionNote;
using signals::RunResult;

core::Instant at(int second) { return core::kStart + std::chrono::seconds{second}; }

DecisionNote note(int second, std::uint32_t current, std::uint32_t target, const char* reason, const char* limit = "") {
  return {at(second), "default", current, target, reason, "", limit};
}

DecisionEntry tried_entry() {
  DecisionEntry entry;
  entry.policy = "penstock";
  entry.note = note(750, 3, 5, "cheapest_that_keeps_slo");
  entry.note.evidence = {{"request_rate", 11.25, "1/s"}, {"attainment", 0.9925, "share"}};
  entry.note.candidates = {
      {{8}, 1.0, 1.0, 1.0, false}, {{5}, 0.9925, 1.0, 0.9925, true}, {{4}, 0.875, 0.9, 0.95, false}};
  entry.pools = {"default"};
  entry.would_change = what_would_change(entry.note, 0);
  return entry;
}

std::vector<DecisionEntry> sample_log() {
  std::vector<DecisionEntry> log = {
      {"penstock", note(5, 3, 3, "insufficient_data"), {}, "decides again later"},
      tried_entry(),
      {"penstock", note(755, 5, 5, "cheapest_that_keeps_slo", "stabilization"), {}, "waits"},
      {"penstock", note(1200, 5, 4, "slo_met"), {}, ""}};
  return log;
}

TEST(DecisionLog, EntriesOfARunAreInTheOrderOfTimeAndOfPools) {
  RunResult run;
  run.policy = "penstock";
  run.decisions = {note(10, 1, 2, "panic"), note(30, 2, 1, "slo_met")};
  run.holds = {note(5, 1, 1, "no_data"), note(10, 1, 1, "fixed")};
  run.holds[1].pool = "other";
  std::vector<PoolInfo> pools(2);
  pools[0].name = "other";
  const auto entries = decision_entries({run}, pools);
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0].note.reason, "no_data");
  EXPECT_EQ(entries[1].note.reason, "fixed");
  EXPECT_EQ(entries[2].note.reason, "panic");
  EXPECT_EQ(entries[3].note.at, at(30));
}

TEST(DecisionLog, ALineHoldsOneEntryWithStableKeys) {
  EXPECT_EQ(
      to_decision_jsonl(std::vector{tried_entry()}),
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
  std::vector<DecisionEntry> log = sample_log();
  log[0].policy = "quoted \" \n name";
  log[0].note.evidence = {{"unknown", std::numeric_limits<double>::quiet_NaN(), "ms"}};
  const std::string text = to_decision_jsonl(log);
  const auto read = parse_decision_jsonl(text, "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), log.size());
  EXPECT_EQ((*read)[0].policy, log[0].policy);
  EXPECT_TRUE(std::isnan((*read)[0].note.evidence[0].value));
  EXPECT_EQ((*read)[1].note.candidates[2].replicas, std::vector<std::uint32_t>{4});
  EXPECT_EQ(to_decision_jsonl(*read), text);
}

DecisionEntry diagnosed_entry() {
  DecisionEntry entry = tried_entry();
  entry.note.cause = "queue";
  entry.note.diagnosis = "ttft is bad in pool default for \"all\"";
  entry.note.phase = "guardrails";
  entry.note.next_phase_target = 7;
  entry.note.outlook = signals::OutlookNote{12.5, 2048.0, {}, 0.75, 1.5};
  return entry;
}

TEST(DecisionLog, WhatAPolicySaysBesidesStandsAtTheEndOfTheLineAndReadsBack) {
  const std::string text = to_decision_jsonl(std::vector{diagnosed_entry()});
  const std::string plain = to_decision_jsonl(std::vector{tried_entry()});
  EXPECT_EQ(text.substr(0, plain.size() - 2), plain.substr(0, plain.size() - 2));
  EXPECT_TRUE(text.ends_with(
      ",\"cause\":\"queue\",\"diagnosis\":\"ttft is bad in pool default for \\\"all\\\"\",\"phase\":\"guardrails\","
      "\"next_phase_target\":7,\"outlook\":{\"requests_per_s\":12.5,\"input_tokens\":2048,\"error\":0.75,"
      "\"naive_error\":1.5}}\n"))
      << text;
  const auto read = parse_decision_jsonl(text, "log.jsonl");
  ASSERT_TRUE(read) << read.error().message();
  const DecisionNote& note = read->front().note;
  EXPECT_EQ(note.cause, "queue");
  EXPECT_EQ(note.next_phase_target, 7U);
  ASSERT_TRUE(note.outlook);
  EXPECT_EQ(note.outlook->error, 0.75);
  EXPECT_FALSE(note.outlook->output_tokens);
  EXPECT_EQ(to_decision_jsonl(*read), text);
  const auto older = parse_decision_jsonl(plain, "log.jsonl");
  ASSERT_TRUE(older);
  EXPECT_TRUE(older->front().note.cause.empty());
  EXPECT_FALSE(older->front().note.outlook);
}

TEST(DecisionLog, AnOutlookOfNothingIsNotWritten) {
  DecisionEntry entry = tried_entry();
  entry.note.outlook.emplace();
  EXPECT_EQ(to_decision_jsonl(std::vector{entry}), to_decision_jsonl(std::vector{tried_entry()}));
  EXPECT_EQ(explain_decision(decision_tracks(std::vector{entry})[0], at(752)).find("Expected"), std::string::npos);
}

TEST(DecisionLog, WhatAPolicySaysBesidesIsCheckedToo) {
  const std::string good = to_decision_jsonl(std::vector{diagnosed_entry()});
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const auto read = parse_decision_jsonl(line.replace(line.find(from), from.size(), to), "log.jsonl");
    return read ? std::string{"no error"} : read.error().where + ": " + read.error().what;
  };
  EXPECT_EQ(message("\"cause\":\"queue\"", "\"cause\":7"), "log.jsonl:1: cause: must be text");
  EXPECT_EQ(message("\"next_phase_target\":7", "\"next_phase_target\":-7"),
            "log.jsonl:1: next_phase_target: must be a count of replicas");
  EXPECT_EQ(message("12.5", "\"much\""), "log.jsonl:1: outlook: requests_per_s: must be a number");
  EXPECT_EQ(message("12.5", "null"), "no error");
  EXPECT_EQ(message("\"outlook\":{", "\"outlook\":[],\"x\":{"), "log.jsonl:1: outlook: must be an object");
}

TEST(DecisionLog, ErrorsNameFileLineAndKey) {
  const std::string good = to_decision_jsonl(std::vector{tried_entry()});
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
  EXPECT_EQ(message("{}"), "log.jsonl:3: policy: is missing");
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

TEST(DecisionLog, KeysOfALaterVersionArePassedOver) {
  std::string line = to_decision_jsonl(std::vector{tried_entry()});
  line.replace(1, 0, "\"later\":[1,2],");
  EXPECT_TRUE(parse_decision_jsonl(line + "\r\n \n", "log.jsonl"));
}

TEST(WhatWouldChange, LoadsNameTheirThresholdsFromTheEvidence) {
  DecisionNote loaded = note(60, 4, 4, "within_tolerance");
  loaded.evidence = {{"request_rate", 7.5, "1/s"}, {"target_per_replica", 2.0, "1/s"}, {"provisioned", 4, "replicas"}};
  EXPECT_EQ(what_would_change(loaded, 0),
            "scales up when request_rate exceeds about 8.00 1/s (now 7.50), down when request_rate falls below about "
            "6.00 1/s");
  loaded.current = loaded.target = 1;
  EXPECT_EQ(what_would_change(loaded, 0), "scales up when request_rate exceeds about 2.00 1/s (now 7.50)");
}

TEST(WhatWouldChange, ALimitComesFirst) {
  DecisionNote limited = tried_entry().note;
  limited.limited_by = "hot_kv_cache";
  EXPECT_TRUE(
      what_would_change(limited, 0).starts_with("shrinks once KV cache use has fallen; scales up when the SLO"));
  limited.limited_by = "a_limit_of_later";
  EXPECT_TRUE(what_would_change(limited, 0).starts_with("changes once its limit, a_limit_of_later, is lifted; "));
}

TEST(WhatWouldChange, OfTwoPoolsOnlyTheFleetsThatDifferInItsOwnCount) {
  DecisionNote two = note(60, 2, 2, "cheapest_that_keeps_slo");
  two.candidates = {{{2, 3}, 0.99, 1, 1, true}, {{1, 2}, 0.5, 1, 1, false}, {{2, 2}, 0.75, 1, 1, false}};
  EXPECT_EQ(what_would_change(two, 0),
            "scales up when the SLO attainment of 2 replicas is too low (simulated: 99.0 %)");
  EXPECT_TRUE(what_would_change(two, 1).ends_with("down when 2 replicas would be enough (simulated: 75.0 %)"));
  EXPECT_FALSE(what_would_change(two, 7).empty());
}

TEST(WhatWouldChange, EveryReasonAndLimitHasAnAnswer) {
  for (int reason = 0; reason <= static_cast<int>(planner::Reason::kSloBurns); ++reason)
    EXPECT_FALSE(what_would_change(note(1, 1, 1, planner::to_string(static_cast<planner::Reason>(reason))), 0).empty());
  for (const auto reason : {planner::Reason::kSchedule, planner::Reason::kWarmPool, planner::Reason::kObserveOnly,
                            planner::Reason::kIdle, planner::Reason::kFormula, planner::Reason::kSloBurns})
    EXPECT_EQ(what_would_change(note(1, 1, 1, planner::to_string(reason)), 0).find("does not say"), std::string::npos);
  DecisionNote limited = tried_entry().note;
  for (int limit = 1; limit <= static_cast<int>(planner::Limit::kRefused); ++limit) {
    limited.limited_by = planner::to_string(static_cast<planner::Limit>(limit));
    EXPECT_EQ(what_would_change(limited, 0).find("once its limit"), std::string::npos) << limited.limited_by;
  }
  EXPECT_FALSE(what_would_change(note(1, 1, 1, "a_reason_of_later"), 0).empty());
}

TEST(Explain, SaysWhatHoldsWhyOnWhatAndWhatComesNext) {
  const auto log = sample_log();
  const auto tracks = decision_tracks(log);
  ASSERT_EQ(tracks.size(), 1U);
  EXPECT_EQ(explain_decision(tracks[0], at(752)),
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

TEST(Explain, AHoldNamesTheChangeThatItKeepsAndItsLimit) {
  const auto log = sample_log();
  const std::string text = explain_decision(decision_tracks(log)[0], at(900));
  EXPECT_NE(text.find("Decided at 12m35s: holds 5 replicas, because"), std::string::npos);
  EXPECT_NE(text.find("Limited by the stabilisation window: a larger target was proposed recently."),
            std::string::npos);
  EXPECT_NE(text.find("Last change: at 12m30s it grows from 3 to 5 replicas"), std::string::npos);
}

TEST(Explain, PutsEveryReasonAndLimitIntoWords) {
  auto log = sample_log();
  const auto tracks = decision_tracks(log);
  const auto in_words = [&](std::string& field, const char* name) {  // names of one word may be in the sentence
    field = name;
    return field.find('_') == std::string::npos ||
           explain_decision(tracks[0], at(99999)).find(field) == std::string::npos;
  };
  for (int reason = 0; reason <= static_cast<int>(planner::Reason::kSloBurns); ++reason)
    EXPECT_TRUE(in_words(log.back().note.reason, planner::to_string(static_cast<planner::Reason>(reason)))) << reason;
  for (int limit = 1; limit <= static_cast<int>(planner::Limit::kRefused); ++limit)
    EXPECT_TRUE(in_words(log.back().note.limited_by, planner::to_string(static_cast<planner::Limit>(limit)))) << limit;
}

TEST(Explain, BeforeTheFirstAndAfterTheLastDecision) {
  const auto log = sample_log();
  const auto track = decision_tracks(log)[0];
  EXPECT_EQ(explain_decision(track, at(4)).substr(0, 73),
            "penstock, pool default, at 4s: no decision yet; the run started with 3 re");
  EXPECT_NE(explain_decision(track, at(99999)).find("Next change: none before the end of the log."), std::string::npos);
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

TEST(Explain, TellsTheDiagnosisThePhaseAndTheOutlook) {
  const std::vector<DecisionEntry> log = {diagnosed_entry()};
  const auto track = decision_tracks(log)[0];
  const std::string text = explain_decision(track, at(752));
  EXPECT_NE(text.find("meets the SLO.\n"
                      "  Diagnosis: ttft is bad in pool default for \"all\".\n"
                      "  Phase guardrails: the target would be 7 replicas in phase throughput.\n"
                      "  Expected over the start-up time: 12.5 requests/s, 2048 prompt tokens each; recent error 0.75 "
                      "requests/s; error of a forecast without change 1.50 requests/s.\n"
                      "  Based on:\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(list_decisions(track),
            "penstock, pool default: 1 change, 0 holds\n"
            "  12m30s  3 → 5  cheapest_that_keeps_slo    cause queue\n");
  DecisionEntry last_phase = diagnosed_entry();
  last_phase.note.diagnosis.clear();
  last_phase.note.next_phase_target.reset();
  last_phase.note.outlook = signals::OutlookNote{{}, {}, {}, 0.5, {}};
  const std::string less = explain_decision(decision_tracks(std::vector{last_phase})[0], at(752));
  EXPECT_NE(less.find("  Diagnosis: queue.\n  Phase guardrails.\n"
                      "  Expected over the start-up time: not known yet; recent error 0.50 requests/s.\n"),
            std::string::npos)
      << less;
}

TEST(Explain, NamesThatSteerATerminalAreMadeHarmless) {
  DecisionEntry entry = diagnosed_entry();
  entry.note.cause = entry.note.diagnosis = entry.note.phase = "\x1b[2J\nx";
  entry.policy = entry.note.pool = entry.note.reason = entry.note.limited_by = entry.would_change = "\x1b[2J\nx";
  entry.note.evidence = {{"\x1b[2J", 1.0, "\x1b]0;x\x07"}};
  entry.pools = {"\x1b[31m"};
  const std::vector<DecisionEntry> log = {entry};
  const auto track = decision_tracks(log)[0];
  EXPECT_EQ((explain_decision(track, at(9999)) + list_decisions(track)).find('\x1b'), std::string::npos);
}

TEST(Explain, MomentsAreWrittenAsTheyAreAskedFor) {
  EXPECT_EQ(format_moment(core::kStart), "0s");
  EXPECT_EQ(format_moment(at(3600)), "1h");
  EXPECT_EQ(format_moment(at(750)), "12m30s");
  EXPECT_EQ(format_moment(core::kStart + std::chrono::milliseconds{1250}), "1s250ms");
}

}  // namespace
}  // namespace penstock::report
