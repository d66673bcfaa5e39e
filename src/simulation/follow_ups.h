// Which requests arrive after the end of which others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "workload/request.h"

namespace penstock::simulation {

class FollowUps {
 public:
  explicit FollowUps(const workload::Workload& workload) : waits_(workload.waits) {
    if (waits_.empty()) return;
    std::stable_sort(waits_.begin(), waits_.end(),
                     [](const workload::Wait& a, const workload::Wait& b) { return a.previous < b.previous; });
    unmet_.resize(workload.requests.size());
    earliest_.resize(workload.requests.size());
    follows_.resize(workload.requests.size());
    for (const workload::Wait& wait : waits_) {
      open_ += unmet_[wait.request]++ == 0 ? 1 : 0;
      follows_[wait.request] = true;
    }
  }

  // Whether the request arrives after the end of another one, which may be over.
  [[nodiscard]] bool follows(std::uint32_t request) const { return !follows_.empty() && follows_[request]; }
  [[nodiscard]] bool any() const { return !waits_.empty(); }
  // Requests that still wait.
  [[nodiscard]] std::uint32_t open() const { return open_; }

  // Calls arrives(request, at) for each request whose last wait ends with `previous`.
  template <class Arrives>
  void ended(std::uint32_t previous, core::Instant at, Arrives arrives) {
    auto wait = std::lower_bound(waits_.begin(), waits_.end(), previous,
                                 [](const workload::Wait& each, std::uint32_t of) { return each.previous < of; });
    for (; wait != waits_.end() && wait->previous == previous; ++wait) {
      earliest_[wait->request] = std::max(earliest_[wait->request], at + wait->after);
      if (--unmet_[wait->request] > 0) continue;
      --open_;
      arrives(wait->request, earliest_[wait->request]);
    }
  }

 private:
  std::vector<workload::Wait> waits_;    // In order of `previous`.
  std::vector<std::uint32_t> unmet_;     // Waits that are not over, by request.
  std::vector<bool> follows_;            // By request.
  std::vector<core::Instant> earliest_;  // By request.
  std::uint32_t open_ = 0;
};

}  // namespace penstock::simulation
