#include "admission/reservation.h"

#include <algorithm>
#include <cmath>

namespace penstock::admission {

Reservation reserve_worst_case(const ReservationRequest& request) {
  const double limit = request.max_tokens;
  const auto prompt = static_cast<double>(request.prompt_tokens), answers = static_cast<double>(request.answers);
  const double fits = std::max(0.0, std::floor((request.capacity - prompt) / answers));
  const double lowered = std::min(limit, fits);
  const double most = static_cast<double>(request.prompt_tokens_most) + answers * lowered;
  // What can never be admitted needs more than the capacity.
  const double output = answers * std::min(limit, std::max(lowered, 1.0));
  const double least = prompt + output;
  const double needed = std::max(least, std::min(most, std::floor(request.capacity)));
  return {{static_cast<std::uint64_t>(needed), static_cast<std::uint64_t>(std::max(most, needed)),
           static_cast<std::uint64_t>(output)},
          static_cast<std::uint32_t>(lowered)};
}

}  // namespace penstock::admission
