// What a client is told whose request goes nowhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "api/answer.h"

namespace penstock::gateway {

struct Refusal {
  api::ApiError error;
  std::uint32_t retry_after_s = 0;  // 0: says nothing of it
};

[[nodiscard]] inline Refusal make_refusal(int status, std::string_view type, std::string_view code, std::string message,
                                          std::string param = {}) {
  return {{status, type, code, std::move(message), std::move(param)}, 0};
}

}  // namespace penstock::gateway
