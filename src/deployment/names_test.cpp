#include "deployment/names.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::deployment {
namespace {

TEST(Names, ServicesHaveLabelsOfDnsThatBeginWithALetter) {
  for (const char* good : {"a", "penstock-gateway", "p1", "a--b"}) EXPECT_TRUE(check_dns_label(good)) << good;
  for (const char* bad : {"", "1a", "-a", "a-", "A", "a.b", "a_b", "a\nb", "a b", "\xc3\xa4"})
    EXPECT_FALSE(check_dns_label(bad)) << bad;
  EXPECT_TRUE(check_dns_label(std::string(63, 'a')));
  EXPECT_FALSE(check_dns_label(std::string(64, 'a')));
  EXPECT_FALSE(check_dns_label(std::string(56, 'a'), 55));
}

TEST(Names, DeploymentsMayHaveDots) {
  for (const char* good : {"a", "1", "qwen3-32b.decode", "0.0"}) EXPECT_TRUE(check_dns_name(good)) << good;
  for (const char* bad : {"", ".", "a.", ".a", "a..b", "a.-b", "Qwen/Qwen3", "a_b"})
    EXPECT_FALSE(check_dns_name(bad)) << bad;
}

TEST(Names, LabelValuesHaveNoSlash) {
  for (const char* good : {"a", "A_b.c-1", "0"}) EXPECT_TRUE(check_label_value(good)) << good;
  for (const char* bad : {"", "Qwen/Qwen3-32B", "-a", "a.", "a b", "a:b"}) EXPECT_FALSE(check_label_value(bad)) << bad;
  EXPECT_FALSE(check_label_value(std::string(64, 'a')));
}

TEST(Names, ImagesAndVariables) {
  for (const char* good : {"penstock:0.1.0", "registry.example:5000/a/b@sha256:00"}) EXPECT_TRUE(check_image(good));
  for (const char* bad : {"", " a", "a\n", "a;b", "-a"}) EXPECT_FALSE(check_image(bad)) << bad;
  for (const char* good : {"https://wiki.example.org/penstock", "http://docs:8080/a?b=c"})
    EXPECT_TRUE(check_link(good)) << good;
  for (const char* bad : {"", "docs", "https://", "ftp://a", "https://a b", "https://a\n", "https://a#b", "https://a'"})
    EXPECT_FALSE(check_link(bad)) << bad;
  for (const char* good : {"A", "_a1"}) EXPECT_TRUE(check_variable(good)) << good;
  for (const char* bad : {"", "1a", "a-b", "a=b", "a b"}) EXPECT_FALSE(check_variable(bad)) << bad;
}

TEST(Names, ResourcesAndQuantitiesOfPods) {
  for (const char* good : {"nvidia.com/gpu", "nvidia.com/mig-3g.40gb", "amd.com/gpu"})
    EXPECT_TRUE(check_resource(good)) << good;
  for (const char* bad : {"gpu", "", "/gpu", "nvidia.com/", "nvidia.com/a b", "nvidia.com/a/b", "NVIDIA.com/gpu"})
    EXPECT_FALSE(check_resource(bad)) << bad;
  for (const char* good : {"pool", "cloud.google.com/gke-nodepool"}) EXPECT_TRUE(check_label_key(good)) << good;
  for (const char* bad : {"", "a/b/c", "-a", "a b"}) EXPECT_FALSE(check_label_key(bad)) << bad;
  for (const char* good : {"4", "0.5", "500m", "64Gi", "1.5T"}) EXPECT_TRUE(check_quantity(good)) << good;
  for (const char* bad : {"", "0", "0.0Gi", "Gi", "4 Gi", "4GB", "-1", "1.2.3", ".5", "5."})
    EXPECT_FALSE(check_quantity(bad)) << bad;
}

}  // namespace
}  // namespace penstock::deployment
