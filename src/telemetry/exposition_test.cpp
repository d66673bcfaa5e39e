#include "telemetry/exposition.h"

#include <gtest/gtest.h>

#include <cmath>

#include "telemetry/exposition_check_testing.h"
#include "telemetry/exposition_writer.h"

namespace penstock::telemetry {
namespace {

TEST(Exposition, ReadsSamplesWithLabelsTimesAndNotes) {
  const std::string_view text =
      "# HELP http_requests_total The \\\\ total.\n"
      "# TYPE http_requests_total counter\n"
      "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
      "http_requests_total{ method = \"po\\\"st\" , code=\"4,00}\", }    3 -5\n"
      "\n"
      "# just a comment\n"
      "  vllm:x 1.458255915e9\n"
      "empty{} +Inf\n"
      "nan\tNaN\n"
      "low -inf\n";
  const auto read = parse_exposition(text, "http://a/metrics");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->samples.size(), 6U);
  EXPECT_EQ(read->samples[0].name, "http_requests_total");
  EXPECT_EQ(read->samples[0].value, 1027.0);
  EXPECT_EQ(read->samples[0].timestamp_ms, 1395066363000);
  EXPECT_EQ(read->samples[0].line, 3U);
  EXPECT_EQ(find_label(read->samples[0].labels, "code"), "200");
  EXPECT_FALSE(find_label(read->samples[0].labels, "cod"));
  EXPECT_EQ(unescape_label(find_label(read->samples[1].labels, "method").value()), "po\"st");
  EXPECT_EQ(find_label(read->samples[1].labels, "code"), "4,00}");
  EXPECT_EQ(read->samples[2].name, "vllm:x");
  EXPECT_TRUE(std::isinf(read->samples[3].value));
  EXPECT_TRUE(std::isnan(read->samples[4].value));
  EXPECT_LT(read->samples[5].value, 0.0);
  ASSERT_EQ(read->notes.size(), 2U);
  EXPECT_EQ(read->notes[0].help, "The \\\\ total.");
  EXPECT_EQ(read->notes[1].type, MetricType::kCounter);
}

TEST(Exposition, NamesTheLineThatIsWrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a 1\nb", "w:2: the last line has no end"},
      {"a 1\n1b 2\n", "w:2: a line that begins with no metric's name"},
      {"a-b 1\n", "w:1: a metric's name with a character"},
      {"a\n", "w:1: a metric's name with a character that it may not have, or no value"},
      {"a \n", "w:1: a value that is no number"},
      {"a 0x1\n", "w:1: a value that is no number"},
      {"a 1e\n", "w:1: a value that is no number"},
      {"a infinit\n", "w:1: a value that is no number"},
      {"a --1\n", "w:1: a value that is no number"},
      {"a 1 2.5\n", "w:1: a time that is no integer"},
      {"a 1 2 3\n", "w:1: something after the time"},
      {"a{b} 1\n", "w:1: a label without `=`"},
      {"a{b=c} 1\n", "w:1: a label whose value has no quotes"},
      {"a{b=\"c} 1\n", "w:1: a label whose value has no end"},
      {"a{b=\"\\t\"} 1\n", "w:1: an escape that there is not"},
      {"a{b=\"c\\\n", "w:1: an escape that there is not"},
      {"a{b=\"c\"d=\"e\"} 1\n", "w:1: labels without a comma"},
      {"a{b=\"c\"\n", "w:1: labels without a comma"},
      {"a{:b=\"c\"} 1\n", "w:1: a label without a name"},
      {"# TYPE a thing\n", "w:1: a type that there is not"},
      {"# TYPE a counter x\n", "w:1: something after the type"},
      {"# HELP\n", "w:1: a comment that names no metric"},
  };
  for (const auto& [text, error] : cases) {
    const auto read = parse_exposition(text, "w");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().message().starts_with(error)) << read.error().message();
  }
}

