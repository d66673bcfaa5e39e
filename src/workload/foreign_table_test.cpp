// Tables with other columns and times than the usual ones.
#include <gtest/gtest.h>

#include "workload/columns.h"
#include "workload/reader.h"
#include "workload/reader_testing.h"
#include "workload/time_format.h"

namespace penstock::workload {
namespace {

using testing::message_of;
using testing::read_text;

ReadOptions mapped(std::string_view columns, TimeFormat time_format = TimeFormat::kAuto) {
  ReadOptions options;
  options.columns = ColumnMapping::parse(columns).value();
  options.time_format = time_format;
  return options;
}

std::string mapping_error(std::string_view text) {
  const auto mapping = ColumnMapping::parse(text);
  return mapping ? std::string{} : mapping.error().message();
}

// Arrivals after the first one.
std::vector<core::Duration> arrivals_of(std::string_view text, const ReadOptions& options) {
  const auto workload = read_text(text, options);
  if (!workload) {
    ADD_FAILURE() << workload.error().message();
    return {};
  }
  std::vector<core::Duration> arrivals;
  for (const Request& request : workload->requests) arrivals.push_back(request.arrival - core::kStart);
  return arrivals;
}

using Durations = std::vector<core::Duration>;
using std::chrono::milliseconds, std::chrono::seconds, std::chrono::hours;

constexpr std::string_view kForeign =
    "Request Time,Prompt Tok,Completion Tok,Team\n"
    "2026-11-18 09:00:00,100,20,a\n"
    "2026-11-18T09:00:01.5Z,200,30,b\n";

TEST(ForeignTable, UnknownColumnsAreListedWithACommandThatMapsThem) {
  EXPECT_EQ(message_of(kForeign),
            "t.csv:1: unknown columns \"Request Time\", \"Prompt Tok\", \"Completion Tok\", \"Team\"; map them with "
            "--columns 'time=Request Time,input=Prompt Tok,output=Completion Tok'");
  EXPECT_EQ(message_of("ts;it's;total cost\n"),
            "t.csv:1: unknown columns \"ts\", \"it's\", \"total cost\"; map them with "
            "--columns 'time=ts,input=COLUMN,output=COLUMN'");
  EXPECT_EQ(message_of("started,completion time,in,\"out, all\"\n"),
            "t.csv:1: unknown columns \"started\", \"completion time\", \"in\", \"out, all\"; map them with "
            "--columns 'time=COLUMN,input=in,\"output=out, all\"'");
  EXPECT_EQ(message_of("100,20,3\n200,30,4\n"),
            "t.csv:1: unknown trace format: \"100,20,3\"; known are mooncake, azure2023, azure2024, burstgpt, csv, "
            "ledger, recorded, agentic, weka, litellm");
}

TEST(ForeignTable, LengthsWithoutArrivalsLeadToASyntheticWorkload) {
  EXPECT_EQ(message_of("num_prefill_tokens,num_decode_tokens\n100,20\n"),
            "t.csv:1: the header has no column of arrival times; its columns are \"num_prefill_tokens\", "
            "\"num_decode_tokens\"; for lengths with generated arrivals, use the trace "
            "synthetic:rate=5,duration=10m,lengths=FILE");
  EXPECT_EQ(message_of("num_prefill_tokens,num_decode_tokens,when\n100,20,3\n"),
            "t.csv:1: the header has no column of arrival times; its columns are \"num_prefill_tokens\", "
            "\"num_decode_tokens\", \"when\"; map them with "
            "--columns 'time=when,input=num_prefill_tokens,output=num_decode_tokens'");
}

TEST(ForeignTable, IsReadByTheMappingThatIsSuggested) {
  const std::string message = message_of(kForeign);
  const std::size_t begin = message.find('\'') + 1;
  ReadReport report;
  const auto workload =
      read_text(kForeign, mapped(message.substr(begin, message.rfind('\'') - begin)), &report).value();
  EXPECT_EQ(report.format, Format::kCsv);
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[1].arrival, core::kStart + milliseconds{1500});
  EXPECT_EQ(workload.requests[1].input_tokens, 200U);
  EXPECT_EQ(workload.requests[1].output_tokens, 30U);
  EXPECT_EQ(workload.tenants, std::vector<std::string>{"default"});
}

TEST(ForeignTable, MayBeMappedInPartAndWithOtherSeparators) {
  const auto workload = read_text("who;Start (ms);input_tokens;Answer\nx;0;5;6\n\"y;z\";250;7;8\n",
                                  mapped("time=Start (ms),output=answer,tenant=who"))
                            .value();
  EXPECT_EQ(workload.requests[1].arrival, core::kStart + milliseconds{250});
  EXPECT_EQ(workload.requests[1].input_tokens, 7U);
  EXPECT_EQ(workload.requests[1].output_tokens, 8U);
  EXPECT_EQ(workload.tenants, (std::vector<std::string>{"x", "y;z"}));
  EXPECT_EQ(read_text("arrival_s\tinput_tokens\toutput_tokens\n0\t1\t2\n").value().requests[0].output_tokens, 2U);
}

TEST(ForeignTable, AMappedColumnComesBeforeOneWithAUsualName) {
  const auto workload =
      read_text("arrival_s,input_tokens,output_tokens,billed\n0,1,2,9\n", mapped("output=billed")).value();
  EXPECT_EQ(workload.requests[0].output_tokens, 9U);
}

TEST(ForeignTable, AMappedColumnMustExist) {
  EXPECT_EQ(message_of(kForeign, mapped("time=When,input=Prompt Tok,output=Completion Tok")),
            "t.csv:1: the header has no column \"When\"; its columns are \"Request Time\", \"Prompt Tok\", "
            "\"Completion Tok\", \"Team\"");
  EXPECT_EQ(message_of(kForeign, mapped("time=Request Time")),
            "t.csv:1: the header has no column of input tokens, no column of output tokens; its columns are "
            "\"Request Time\", \"Prompt Tok\", \"Completion Tok\", \"Team\"; map them with "
            "--columns 'time=Request Time,input=Prompt Tok,output=Completion Tok'");
  EXPECT_EQ(message_of("{\"timestamp\":0,\"input_length\":1,\"output_length\":1}", mapped("time=t")),
            "t.csv:1: --columns maps the columns of a table, and this trace has JSON objects; rename their keys to "
            "timestamp, input_length and output_length");
}

TEST(ForeignTable, BadRowsNameTheColumnAsItIsWritten) {
  EXPECT_EQ(message_of("When,Prompt Tok,Out\n2026-11-18 09:00:00,1,1\nyesterday,1,1\n",
                       mapped("time=When,input=Prompt Tok,output=Out")),
            "t.csv:3: When \"yesterday\" is not a date and time; correct the row, or skip such rows with "
            "--skip-bad-rows");
}

TEST(ColumnMapping, IsReadAndWrittenBack) {
  for (const std::string_view text :
       {"time=Request Time,input=in,output=out", "\"time=Start, \"\"UTC\"\"\",input=a=b",
        "tenant=t,session=s,class=c,priority=p,streamed=st,prefix_group=g,prefix_tokens=n"})
    EXPECT_EQ(ColumnMapping::parse(text).value().text(), text);
  EXPECT_TRUE(ColumnMapping{}.empty());
  EXPECT_EQ(mapping_error("Request Time"),
            "\"Request Time\" is not VALUE=COLUMN; write time=COLUMN,input=COLUMN,output=COLUMN");
  EXPECT_EQ(mapping_error("when=a"),
            "unknown value \"when\"; use time, input, output, tenant, session, class, priority, streamed, "
            "prefix_group, prefix_tokens, model");
  EXPECT_EQ(mapping_error("time= "), "time has no column; write time=COLUMN,input=COLUMN,output=COLUMN");
  EXPECT_EQ(mapping_error("time=a,time=b"), "time is given twice");
}

TEST(TraceTimes, SinceTheEpochTellTheirUnit) {
  const auto table = [](std::string_view first, std::string_view second) {
    return "timestamp,input_tokens,output_tokens\n" + std::string{first} + ",1,1\n" + std::string{second} + ",1,1\n";
  };
  const Durations expected{seconds{0}, milliseconds{2000}};
  EXPECT_EQ(arrivals_of(table("1794992400", "1794992402"), {}), expected);
  EXPECT_EQ(arrivals_of(table("1794992400181", "1794992402181"), {}), expected);
  EXPECT_EQ(arrivals_of(table("1794992400181000", "1794992402181000"), {}), expected);
  EXPECT_EQ(arrivals_of(table("1794992400181000000", "1794992402181000000"), {}), expected);
}

TEST(TraceTimes, WithoutAUnitMustBeConfirmed) {
  const std::string text = "timestamp,input_tokens,output_tokens\n0,1,1\n270,1,1\n810,1,1\n";
  EXPECT_EQ(
      message_of(text),
      "t.csv:1: column \"timestamp\": times 0, 270, 810 have no unit; as milliseconds they would be 2.47 requests "
      "per second; the guess is ms: confirm it with --time-format ms, or give s, ms, us or ns");
  EXPECT_EQ(arrivals_of(text, mapped("time=timestamp", TimeFormat::kMilliseconds)),
            (Durations{seconds{0}, milliseconds{270}, milliseconds{810}}));
  EXPECT_EQ(arrivals_of(text, mapped("time=timestamp", TimeFormat::kSeconds)),
            (Durations{seconds{0}, seconds{270}, seconds{810}}));
  // A fraction is one of seconds.
  EXPECT_EQ(arrivals_of("timestamp,input_tokens,output_tokens\n0,1,1\n0.25,1,1\n", {}),
            (Durations{seconds{0}, milliseconds{250}}));
  // The flag also overrides the unit in a name.
  EXPECT_EQ(arrivals_of("arrival_s,input_tokens,output_tokens\n0,1,1\n250,1,1\n",
                        mapped("input=input_tokens", TimeFormat::kMilliseconds)),
            (Durations{seconds{0}, milliseconds{250}}));
  ReadOptions seconds_in_json;
  seconds_in_json.time_format = TimeFormat::kSeconds;
  EXPECT_EQ(arrivals_of("{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n"
                        "{\"timestamp\":2,\"input_length\":1,\"output_length\":1}\n",
                        seconds_in_json),
            (Durations{seconds{0}, seconds{2}}));
}

TEST(TraceTimes, TheOrderOfDayAndMonthMustBeConfirmedUnlessADayTellsIt) {
  const auto table = [](std::string_view first, std::string_view second) {
    return "timestamp,input_tokens,output_tokens\n" + std::string{first} + ",1,1\n" + std::string{second} + ",1,1\n";
  };
  EXPECT_EQ(arrivals_of(table("18/11/2026 09:00:00", "18/11/2026 11:00:00"), {}), (Durations{hours{0}, hours{2}}));
  EXPECT_EQ(arrivals_of(table("11/12/2026 09:00:00", "11/13/2026 09:00:00"), {}), (Durations{hours{0}, hours{24}}));
  EXPECT_EQ(arrivals_of(table("\"11/18/2026, 9:00:00 AM\"", "\"11/18/2026, 1:00:00 PM\""), {}),
            (Durations{hours{0}, hours{4}}));
  EXPECT_EQ(message_of(table("03/11/2026 09:00:00", "04/11/2026 09:00:00")),
            "t.csv:1: column \"timestamp\": the order of day and month in 03/11/2026 09:00:00, 04/11/2026 09:00:00 is "
            "not known; the guess is dd/mm/yyyy: confirm it with --time-format dd/mm/yyyy, or give dd/mm/yyyy or "
            "mm/dd/yyyy");
  EXPECT_EQ(guess_time_format(std::vector<std::string_view>{"11/03/2026 09:00:00", "11/04/2026 09:00:00"}).format,
            TimeFormat::kMonthFirst);
  EXPECT_NE(guess_time_format(std::vector<std::string_view>{"18/11/2026 09:00", "11/18/2026 09:00"}).doubt, "");
  EXPECT_EQ(
      arrivals_of(table("03/11/2026 09:00:00", "04/11/2026 09:00:00"), mapped("time=timestamp", TimeFormat::kDayFirst)),
      (Durations{hours{0}, hours{24}}));
}

TEST(TraceTimes, UnitsAreFoundInNames) {
  EXPECT_EQ(unit_in_name("Time (ms)"), TimeFormat::kMilliseconds);
  EXPECT_EQ(unit_in_name("arrival_s"), TimeFormat::kSeconds);
  EXPECT_EQ(unit_in_name("start-us"), TimeFormat::kMicroseconds);
  EXPECT_EQ(unit_in_name("ts_nanos"), TimeFormat::kNanoseconds);
  EXPECT_EQ(unit_in_name("timestamp"), TimeFormat::kAuto);
  EXPECT_EQ(unit_in_name("s"), TimeFormat::kAuto);
}

TEST(TraceTimes, BehindTheSampleAreReadInTheSameFormat) {
  std::string text = "timestamp,input_tokens,output_tokens\n";
  for (int i = 0; i < 3000; ++i) text += std::to_string(1794992400181 + i * 1000) + ",1,1\n";
  EXPECT_EQ(read_text(text).value().span(), seconds{2999});
  EXPECT_EQ(message_of(text + "x,1,1\n"),
            "t.csv:3002: timestamp \"x\" is not a number of milliseconds; correct the row, or skip such rows with "
            "--skip-bad-rows");
}

}  // namespace
}  // namespace penstock::workload
