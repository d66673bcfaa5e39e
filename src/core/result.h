// Errors as values. A function that can fail on outside bytes or on its environment returns Result<T>; an impossible
// state is a bug of ours and ends the process through PENSTOCK_ASSERT.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace penstock::core {

// A code exists only where a caller reacts to it.
enum class ErrorCode {
  kInvalidInput,  // the user's bytes are wrong: exit code 2
  kEnvironment,   // a file, a socket or the disk failed: exit code 1
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string where;  // "trace.csv:17", "penstock.yaml:12:10: pools[1].max", "--slo"; empty when unknown
  std::string what;   // what is wrong and what was seen, lower case, no full stop
  std::string hint;   // what to do; may be empty

  // "where: what; hint", on one line.
  [[nodiscard]] std::string message() const {
    std::string text;
    if (!where.empty()) text += where + ": ";
    text += what;
    if (!hint.empty()) text += "; " + hint;
    return text;
  }
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> invalid_input(std::string where, std::string what, std::string hint = {}) {
  return tl::make_unexpected(Error{ErrorCode::kInvalidInput, std::move(where), std::move(what), std::move(hint)});
}
[[nodiscard]] inline tl::unexpected<Error> environment_error(std::string where, std::string what,
                                                             std::string hint = {}) {
  return tl::make_unexpected(Error{ErrorCode::kEnvironment, std::move(where), std::move(what), std::move(hint)});
}

[[noreturn]] void assertion_failed(const char* condition, const char* reason, const char* file, int line);

}  // namespace penstock::core

// Stays on in release builds: a wrong simulation is worse than a stopped one.
#define PENSTOCK_ASSERT(condition, reason) \
  (static_cast<bool>(condition) ? void(0) : ::penstock::core::assertion_failed(#condition, reason, __FILE__, __LINE__))
