#include "connect/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace penstock::connect {

namespace {

// Returns the descriptor; -1 if another process holds the file.
core::Result<int> open_locked(const std::string& file, int how) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return core::environment_error(file, "cannot be opened: " + std::generic_category().message(errno),
                                   "name a folder that is there and writable");
  if (::flock(descriptor, how | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  if (error == EWOULDBLOCK) return -1;
  return core::environment_error(file, "cannot be locked: " + std::generic_category().message(error));
}

// The lock of one byte of the file. It belongs to the open file and not to the process.
struct flock byte_lock(std::uint64_t number) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(number);
  lock.l_len = 1;
  return lock;
}

}  // namespace

core::Result<std::optional<FileLock>> FileLock::take(const std::string& file) {
  return open_locked(file, LOCK_EX).map([](int descriptor) {
    return descriptor < 0 ? std::nullopt : std::optional{FileLock{descriptor}};
  });
}

core::Result<std::optional<SharedFileLock>> SharedFileLock::open(const std::string& file) {
  return open_locked(file, LOCK_SH).map([](int descriptor) {
    return descriptor < 0 ? std::nullopt : std::optional{SharedFileLock{FileLock{descriptor}}};
  });
}

bool SharedFileLock::hold(std::uint64_t number) {
  struct flock lock = byte_lock(number);
  return ::fcntl(file_.descriptor_, F_OFD_SETLK, &lock) == 0;
}

bool SharedFileLock::is_held_elsewhere(std::uint64_t number) const {
  struct flock lock = byte_lock(number);
  // After a failure the holder counts as alive.
  return ::fcntl(file_.descriptor_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace penstock::connect
