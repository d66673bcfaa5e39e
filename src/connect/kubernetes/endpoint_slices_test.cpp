#include "connect/kubernetes/endpoint_slices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

TEST(EndpointSlices, AreReadWithPortsAndConditions) {
  const EndpointSlice slice = parse_endpoint_slice(
      {{"metadata", {{"name", "chat-x7"}}},
       {"addressType", "IPv4"},
       {"ports",
        {{{"name", "http"}, {"port", 8000}, {"protocol", "TCP"}},
         {{"name", "all"}},
         {{"name", "big"}, {"port", 70000}}}},
       {"endpoints",
        {{{"addresses", {"10.0.0.1", "10.0.0.9"}},
          {"conditions", {{"ready", true}, {"serving", true}, {"terminating", false}}},
          {"targetRef", {{"kind", "Pod"}, {"name", "chat-1"}}}},
         {{"addresses", {"10.0.0.2"}}, {"conditions", {{"ready", false}, {"terminating", true}}}},
         {{"addresses", {"10.0.0.3"}}, {"conditions", {{"ready", nullptr}}}, {"targetRef", {{"kind", "Node"}}}},
         {{"addresses", Json::array()}}}}});
  ASSERT_EQ(slice.ports.size(), 1U);
  EXPECT_EQ(slice.ports[0].name, "http");
  EXPECT_EQ(slice.ports[0].port, 8000);
  ASSERT_EQ(slice.endpoints.size(), 3U);
  EXPECT_EQ(slice.endpoints[0].pod, "chat-1");
  EXPECT_EQ(slice.endpoints[0].address, "10.0.0.1");
  EXPECT_TRUE(slice.endpoints[0].is_ready && !slice.endpoints[0].is_terminating);
  EXPECT_TRUE(!slice.endpoints[1].is_ready && slice.endpoints[1].is_terminating);
  EXPECT_TRUE(slice.endpoints[2].is_ready) << "an unknown readiness counts as ready";
  EXPECT_EQ(slice.endpoints[2].pod, "");
  for (const Json& odd :
       {Json{}, Json("x"), Json{{"endpoints", 7}, {"ports", {1, "x"}}}, Json{{"endpoints", {1, {{"addresses", {1}}}}}}})
    EXPECT_TRUE(parse_endpoint_slice(odd).endpoints.empty());
}

}  // namespace
}  // namespace penstock::connect
