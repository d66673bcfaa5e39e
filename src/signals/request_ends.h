// Counts of the ends of requests, as clients saw them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock::signals {

struct RequestEnds {
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;     // Before the first byte of the response.
  std::uint64_t truncated = 0;  // During the response.
  std::uint64_t timed_out = 0;  // Their time limit was reached.
  std::uint64_t cancelled = 0;  // The client closed the connection.

  RequestEnds& operator+=(const RequestEnds& more) {
    completed += more.completed;
    failed += more.failed;
    truncated += more.truncated;
    timed_out += more.timed_out;
    cancelled += more.cancelled;
    return *this;
  }
  friend RequestEnds operator-(RequestEnds later, const RequestEnds& earlier) {
    return {later.completed - earlier.completed, later.failed - earlier.failed, later.truncated - earlier.truncated,
            later.timed_out - earlier.timed_out, later.cancelled - earlier.cancelled};
  }
  friend bool operator==(const RequestEnds&, const RequestEnds&) = default;

  // Names and counts for renderings.
  [[nodiscard]] std::array<std::pair<std::string_view, std::uint64_t>, 5> named() const {
    return {{{"completed", completed},
             {"failed", failed},
             {"truncated", truncated},
             {"timed_out", timed_out},
             {"cancelled", cancelled}}};
  }
};

}  // namespace penstock::signals