TEST(Exposition, HasLimits) {
  EXPECT_FALSE(parse_exposition(std::string(kExpositionBytesMax + 1, '\n'), "w"));
  std::string many;
  many.reserve((kExpositionSamplesMax + 1) * 4);
  for (std::size_t i = 0; i < kExpositionSamplesMax; ++i) many += "a 1\n";
  EXPECT_TRUE(parse_exposition(many, "w"));
  many += "a 1\n";
  EXPECT_FALSE(parse_exposition(many, "w"));
}

TEST(ExpositionWriter, WritesTheHeadOfAFamilyWithItsFirstSample) {
  std::string text;
  ExpositionWriter writer(text);
  writer.family("empty_total", "counter", "No sample.");
  writer.family("up", "gauge", "Help.");
  writer.add(1.0);
  writer.add(0.5, {{"tenant", "a\"b"}, {"model", "m"}});
  Histogram latency{std::vector{0.5}};
  latency.add(0.25);
  latency.add(2.0);
  writer.histogram("t_seconds", "Times.", "", latency);
  EXPECT_EQ(text,
            "# HELP up Help.\n# TYPE up gauge\nup 1\nup{tenant=\"a\\\"b\",model=\"m\"} 0.5\n"
            "# HELP t_seconds Times.\n# TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.5\"} 1\n"
            "t_seconds_bucket{le=\"+Inf\"} 2\nt_seconds_sum 2.25\nt_seconds_count 2\n");
}

TEST(Exposition, EscapesWhatItUnescapes) {
  const std::string value = "a\"b\\c\nd\\n";
  EXPECT_EQ(escape_label(value), "a\\\"b\\\\c\\nd\\\\n");
  EXPECT_EQ(unescape_label(escape_label(value)), value);
}

std::vector<std::string> faults(const std::string& text) {
  const auto read = parse_exposition(text, "w");
  EXPECT_TRUE(read) << read.error().message();
  return check_exposition(*read);
}

bool has_fault(const std::string& text, std::string_view fault) {
  for (const std::string& one : faults(text))
    if (one.find(fault) != std::string::npos) return true;
  return false;
}

TEST(ExpositionCheck, FindsNothingInAProperText) {
  EXPECT_EQ(
      faults("# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 1\n"
             "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 5\nh_count 3\n"),
      std::vector<std::string>{});
}

TEST(ExpositionCheck, FindsEachFault) {
  const std::string a = "# HELP a A.\n# TYPE a gauge\n", c = "# HELP c C.\n# TYPE c counter\n",
                    h = "# HELP h H.\n# TYPE h histogram\n";
  EXPECT_TRUE(has_fault("b 1\n", "b has neither help nor type"));
  EXPECT_TRUE(has_fault("# TYPE a gauge\na 1\n", "0 lines of help"));
  EXPECT_TRUE(has_fault(a + "# TYPE a gauge\na 1\n", "2 of type"));
  EXPECT_TRUE(has_fault("a 1\n" + a, "comes after line 1"));
  EXPECT_TRUE(has_fault(a + "a 1\na 2\n", "is a duplicate"));
  EXPECT_TRUE(has_fault(a + "a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\n", "is a duplicate"));
  EXPECT_TRUE(has_fault(a + c + "a 1\nc 1\na{x=\"1\"} 2\n", "goes on in a second place"));
  EXPECT_TRUE(has_fault(c + "c 1\n", "ends with _total"));
  EXPECT_TRUE(has_fault("# HELP c_total C.\n# TYPE c_total counter\nc_total -1\n", "a counter is -1"));
  EXPECT_TRUE(has_fault(h + "h_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n", "no bucket le=\"+Inf\""));
  EXPECT_TRUE(has_fault(h + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n", "fewer at le=inf"));
  EXPECT_TRUE(has_fault(h + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n", "counts 2 and has 1"));
  EXPECT_TRUE(has_fault(h + "h_bucket{le=\"+Inf\"} 1\n", "no sum or no count"));
  EXPECT_TRUE(has_fault(h + "h 1\n", "no sample of a histogram"));
}

}  // namespace
}  // namespace penstock::telemetry
