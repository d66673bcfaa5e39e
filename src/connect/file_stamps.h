// Notices changes of files whose content was read into memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::connect {

// Compares what the system reports about each file: a symbolic link counts as the file that it leads to, so that the
// exchange of a link, as Kubernetes does it for mounted configuration, is a change. A missing file is a state, too.
class FileStamps {
 public:
  // Replaces the files. The state of new ones now is not a change.
  void follow(const std::vector<std::string>& files);
  // The current state is not a change.
  void accept();
  // Returns true once for each change, and only when nothing has changed since the previous call, so that a file is not
  // read while it is being written. O(files) system calls.
  [[nodiscard]] bool changed();

 private:
  struct Stamp {  // All zero: there is no file.
    std::uint64_t device = 0, inode = 0, bytes = 0;
    std::int64_t written_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct File {
    std::string path;
    Stamp reported, last;
  };
  [[nodiscard]] static Stamp read(const std::string& path);

  std::vector<File> files_;
};

}  // namespace penstock::connect
