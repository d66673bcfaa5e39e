#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/console.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kCells = 30;

}  // namespace

void ProgressBar::show(const replay::TaskProgress& progress) {
  if (!shown_) return;
  const double share = std::clamp(progress.share_done, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kCells));
  print_error_text(fmt::format("\r\033[K[{}{}] {:3.0f} %  {} of {}  {}", std::string(filled, '#'),
                               std::string(kCells - filled, '.'), std::min(99.0, share * 100.0), progress.tasks_done,
                               progress.tasks, progress.running));
  drawn_ = true;
}

void ProgressBar::erase() {
  if (drawn_) print_error_text("\r\033[K");
  drawn_ = false;
}

}  // namespace penstock::cli
