// Flags of the load generator: any text is read or refused, and what is read works.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/random.h"
#include "load/expectation.h"
#include "load/lengths.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto mix = load::LengthMix::parse(text)) {
    core::RandomStream random{1};
    for (int i = 0; i < 100; ++i) {
      const std::uint32_t tokens = mix->draw(random);
      if (tokens == 0 || tokens > load::kLengthMax) std::abort();
    }
  }
  if (const auto expectations = load::parse_expectations(text)) {
    const load::Tally tally{{"default"}};
    if (load::check_expectations(*expectations, tally).size() != expectations->size()) std::abort();
  }
  return 0;
}
