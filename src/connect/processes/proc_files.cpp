#include "connect/processes/proc_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace penstock::connect {

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ProcStat> parse_stat(std::string_view text) {
  // proc(5) counts fields from 1, and the first two are the process id and the name.
  constexpr int kState = 3, kGroup = 5, kStartTime = 22;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  text.remove_prefix(name_end + 1);
  ProcStat stat;
  for (int field = kState; field <= kStartTime; ++field) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    if (field == kState) stat.state = word.front();
    if (field == kGroup || field == kStartTime) {
      const auto value = number<std::int64_t>(word);
      if (!value || *value < 0) return std::nullopt;
      if (field == kGroup) stat.group = *value;
      if (field == kStartTime) stat.started_ticks = static_cast<std::uint64_t>(*value);
    }
    text.remove_prefix(word.size());
  }
  return stat;
}

std::optional<ProcStat> read_stat(std::int64_t pid) { return parse_stat(read_text(fmt::format("/proc/{}/stat", pid))); }

std::vector<std::int64_t> process_numbers() {
  std::vector<std::int64_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator at{"/proc", error}, end; !error && at != end; at.increment(error))
    if (const auto pid = number<std::int64_t>(at->path().filename().string())) numbers.push_back(*pid);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool has_variable(std::int64_t pid, std::string_view name, std::string_view value) {
  const std::string wanted = fmt::format("{}={}", name, value);
  const std::string all = read_text(fmt::format("/proc/{}/environ", pid));
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    if (std::string_view{all}.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace penstock::connect
