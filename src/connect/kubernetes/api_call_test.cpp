#include "connect/kubernetes/api_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

const ApiCall kPatch = set_scale_call(kDeployments, "prod", "decode", 3, "340");

TEST(ApiCall, HasThePathOfItsResource) {
  EXPECT_EQ(target_of(get_call(kPods, "prod", "p-0")), "/api/v1/namespaces/prod/pods/p-0");
  EXPECT_EQ(target_of(get_call({"", "v1", "nodes"}, "", "n")), "/api/v1/nodes/n");
  EXPECT_EQ(target_of(get_scale_call(kDeployments, "prod", "d")), "/apis/apps/v1/namespaces/prod/deployments/d/scale");
  EXPECT_EQ(target_of(get_call(kPods, "a/../b", "c?d")), "/api/v1/namespaces/a%2F..%2Fb/pods/c%3Fd");
}

TEST(ApiCall, ScalesWithTheVersionThatWasRead) {
  EXPECT_EQ(method_of(kPatch), "PATCH");
  EXPECT_EQ(target_of(kPatch), "/apis/apps/v1/namespaces/prod/deployments/decode/scale?fieldManager=penstock");
  EXPECT_EQ(kPatch.content_type, "application/merge-patch+json");
  EXPECT_EQ(kPatch.body, R"({"metadata":{"resourceVersion":"340"},"spec":{"replicas":3}})");
}

TEST(ApiCall, AppliesWithAndWithoutForce) {
  const Json object{{"apiVersion", "v1"}, {"kind", "ConfigMap"}};
  const ApiResource maps{"", "v1", "configmaps"};
  const ApiCall polite = apply_call(maps, "n", "m", object, false), force = apply_call(maps, "n", "m", object, true);
  EXPECT_EQ(polite.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(target_of(polite), "/api/v1/namespaces/n/configmaps/m?fieldManager=penstock");
  EXPECT_EQ(target_of(force), "/api/v1/namespaces/n/configmaps/m?fieldManager=penstock&force=true");
}

TEST(ApiError, NamesVerbResourceAndNamespaceAndTheRoleToAdd) {
  const ApiError error =
      api_error_of(kPatch, 403,
                   R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)"
                   R"("message":"deployments.apps \"decode\" is forbidden: User \"x\" cannot patch resource )"
                   R"(\"deployments/scale\" in API group \"apps\" in the namespace \"prod\"","reason":"Forbidden",)"
                   R"("details":{"name":"decode","group":"apps","kind":"deployments"},"code":403})");
  EXPECT_EQ(error.reason, ApiReason::kForbidden);
  EXPECT_EQ(error.message(),
            "patch deployments/scale \"decode\" in namespace \"prod\": Forbidden (403): deployments.apps \"decode\" is "
            "forbidden: User \"x\" cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace "
            "\"prod\"; add to the Role: {apiGroups: [\"apps\"], resources: [\"deployments/scale\"], verbs: "
            "[\"patch\"]}");
  const ApiCall all{"list", {"", "v1", "nodes"}};
  EXPECT_NE(api_error_of(all, 403, "").message().find("add to the ClusterRole"), std::string::npos);
}

TEST(ApiError, HasTheReasonOfTheServerOrOfTheStatus) {
  const auto reason = [](int status, const std::string& name) {
    return api_error_of(kPatch, status, Json{{"kind", "Status"}, {"reason", name}, {"code", status}}.dump()).reason;
  };
  EXPECT_EQ(reason(409, "Conflict"), ApiReason::kConflict);
  EXPECT_EQ(reason(409, "AlreadyExists"), ApiReason::kAlreadyExists);
  EXPECT_EQ(reason(410, "Expired"), ApiReason::kExpired);
  EXPECT_EQ(reason(422, "Invalid"), ApiReason::kRejected);
  EXPECT_EQ(reason(500, "InternalError"), ApiReason::kServerError);
  // A proxy's page instead of a Status.
  EXPECT_EQ(api_error_of(kPatch, 502, "<html>Bad\r\nGateway</html>").reason, ApiReason::kServerError);
  EXPECT_EQ(api_error_of(kPatch, 401, "").reason, ApiReason::kUnauthorized);
  EXPECT_EQ(api_error_of(kPatch, 404, "[]").message(),
            "patch deployments/scale \"decode\" in namespace \"prod\": status 404");
}

TEST(ApiError, KnowsWhenToTryAgain) {
  using std::chrono::seconds;
  EXPECT_EQ(api_error_of(kPatch, 429, "storage is (re)initializing", "1").retry_after, seconds{1});
  EXPECT_EQ(api_error_of(kPatch, 429, R"({"details":{"retryAfterSeconds":2}})").retry_after, seconds{2});
  EXPECT_EQ(api_error_of(kPatch, 429, "", "999999").retry_after, seconds{300});
  for (const char* text : {"", "-1", "soon", "1.5", "99999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT"})
    EXPECT_EQ(api_error_of(kPatch, 429, "", text).retry_after, std::nullopt) << text;
}

TEST(ApiScale, ReadsCountsSelectorAndVersion) {
  const auto read = [](const char* text) { return parse_scale(kPatch, Json::parse(text)); };
  const auto scale =
      read(R"({"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d",)"
           R"("resourceVersion":"340"},"spec":{"replicas":2},"status":{"replicas":1,"selector":"app=d"}})");
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->replicas, 2U);
  EXPECT_EQ(scale->observed, 1U);
  EXPECT_EQ(scale->selector, "app=d");
  EXPECT_EQ(scale->resource_version, "340");
  // The field is left out at 0. What the status lacks is unknown.
  const auto none = read(R"({"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{}})");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->replicas, 0U);
  EXPECT_EQ(none->observed, std::nullopt);
  for (const char* text :
       {R"({"kind":"Scale","metadata":{"resourceVersion":"1"}})", R"({"kind":"Scale","spec":{"replicas":1}})",
        R"({"kind":"Pod","metadata":{"resourceVersion":"1"},"spec":{"replicas":1}})",
        R"({"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":-1}})",
        R"({"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":1.5}})",
        R"({"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":18446744073709551615}})"})
    EXPECT_FALSE(read(text)) << text;
}

}  // namespace
}  // namespace penstock::connect
