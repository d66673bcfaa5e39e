#include "connect/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace penstock::connect {

core::Result<std::optional<FileLock>> FileLock::take(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return core::environment_error(file, "cannot be opened: " + std::generic_category().message(errno),
                                   "name a folder that is there and writable");
  FileLock held{descriptor};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return std::optional{std::move(held)};
  if (errno == EWOULDBLOCK) return std::nullopt;
  return core::environment_error(file, "cannot be locked: " + std::generic_category().message(errno));
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace penstock::connect
