#include "telemetry/exposition_format.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::telemetry {
namespace {

const std::string kName = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

bool chooses_protobuf(std::string_view accept) { return negotiate_format(accept) == ExpositionFormat::kProtobuf; }

TEST(ExpositionFormat, PrometheusGetsProtobufIfItPrefersIt) {
  // Versions 2.42 and 3.0 with native histograms.
  EXPECT_TRUE(chooses_protobuf(kName + ",application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;"
                                       "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(chooses_protobuf(kName + ";escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=1.0.0;"
                                       "escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"));
  // Without them.
  EXPECT_FALSE(
      chooses_protobuf("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"));
}

TEST(ExpositionFormat, TheDefaultIsText) {
  for (const std::string& accept :
       {std::string{}, std::string{"*/*"}, std::string{"text/html, */*;q=0.8"}, std::string{"application/*"},
        std::string{"application/vnd.google.protobuf"},
        std::string{"application/vnd.google.protobuf;encoding=delimited"},
        std::string{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"},
        std::string{"application/vnd.google.protobuf;proto=other.Message;encoding=delimited"}})
    EXPECT_FALSE(chooses_protobuf(accept)) << accept;
}

TEST(ExpositionFormat, WeightsDecide) {
  EXPECT_FALSE(chooses_protobuf(kName + ";q=0"));
  EXPECT_FALSE(chooses_protobuf(kName + ";q=0.000, */*"));
  EXPECT_FALSE(chooses_protobuf(kName + ";q=0.5, text/plain"));
  EXPECT_FALSE(chooses_protobuf(kName + ";q=0.5, text/*;q=0.501"));
  EXPECT_FALSE(chooses_protobuf(kName + ";q=0.5, */*;q=0.8"));
  EXPECT_TRUE(chooses_protobuf("text/plain;q=0.5, " + kName + ";q=0.9"));
  EXPECT_TRUE(chooses_protobuf("text/plain, " + kName)) << "a tie: it has more";
  EXPECT_TRUE(chooses_protobuf(kName + ";q=0.3, text/plain;q=0.2, */*;q=1")) << "the exact range counts";
  EXPECT_TRUE(chooses_protobuf("text/plain;version=1.0.0, " + kName + ";q=0.1")) << "no version of the text format";
  for (const char* weight : {"2", "-1", "1.001", "0.5555", ".5", "x", "", "0,5"})
    EXPECT_FALSE(chooses_protobuf(kName + ";q=" + weight)) << weight;
  for (const char* weight : {"1", "1.", "1.000", "0.001", "0.5"}) EXPECT_TRUE(chooses_protobuf(kName + ";q=" + weight));
}

TEST(ExpositionFormat, NamesIgnoreCaseBlanksAndQuotes) {
  EXPECT_TRUE(chooses_protobuf(
      " Application/Vnd.Google.Protobuf ; Proto=\"io.prometheus.client.MetricFamily\" ;\tENCODING=delimited ; Q=1 "));
  EXPECT_FALSE(chooses_protobuf("application/json;x=\"," + kName + "\""));
  EXPECT_FALSE(chooses_protobuf("application/json;x=\"\\\"," + kName + "\""));
  EXPECT_TRUE(chooses_protobuf("application/json;x=\"a;b\"," + kName));
  EXPECT_TRUE(chooses_protobuf(",,;;=, ," + kName));
  EXPECT_FALSE(chooses_protobuf("\"" + kName));
}

TEST(ExpositionFormat, ContentTypesAreThoseOfPrometheus) {
  EXPECT_EQ(content_type(ExpositionFormat::kText), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_TRUE(chooses_protobuf(content_type(ExpositionFormat::kProtobuf)));
}

}  // namespace
}  // namespace penstock::telemetry
