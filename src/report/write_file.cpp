#include "report/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace penstock::report {

namespace {

std::string hint_for(int error) {
  switch (error) {
    case ENOENT: return "create the folder first";
    case ENOTDIR: return "a part of the path is a file; choose another path";
    case ENOSPC:
    case EDQUOT: return "free some space, or choose another disk";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a path that you may write to";
    case ENAMETOOLONG: return "choose a shorter name";
    default: return "";
  }
}

tl::unexpected<core::Error> failure(const std::string& path, int error) {
  return core::environment_error(path, fmt::format("cannot write: {}", std::strerror(error)), hint_for(error));
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

core::Result<void> write_in_place(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return failure(path, errno);
  int error = write_all(file, text);
  if (::close(file) != 0 && error == 0) error = errno;
  if (error != 0) return failure(path, error);
  return {};
}

// The first free name next to `path`. Another process with the same number, on a shared disk, takes the next one.
int open_neighbour(const std::string& path, std::string& name) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    name = fmt::format("{}.{}-{}.part", path, ::getpid(), i);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

// The target of `path` through symbolic links, which may not exist; empty if the links are circular.
std::filesystem::path resolve(std::filesystem::path path) {
  constexpr int kLinks = 40;  // The limit of Linux.
  for (int i = 0; i < kLinks; ++i) {
    std::error_code no_link;
    const std::filesystem::path next = std::filesystem::read_symlink(path, no_link);
    if (no_link) return path;
    path = path.parent_path() / next;
  }
  return {};
}

}  // namespace

core::Result<void> write_file(const std::string& path, std::string_view text) {
  if (path.empty()) return core::environment_error("output", "the path is empty", "name a file");
  if (path == kStandardOutput) {
    const int error = write_all(STDOUT_FILENO, text);
    return error == 0 ? core::Result<void>{} : failure("standard output", error);
  }
  struct stat existing {};
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return failure(path, EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) return write_in_place(path, text);

  const std::string target = resolve(path).string();
  if (target.empty()) return failure(path, ELOOP);

  std::string neighbour;
  const int file = open_neighbour(target, neighbour);
  if (file < 0) return failure(path, errno);
  int error = write_all(file, text);
  if (error == 0 && exists && ::fchmod(file, existing.st_mode & 07777U) != 0) error = errno;
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(neighbour.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(neighbour.c_str());
  return failure(path, error);
}

}  // namespace penstock::report
