#include "net/unix_time.h"

#include <chrono>

namespace penstock::net {

core::Duration unix_time() {
  return std::chrono::duration_cast<core::Duration>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace penstock::net
