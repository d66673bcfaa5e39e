#include "gateway/keys.h"

#include <gtest/gtest.h>

namespace penstock::gateway {
namespace {

TEST(KeyRing, FindsTheTenantOfAKey) {
  KeyRing ring;
  ASSERT_TRUE(ring.add("sk-one", 0));
  ASSERT_TRUE(ring.add("sk-two", 1));
  ASSERT_TRUE(ring.add("sk-three", 1));
  EXPECT_EQ(ring.tenant_of("sk-one"), 0U);
  EXPECT_EQ(ring.tenant_of("sk-two"), 1U);
  EXPECT_EQ(ring.tenant_of("sk-three"), 1U);
}

TEST(KeyRing, RejectsOtherKeys) {
  KeyRing ring;
  EXPECT_EQ(ring.tenant_of("sk-one"), std::nullopt);
  ASSERT_TRUE(ring.add("sk-one", 0));
  EXPECT_EQ(ring.tenant_of("sk-on"), std::nullopt);
  EXPECT_EQ(ring.tenant_of("sk-one "), std::nullopt);
  EXPECT_EQ(ring.tenant_of(""), std::nullopt);
}

TEST(KeyRing, AWrongKeyIsNotAnonymousWhereThereAreKeys) {
  KeyRing ring;
  EXPECT_EQ(ring.tenant_or("any", 7), 7U);
  ASSERT_TRUE(ring.add("sk-one", 0));
  EXPECT_EQ(ring.tenant_or("sk-one", 7), 0U);
  EXPECT_EQ(ring.tenant_or("any", 7), std::nullopt);
  EXPECT_EQ(ring.tenant_or("", 7), 7U);
  EXPECT_EQ(ring.tenant_or("", std::nullopt), std::nullopt);
}

TEST(KeyRing, RefusesAKeyOfTwoTenantsWithoutRepeatingIt) {
  KeyRing ring;
  ASSERT_TRUE(ring.add("sk-secret", 0));
  const auto again = ring.add("sk-secret", 1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message().find("sk-secret"), std::string::npos);
  EXPECT_FALSE(ring.add("", 0));
}

TEST(BearerKey, IsWhatFollowsTheScheme) {
  EXPECT_EQ(bearer_key("Bearer sk-one"), "sk-one");
  EXPECT_EQ(bearer_key("bearer   sk-one"), "sk-one");
  EXPECT_EQ(bearer_key("Basic c2stb25l"), "");
  EXPECT_EQ(bearer_key("Bearer "), "");
  EXPECT_EQ(bearer_key(""), "");
}

}  // namespace
}  // namespace penstock::gateway
