// Raises the limit of file descriptors at start-up.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::net {

// Raises the limit of open descriptors of this process as far as permitted and makes the kernel's table hold `wanted`
// of them. In a process with threads, growing the table blocks the next open() for milliseconds, so this must be called
// before other threads start. Returns the resulting limit, which is below `wanted` if the hard limit is lower.
std::uint64_t prepare_descriptors(std::uint64_t wanted);

// Open descriptors that are given up one at a time when the process has no others. Not thread-safe.
class DescriptorReserve {
 public:
  explicit DescriptorReserve(std::uint32_t count) : wanted_(count) { refill(); }
  ~DescriptorReserve();
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

  [[nodiscard]] bool release_one();  // Returns false if none is left.
  void refill();                     // Takes back what was given up, as far as descriptors are free.

 private:
  std::vector<int> held_;
  std::uint32_t wanted_;
};

}  // namespace penstock::net
