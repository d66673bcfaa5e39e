#include "gateway/keys.h"

#include <gtest/gtest.h>

namespace penstock::gateway {
namespace {

TEST(KeyRing, FindsTheTenantOfAKey) {
  KeyRing ring;
  ASSERT_TRUE(ring.add("sk-one", {0}));
  ASSERT_TRUE(ring.add("sk-two", {1, "TWO"}));
  ASSERT_TRUE(ring.add("sk-three", {1}));
  EXPECT_EQ(ring.owner_of("sk-one")->tenant, 0U);
  EXPECT_EQ(ring.owner_of("sk-two")->tenant, 1U);
  EXPECT_EQ(ring.owner_of("sk-three")->tenant, 1U);
  EXPECT_EQ(ring.owner_of("sk-two")->name, "TWO");
  EXPECT_EQ(ring.owner_of("sk-three")->name, "");
}

TEST(KeyRing, RejectsOtherKeys) {
  KeyRing ring;
  EXPECT_EQ(ring.owner_of("sk-one"), nullptr);
  ASSERT_TRUE(ring.add("sk-one", {0}));
  EXPECT_EQ(ring.owner_of("sk-on"), nullptr);
  EXPECT_EQ(ring.owner_of("sk-one "), nullptr);
  EXPECT_EQ(ring.owner_of(""), nullptr);
}

TEST(KeyRing, AWrongKeyIsNotAnonymousWhereThereAreKeys) {
  KeyRing ring;
  const KeyOwner anonymous{7};
  EXPECT_EQ(ring.owner_or("any", &anonymous)->tenant, 7U);
  ASSERT_TRUE(ring.add("sk-one", {0}));
  EXPECT_EQ(ring.owner_or("sk-one", &anonymous)->tenant, 0U);
  EXPECT_EQ(ring.owner_or("any", &anonymous), nullptr);
  EXPECT_EQ(ring.owner_or("", &anonymous)->tenant, 7U);
  EXPECT_EQ(ring.owner_or("", nullptr), nullptr);
}

TEST(KeyRing, RefusesAKeyOfTwoTenantsWithoutRepeatingIt) {
  KeyRing ring;
  ASSERT_TRUE(ring.add("sk-secret", {0}));
  const auto again = ring.add("sk-secret", {1});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message().find("sk-secret"), std::string::npos);
  EXPECT_FALSE(ring.add("", {0}));
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
