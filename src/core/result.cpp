#include "core/result.h"

#include <cstdio>
#include <cstdlib>

namespace penstock::core {

void assertion_failed(const char* condition, const char* reason, const char* file, int line) {
  std::fprintf(stderr, "penstock: bug at %s:%d: %s (%s)\n", file, line, reason, condition);
  std::abort();
}

}  // namespace penstock::core
