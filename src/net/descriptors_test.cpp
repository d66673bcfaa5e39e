#include "net/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

namespace penstock::net {
namespace {

// Current size of the kernel's table, from /proc.
std::uint64_t table_size() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (std::uint64_t size = 0; word == "FDSize:" && status >> size) return size;
  return 0;
}

TEST(Descriptors, AreRaisedToTheHardLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(prepare_descriptors(100), before.rlim_max);
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Descriptors, TheKernelTableGrowsAtOnce) {
  ASSERT_LT(table_size(), 4096u);
  const std::uint64_t may = prepare_descriptors(4096);
  EXPECT_GE(table_size(), std::min<std::uint64_t>(may, 4096));
  prepare_descriptors(0);
  EXPECT_GE(table_size(), std::min<std::uint64_t>(may, 4096));
}

}  // namespace
}  // namespace penstock::net
