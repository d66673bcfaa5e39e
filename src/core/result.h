// Errors as values. A function that can fail on outside bytes or on its environment returns Result<T>; an impossible
// state is a bug in Penstock and ends the process through PENSTOCK_ASSERT.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace penstock::core {

// A code exists only where a caller reacts to it.
enum class ErrorCode {
  kInvalidInput,  // The user's input is invalid; exit code 2.
  kEnvironment,   // A file, a socket or the disk failed; exit code 1.
  kRefused,       // Nothing listens at an address, or no route leads to it; exit code 1.
  kTimeout,       // A server was reached and did not answer in time; exit code 1.
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string where;  // "trace.csv:17", "penstock.yaml:12:10: pools[1].max", "--slo"; empty when unknown
  std::string what;   // The problem and the value that was read, lower case, without a full stop.
  std::string hint;   // What the user should do; may be empty.

  // Returns "where: what; hint" on one line.
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

// Enabled in release builds, too, because a wrong result is worse than a stopped process.
#define PENSTOCK_ASSERT(condition, reason) \
  (static_cast<bool>(condition) ? void(0) : ::penstock::core::assertion_failed(#condition, reason, __FILE__, __LINE__))
