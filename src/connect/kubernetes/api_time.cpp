#include "connect/kubernetes/api_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "net/unix_time.h"

namespace penstock::connect {

std::string api_time_text(std::int64_t unix_us) {
  const std::int64_t us = (unix_us % 1'000'000 + 1'000'000) % 1'000'000;
  const auto seconds = static_cast<std::time_t>((unix_us - us) / 1'000'000);
  return fmt::format("{:%FT%T}.{:06}Z", fmt::gmtime(seconds), us);
}

std::string api_time_now() {
  return api_time_text(std::chrono::duration_cast<std::chrono::microseconds>(net::unix_time()).count());
}

}  // namespace penstock::connect
