#include "telemetry/metric_family.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <vector>

#include "telemetry/exposition_writer.h"

namespace penstock::telemetry {
namespace {

using namespace std::string_literals;
using core::protobuf::Field;
using core::protobuf::Reader;

std::vector<Field> fields_of(std::string_view message) {
  Reader reader{message};
  std::vector<Field> fields;
  while (const auto field = reader.next()) fields.push_back(*field);
  EXPECT_TRUE(reader.is_valid());
  return fields;
}

std::vector<Field> fields_of(std::string_view message, std::uint32_t number) {
  std::vector<Field> fields = fields_of(message);
  std::erase_if(fields, [&](const Field& field) { return field.number != number; });
  return fields;
}

double real_of(const Field& field) { return std::bit_cast<double>(field.value); }

template <class Write>
std::string written(Write write) {
  std::string bytes;
  ExpositionWriter writer{bytes, ExpositionFormat::kProtobuf};
  write(writer);
  writer.finish();
  return bytes;
}

TEST(MetricFamily, HasTheBytesOfTheSpecification) {
  const std::string bytes = written([](ExpositionWriter& writer) {
    writer.family("empty_total", "counter", "No sample.");
    writer.family("a_total", "counter", "A.");
    writer.add(2.0);
    writer.family("up", "gauge", "U.");
    writer.add(1.0, {{"t", "a\"b\\\n"}, {"m", ""}});
  });
  EXPECT_EQ(bytes,
            // Length; name, help, type counter, metric with a counter of 2.
            "\x1c\x0a\x07"s + "a_total" + "\x12\x02"s + "A." + "\x18\x00"s + "\x22\x0b\x1a\x09\x09\0\0\0\0\0\0\0\x40"s +
                // Name, help, type gauge, metric with two labels and a gauge of 1.
                "\x2a\x0a\x02"s + "up" + "\x12\x02"s + "U." + "\x18\x01"s + "\x22\x1e\x0a\x0a\x0a\x01t\x12\x05"s +
                "a\"b\\\n" + "\x0a\x05\x0a\x01m\x12\x00\x12\x09\x09\0\0\0\0\0\0\xf0\x3f"s);
}

TEST(MetricFamily, HasClassicAndNativeBuckets) {
  const std::string bytes = written([](ExpositionWriter& writer) {
    Histogram classic{std::vector{0.5}};
    classic.add(0.25);
    classic.add(2.0, 2);
    NativeHistogram native;
    native.zero_count = 1;
    native.first = -16;
    native.counts.assign(25, 0);
    native.counts[0] = 1;   // 0.25
    native.counts[24] = 2;  // 2.0
    writer.family("t", "histogram", "T.");
    writer.samples("", classic, &native);
  });
  EXPECT_EQ(
      bytes,
      "\x42\x0a\x01t\x12\x02T.\x18\x04\x22\x37\x3a\x35"s                     // metric, histogram
      "\x08\x04\x11\0\0\0\0\0\0\x11\x40"s                                    // count 4, sum 4.25
      "\x1a\x0b\x08\x01\x11\0\0\0\0\0\0\xe0\x3f"s                            // classic bucket: 1 up to 0.5
      "\x28\x06\x31\0\0\0\0\0\0\xf0\x3e\x38\x01"s                            // schema 3, threshold 2^-16, zero count 1
      "\x62\x04\x08\x1f\x10\x01\x62\x04\x08\x2e\x10\x01\x6a\x02\x02\x02"s);  // spans (-16, 1), (23, 1); deltas 1, 1
}

TEST(MetricFamily, ClassicBucketsAloneAreNoNativeHistogram) {
  const std::string bytes = written([](ExpositionWriter& writer) {
    Histogram classic{std::vector{0.5, 1.0}};
    classic.add(0.25, 3);
    writer.histogram("t", "T.", "x=\"1\"", classic);
  });
  const auto metric = fields_of(std::string_view{bytes}.substr(1), 4);
  ASSERT_EQ(metric.size(), 1U);
  const auto histogram = fields_of(metric[0].bytes, 7);
  ASSERT_EQ(histogram.size(), 1U);
  EXPECT_EQ(fields_of(histogram[0].bytes, 1).at(0).value, 3U);
  EXPECT_EQ(fields_of(histogram[0].bytes, 3).size(), 2U);
  for (const std::uint32_t number : {5U, 6U, 7U, 12U, 13U}) EXPECT_TRUE(fields_of(histogram[0].bytes, number).empty());
}

TEST(MetricFamily, ASummaryIsOneMetricForEachSeries) {
  const std::string bytes = written([](ExpositionWriter& writer) {
    writer.family("s", "summary", "S.");
    for (const std::string_view model : {"a", "b"}) {
      writer.add(1.5, {{"model", model}, {"quantile", "0.5"}});
      writer.add(2.5, {{"model", model}, {"quantile", "0.99"}});
      writer.add(7.0, {{"model", model}}, "_sum");
      writer.add(4.0, {{"model", model}}, "_count");
    }
    writer.family("bare", "summary", "B.");
    writer.add(1.0, {{"quantile", "0.5"}});
    writer.add(3.0, {}, "_sum");
    writer.add(2.0, {}, "_count");
  });
  const auto length = (static_cast<std::size_t>(bytes[0]) & 0x7f) | static_cast<std::size_t>(bytes[1]) << 7;
  const std::string_view first = std::string_view{bytes}.substr(2, length);
  const auto metrics = fields_of(first, 4);
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(fields_of(fields_of(metrics[1].bytes, 1).at(0).bytes, 2).at(0).bytes, "b");
  const std::string_view summary = fields_of(metrics[1].bytes, 4).at(0).bytes;
  EXPECT_EQ(fields_of(summary, 1).at(0).value, 4U);
  EXPECT_EQ(real_of(fields_of(summary, 2).at(0)), 7.0);
  const auto quantiles = fields_of(summary, 3);
  ASSERT_EQ(quantiles.size(), 2U);
  EXPECT_EQ(real_of(fields_of(quantiles[1].bytes, 1).at(0)), 0.99);
  EXPECT_EQ(real_of(fields_of(quantiles[1].bytes, 2).at(0)), 2.5);
  const auto bare = fields_of(std::string_view{bytes}.substr(2 + length + 1), 4);
  ASSERT_EQ(bare.size(), 1U);
  EXPECT_TRUE(fields_of(bare[0].bytes, 1).empty());
}

}  // namespace
}  // namespace penstock::telemetry
