// What the frames of a published message mean, and what a sequence number tells after another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock::connect {

inline constexpr std::size_t kFramesMax = 3;

struct Framed {
  std::string_view topic, payload;
  std::optional<std::uint64_t> sequence;
};

// Three frames are topic, sequence and payload; two are sequence and payload if the first has 8 bytes, else topic and
// payload; one is the payload. None: a sequence that has not 8 bytes, more frames, no frame.
[[nodiscard]] std::optional<Framed> read_frames(std::span<const std::string> frames);

struct SequenceStep {
  std::uint64_t lost = 0;
  bool restarted = false;
};

// From the last number of a publisher, if there was one, to this one. One that is not higher is of a publisher that began
// anew; what it sent before this one counts as lost.
[[nodiscard]] SequenceStep step_between(std::optional<std::uint64_t> last, std::uint64_t now);

// "tcp://host:port", by its form.
[[nodiscard]] bool is_tcp_endpoint(std::string_view endpoint);

}  // namespace penstock::connect
