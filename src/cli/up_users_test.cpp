#include "cli/up_users.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace penstock::cli {
namespace {

UpUsers users_with(const std::string& yaml) {
  const std::string path =
      ::testing::TempDir() + "penstock-" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml";
  std::ofstream{path} << yaml;
  UpUsers users = users_of(path);
  std::filesystem::remove(path);
  return users;
}

using Words = std::vector<std::string>;

TEST(UpUsers, AreTheTenantsWithAKeyInTheConfiguration) {
  const UpUsers users = users_with(
      "model: m-8b\ntenants: [{name: a, keys: [k1, k2]}, {name: demo, keys: [k3]}, {name: shop, keys: [k4]}]\n");
  EXPECT_EQ(users.text(), "model m-8b, key k3");
  EXPECT_EQ(users.load_arguments(), (Words{"--tenant", "a=k1:30%", "--tenant", "shop=k4:50%"}));
}

TEST(UpUsers, OfOneTenantSendTheLoadAsThisTenant) {
  const UpUsers users = users_with("tenants: [{name: demo, keys: [k]}]\n");
  EXPECT_EQ(users.text(), "model penstock-sim, key k");
  EXPECT_EQ(users.load_arguments(), (Words{"--tenant", "demo=k:30%"}));
}

TEST(UpUsers, WithoutTenantsNeedNoKey) {
  const UpUsers users = users_with("deployments: [{name: a, model: a-8b}, {name: b, model: b-8b}]\n");
  EXPECT_EQ(users.text(), "model a-8b or b-8b, no key needed");
  EXPECT_EQ(users.load_arguments(), Words{});
}

TEST(UpUsers, KnowThatKeysAreElsewhere) {
  EXPECT_EQ(users_with("tenants: [{name: a, key_envs: [A_KEY]}]\n").text(),
            "model penstock-sim, key of one of your tenants");
}

TEST(UpUsers, OfAnInvalidConfigurationAreThoseOfTheDefault) {
  EXPECT_EQ(users_with("tenants: 3\n").text(), "model penstock-sim, no key needed");
  EXPECT_EQ(users_of("/no/such/file").models, Words{});
}

}  // namespace
}  // namespace penstock::cli
