// The saved state of a fleet, damaged in whatever way: refused with a place, or a state that the machine can go on
// from.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "actuation/advance.h"
#include "connect/processes/fleet_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const connect::Moment moment{core::kStart + std::chrono::seconds{5}, std::chrono::seconds{900}, "b"};
  auto fleet = connect::read_fleet({reinterpret_cast<const char*>(data), size}, "fuzz.json", moment);
  if (!fleet) {
    const std::string message = fleet.error().message();
    if (!message.starts_with("fuzz.json: ") || message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  if (connect::read_fleet(connect::fleet_text(*fleet, moment), "again.json", moment) != *fleet) std::abort();
  for (const auto& step : actuation::resume(*fleet))
    if (fleet->find(step.replica) == nullptr) std::abort();
  const std::vector<actuation::PoolWant> wants{{"default", 2, "r1"}};
  for (int second = 0; second < 3; ++second)
    for (const auto& step :
         actuation::advance(*fleet, wants, {}, {}, moment.now + std::chrono::seconds{second * 600}).steps)
      if (fleet->find(step.replica) == nullptr) std::abort();
  return 0;
}
