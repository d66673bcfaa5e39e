#include "workload/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace penstock::workload {
namespace {

std::string reason_of(int error) {  // std::strerror is not thread-safe.
  std::string reason = std::generic_category().message(error);
  if (!reason.empty() && reason[0] >= 'A' && reason[0] <= 'Z') reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  return reason;
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, int descriptor) : path_{std::move(path)}, descriptor_{descriptor} {}
  ~FileSource() override { ::close(descriptor_); }

  core::Result<std::size_t> read(std::span<std::uint8_t> buffer) override {
    ssize_t count = 0;
    do count = ::read(descriptor_, buffer.data(), buffer.size());
    while (count < 0 && errno == EINTR);
    if (count < 0) return core::environment_error(path_, fmt::format("cannot be read: {}", reason_of(errno)));
    return static_cast<std::size_t>(count);
  }

 private:
  std::string path_;
  int descriptor_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::uint8_t> bytes) : rest_{bytes} {}

  core::Result<std::size_t> read(std::span<std::uint8_t> buffer) override {
    const std::size_t count = std::min(buffer.size(), rest_.size());
    std::copy_n(rest_.begin(), count, buffer.begin());
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace

core::Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  const int descriptor =
      path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return core::environment_error(path, fmt::format("cannot be opened: {}", reason_of(errno)));
  return std::make_unique<FileSource>(path, descriptor);
}

std::unique_ptr<ByteSource> bytes_in_memory(std::span<const std::uint8_t> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace penstock::workload
