#include "configuration/loosened_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

// The errors of a reload, one per line, then what it loosens.
std::string reload_of(const std::string& before, const std::string& after) {
  const Configuration in_force = loaded(before);
  Configuration read;
  const options::Table table = configuration_table(read);
  const auto reading = load(read, table, source(after));
  if (!reading) return reading.error().front().message();
  const std::vector<LoosenedLimit> limits = loosened_limits(in_force, read, *reading);
  std::string text;
  for (const core::Error& error : check_loosened(limits)) text += error.message() + "\n";
  for (const LoosenedLimit& limit : limits)
    if (limit.is_given) text += limit.key + " " + limit.before + " " + limit.after + "\n";
  return text;
}

const std::string kTenants = "tenants: [{name: shop, keys: [sk-shop]}]\n";

TEST(LoosenedLimits, AFileWithoutTenantsDoesNotAdmitRequestsWithoutAKeyUnlessItSaysSo) {
  EXPECT_EQ(reload_of(kTenants, "slo: {ttft: 1s}\n"),
            "gateway.anonymous: is not given, so that a reload would change it from false to true; write "
            "gateway.anonymous: true to admit requests without an API key\n");
  EXPECT_EQ(reload_of(kTenants, "gateway: {anonymous: true}\n"), "gateway.anonymous false true\n");
  EXPECT_EQ(reload_of(kTenants, kTenants + "slo: {ttft: 1s}\n"), "");
  EXPECT_EQ(reload_of("slo: {ttft: 1s}\n", kTenants), "");
}

TEST(LoosenedLimits, AuthenticationAndTlsAreNotRemovedWithoutARestart) {
  EXPECT_EQ(reload_of("gateway: {admin_token_file: token}\n", "slo: {ttft: 1s}\n"),
            "gateway.admin_token_file: is not given, so that a reload would change it from token to none; restart to "
            "serve the admin address without authentication\n");
  EXPECT_EQ(reload_of("gateway: {admin_token_file: token}\n", "gateway: {admin_token_env: TOKEN}\n"), "");
  EXPECT_EQ(reload_of("gateway: {tls: {certificate: c.pem, key: k.pem}}\n", "slo: {ttft: 1s}\n"),
            "gateway.tls.certificate: is not given, so that a reload would change it from c.pem to none; restart to "
            "serve plain HTTP\n");
}

TEST(LoosenedLimits, RemovedBoundsDoNotFallBackToLooserDefaults) {
  EXPECT_EQ(reload_of("max_replicas: 4\nplanner: {gpu_budget: 4}\n", "slo: {ttft: 1s}\n"),
            "max_replicas: is not given, so that a reload would change it from 4 to 64; write max_replicas: 64 to "
            "allow them\n"
            "planner.gpu_budget: is not given, so that a reload would change it from 4 to none; write "
            "planner.gpu_budget: 0 to remove the limit\n");
  EXPECT_EQ(reload_of("pools: [{name: a, max_replicas: 4}]\n", "pools: [{name: a}]\n"),
            "pools[0].max_replicas: is not given, so that a reload would change it from 4 to 64; write max_replicas: "
            "64 to allow them\n");
  EXPECT_EQ(reload_of("max_replicas: 4\nplanner: {gpu_budget: 4}\n", "max_replicas: 8\nplanner: {gpu_budget: 0}\n"),
            "max_replicas 4 8\nplanner.gpu_budget 4 none\n");
  EXPECT_EQ(reload_of("max_replicas: 100\n", "slo: {ttft: 1s}\n"), "");  // The default is stricter.
}

TEST(LoosenedLimits, EachDeploymentKeepsItsBounds) {
  const std::string two = "deployments:\n  - {name: chat, model: a, max_replicas: 4}\n  - {name: mail, model: b";
  EXPECT_EQ(reload_of(two + ", max_replicas: 5}\n", two + "}\n"),
            "deployments[1].max_replicas: is not given, so that a reload would change it from 5 to 64; write "
            "max_replicas: 64 to allow them\n");
  EXPECT_EQ(reload_of(two + ", max_replicas: 5}\n", two + ", max_replicas: 6}\n"), "deployments[1].max_replicas 5 6\n");
}

}  // namespace
}  // namespace penstock::configuration
