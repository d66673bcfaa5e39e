// The error response of a refused request.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "dispatch/refusal.h"
#include "net/server.h"

namespace penstock::gateway {

struct Refusal {
  api::ApiError error;
  std::uint32_t retry_after_s = 0;  // 0 means no Retry-After field.
  bool counted = false;             // The dispatcher has counted it.
  admission::RateLimits rate_limits{};
};

// Refusals by error code that the dispatcher does not count, such as those of clients without a valid key. Any thread
// may call it.
class RefusalCounts {
 public:
  void count(const Refusal& refusal);
  void add_to(std::map<std::string, std::uint64_t>& totals) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> counts_;  // By code; codes are constants.
};

[[nodiscard]] Refusal make_refusal(int status, std::string_view type, std::string_view code, std::string message,
                                   std::string param = {});
[[nodiscard]] Refusal retry_soon(Refusal refusal);  // The client may send the request again after a second.
[[nodiscard]] Refusal unauthenticated();
// The limit of memory is reached, or an allocation failed.
[[nodiscard]] Refusal memory_refusal();
// The gateway ends, and the request has no answer yet.
[[nodiscard]] Refusal stopping_refusal();
// In OpenAI's format.
[[nodiscard]] Refusal make_refusal(dispatch::Refusal refusal);

// Retry-After, or x-should-retry where a later attempt is refused, too; with status 429 also the rate limits.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> refusal_fields(const Refusal& refusal);

// Sends the error in the format of the API of its path as the complete answer, with these fields and x-request-id.
void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id);

}  // namespace penstock::gateway
