// A file that one process at a time holds.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/result.h"

namespace penstock::connect {

// The kernel releases it when the process ends, however it ends. The file stays: to remove it would let two hold it.
class FileLock {
 public:
  // Makes the file if it is not there. None: another holds it.
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
