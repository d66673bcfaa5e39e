// Lock files: one that a single process holds, and one that several processes share.
#pragma once

#include <cstdint>
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
  friend class SharedFileLock;
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

// Each process that shares the file may hold numbers, which tell the others that it lives. The kernel releases them
// when the process ends.
class SharedFileLock {
 public:
  // Creates the file if it is missing. Returns nothing if a process holds it as a FileLock, which fails in turn while
  // the file is shared.
  [[nodiscard]] static core::Result<std::optional<SharedFileLock>> open(const std::string& file);

  [[nodiscard]] bool hold(std::uint64_t number);                     // Returns false if another one holds it.
  [[nodiscard]] bool is_held_elsewhere(std::uint64_t number) const;  // Numbers that this object holds do not count.

 private:
  explicit SharedFileLock(FileLock file) : file_(std::move(file)) {}

  FileLock file_;
};

}  // namespace penstock::connect
