#include "connect/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace penstock::connect {

namespace {

tl::unexpected<core::Error> failure(const std::string& path, const char* what, int error) {
  std::string hint;
  if (error == ENOENT) hint = "create the folder first";
  if (error == ENOSPC || error == EDQUOT) hint = "free some space, or choose another disk";
  if (error == EACCES || error == EROFS) hint = "choose a path that you may use";
  return core::environment_error(path, fmt::format("cannot {}: {}", what, std::strerror(error)), hint);
}

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// The rename reaches the disk with its folder. A file system that cannot flush folders does so later.
void flush_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

core::Result<std::optional<std::string>> read_whole_file(const std::string& path, std::uint64_t bytes_max) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return std::optional<std::string>{};
  if (file < 0) return failure(path, "read", errno);
  std::string text;
  char buffer[16 * 1024];
  ssize_t got = 0;
  while ((got = ::read(file, buffer, sizeof buffer)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > bytes_max) break;
  }
  const int error = got < 0 ? errno : 0;
  ::close(file);
  if (error != 0) return failure(path, "read", error);
  if (text.size() > bytes_max)
    return core::invalid_input(path, fmt::format("is longer than {} bytes", bytes_max), "is it the right file?");
  return std::optional{std::move(text)};
}

core::Result<void> replace_file(const std::string& path, std::string_view text, FileReaders readers) {
  const mode_t mode = readers == FileReaders::kAll ? 0644 : 0600;
  const std::string neighbour = path + ".part";
  const int file = ::open(neighbour.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (file < 0) return failure(path, "write", errno);
  int error = write_all(file, text);
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(neighbour.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) {
    flush_folder(path);
    return {};
  }
  ::unlink(neighbour.c_str());
  return failure(path, "write", error);
}

}  // namespace penstock::connect
