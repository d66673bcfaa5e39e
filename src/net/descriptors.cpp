#include "net/descriptors.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace penstock::net {

std::uint64_t prepare_descriptors(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t held = std::min<std::uint64_t>(wanted, limit.rlim_cur);
  if (const int any = ::eventfd(0, EFD_CLOEXEC); any >= 0) {
    // The table never shrinks.
    if (const int last = ::fcntl(any, F_DUPFD_CLOEXEC, static_cast<int>(std::max<std::uint64_t>(held, 1) - 1));
        last >= 0)
      ::close(last);
    ::close(any);
  }
  return limit.rlim_cur;
}

DescriptorReserve::~DescriptorReserve() {
  for (const int descriptor : held_) ::close(descriptor);
}

bool DescriptorReserve::release_one() {
  if (held_.empty()) return false;
  ::close(held_.back());
  held_.pop_back();
  return true;
}

void DescriptorReserve::refill() {
  while (held_.size() < wanted_) {
    const int descriptor = ::eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) return;
    held_.push_back(descriptor);
  }
}

}  // namespace penstock::net
