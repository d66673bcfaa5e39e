#include "net/system_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace penstock::net {
namespace {

class SystemMemory : public ::testing::Test {
 protected:
  SystemMemory()
      : root_{std::filesystem::path{::testing::TempDir()} / ("system_memory_" + std::to_string(::getpid()))} {
    std::filesystem::remove_all(root_);
  }
  ~SystemMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream{root_ / file} << text;
  }
  const std::filesystem::path root_;
};

TEST_F(SystemMemory, WithoutALimitIsThePhysicalMemory) {
  const std::uint64_t physical = usable_memory(root_.string());
  EXPECT_GT(physical, 1u << 20);
  write("proc/self/cgroup", "0::/a\n");
  write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(usable_memory(root_.string()), physical);
}

TEST_F(SystemMemory, IsTheSmallestLimitOfTheGroupAndThoseAboveIt) {
  write("proc/self/cgroup", "0::/a/b/c\n");
  write("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.max", "1048576\n");
  write("sys/fs/cgroup/a/memory.max", "2097152\n");
  EXPECT_EQ(usable_memory(root_.string()), 1'048'576u);
}

TEST_F(SystemMemory, ReadsTheLimitOfTheRootThatAContainerSees) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "3145728\n");
  EXPECT_EQ(usable_memory(root_.string()), 3'145'728u);
}

TEST_F(SystemMemory, ReadsVersionOne) {
  write("proc/self/cgroup", "5:cpu,memory:/docker/x\n4:freezer:/\n0::/\n");
  write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "4194304\n");
  EXPECT_EQ(usable_memory(root_.string()), 4'194'304u);
}

}  // namespace
}  // namespace penstock::net
