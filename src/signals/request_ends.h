// Counts of the ends of requests, as clients saw them.
#pragma once

#include <algorithm>
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
  // A count that fell is 0.
  friend RequestEnds operator-(const RequestEnds& later, const RequestEnds& earlier) {
    const auto growth = [&](std::uint64_t RequestEnds::*count) {
      return later.*count - std::min(later.*count, earlier.*count);
    };
    return {growth(&RequestEnds::completed), growth(&RequestEnds::failed), growth(&RequestEnds::truncated),
            growth(&RequestEnds::timed_out), growth(&RequestEnds::cancelled)};
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
