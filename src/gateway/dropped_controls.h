// Counts what clients sent to control engines and the gateway did not forward.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "api/engine_controls.h"
#include "gateway/fields.h"

namespace penstock::gateway {

// Any thread may call it.
class DroppedControls {
 public:
  void header(std::size_t control) { headers_[control].fetch_add(1, std::memory_order_relaxed); }
  void field(std::size_t control) { fields_[control].fetch_add(1, std::memory_order_relaxed); }
  // Calls visit(kind, name, count) for each control that was dropped at least once.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < headers_.size(); ++i)
      if (const std::uint64_t count = headers_[i]; count > 0) visit("header", kHeaderControls[i], count);
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (const std::uint64_t count = fields_[i]; count > 0) visit("field", api::kEngineControls[i], count);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kHeaderControls.size()> headers_{};
  std::array<std::atomic<std::uint64_t>, api::kEngineControls.size()> fields_{};
};

}  // namespace penstock::gateway
