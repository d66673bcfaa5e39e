#include "net/system_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

namespace penstock::net {
namespace {

std::optional<std::uint64_t> first_number_in(const std::string& file) {
  std::ifstream in{file};
  std::string word;
  in >> word;
  std::uint64_t number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec != std::errc{}) return std::nullopt;  // "max" means no limit.
  return number;
}

// The smallest limit of a control group and the groups above it.
std::uint64_t group_limit(const std::string& mount, std::string path, const std::string& file) {
  std::uint64_t limit = UINT64_MAX;
  for (;;) {
    if (const auto number = first_number_in(mount + path + "/" + file)) limit = std::min(limit, *number);
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || path == "/") return limit;
    path.erase(slash);
  }
}

std::uint64_t control_group_memory(const std::string& root) {
  std::uint64_t limit = UINT64_MAX;
  std::ifstream in{root + "/proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") limit = std::min(limit, group_limit(root + "/sys/fs/cgroup", path, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos)
      limit = std::min(limit, group_limit(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
  }
  return limit;
}

std::uint64_t address_space_left(const std::string& root) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t used = first_number_in(root + "/proc/self/statm").value_or(0) * page;
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, used);
}

}  // namespace

std::uint64_t usable_memory(const std::string& root) {
  const std::uint64_t physical =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min({physical, control_group_memory(root), address_space_left(root)});
}

}  // namespace penstock::net
