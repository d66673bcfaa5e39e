// A lock file that one process at a time holds.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/result.h"

namespace penstock::connect {

// The kernel releases the lock when the process ends. The file is not removed: otherwise two processes could hold it.
class FileLock {
 public:
  // Creates the file if it is missing. Returns nothing if another process holds the lock.
  [[nodiscard]] static core::Result<std::optional<FileLock>> take(const std::string& file);
  ~FileLock();
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace penstock::connect
