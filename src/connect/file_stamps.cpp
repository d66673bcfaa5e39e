#include "connect/file_stamps.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace penstock::connect {

void FileStamps::follow(const std::vector<std::string>& files) {
  const std::vector<File> before = std::exchange(files_, {});
  for (const std::string& path : files) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const File& file) { return file.path == path; });
    if (known != before.end()) {
      files_.push_back(*known);
    } else {
      const Stamp now = read(path);
      files_.push_back({path, now, now});
    }
  }
}

void FileStamps::accept() {
  for (File& file : files_) file.reported = file.last = read(file.path);
}

bool FileStamps::changed() {
  bool settled = true, differs = false;
  for (File& file : files_) {
    const Stamp now = read(file.path);
    settled = now == std::exchange(file.last, now) && settled;
    differs = differs || now != file.reported;
  }
  if (!settled || !differs) return false;
  for (File& file : files_) file.reported = file.last;
  return true;
}

FileStamps::Stamp FileStamps::read(const std::string& path) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
          found.st_mtim.tv_sec * kNanoseconds + found.st_mtim.tv_nsec};
}

}  // namespace penstock::connect
