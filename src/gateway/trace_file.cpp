#include "gateway/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace penstock::gateway {
namespace {

constexpr std::string_view kBegin = R"({"timestamp":)";
constexpr std::uint64_t kLineBytesMax = std::uint64_t{1} << 20;

}  // namespace

TraceFile::TraceFile(TraceFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_max_(other.bytes_max_), file_(std::exchange(other.file_, -1)) {}

void TraceFile::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

core::Error TraceFile::error(std::string_view what) const {
  const std::string reason = std::generic_category().message(errno);
  return {core::ErrorCode::kEnvironment, path_, fmt::format("cannot be {}: {}", what, reason), {}};
}

core::Result<TraceFile> TraceFile::open(std::string path, std::uint64_t bytes_max) {
  TraceFile made{std::move(path), bytes_max};
  if (auto opened = made.reopen(); !opened) return tl::make_unexpected(opened.error());
  std::string begin(kBegin.size(), '\0');
  const ssize_t count = ::pread(made.file_, begin.data(), begin.size(), 0);
  if (count < 0) return tl::make_unexpected(made.error("read"));
  if (count > 0 && begin != kBegin)
    return core::invalid_input(made.path_, "is no trace that a gateway recorded", "name another file");
  if (auto done = made.cut_incomplete_line(); !done) return tl::make_unexpected(done.error());
  return made;
}

core::Result<void> TraceFile::reopen() {
  close();
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file_ < 0) return tl::make_unexpected(error("opened"));
  struct stat status {};
  if (::fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) return {};
  close();
  return core::invalid_input(path_, "is no regular file", "name another file");
}

// A process that ends while it writes may leave a part of a line.
core::Result<void> TraceFile::cut_incomplete_line() const {
  const auto bytes = size();
  if (!bytes || *bytes == 0) return bytes ? core::Result<void>{} : tl::make_unexpected(bytes.error());
  const std::uint64_t from = *bytes - std::min(*bytes, kLineBytesMax);
  std::string end(*bytes - from, '\0');
  if (::pread(file_, end.data(), end.size(), static_cast<off_t>(from)) != static_cast<ssize_t>(end.size()))
    return tl::make_unexpected(error("read"));
  const std::size_t last = end.rfind('\n');
  const std::uint64_t whole = last == std::string::npos ? from : from + last + 1;
  if (whole < *bytes && ::ftruncate(file_, static_cast<off_t>(whole)) != 0)
    return tl::make_unexpected(error("written"));
  return {};
}

core::Result<std::uint64_t> TraceFile::size() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0) return tl::make_unexpected(error("read"));
  return static_cast<std::uint64_t>(status.st_size);
}

bool TraceFile::is_at_path() const {
  struct stat own {
  }, there{};
  return file_ >= 0 && ::fstat(file_, &own) == 0 && ::stat(path_.c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

core::Result<void> TraceFile::append(std::string_view lines) {
  if (!is_at_path())
    if (auto opened = reopen(); !opened) return opened;
  auto before = size();
  if (before && *before > 0 && *before + lines.size() > bytes_max_) {
    if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return tl::make_unexpected(error("renamed"));
    if (auto opened = reopen(); !opened) return opened;
    before = size();
  }
  if (!before) return tl::make_unexpected(before.error());
  std::string_view rest = lines;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const core::Error failed = error("written");
      // What was written of the lines goes; if that fails, too, the next start removes the incomplete line.
      if (rest.size() < lines.size() && ::ftruncate(file_, static_cast<off_t>(*before)) != 0) close();
      return tl::make_unexpected(failed);
    }
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace penstock::gateway
