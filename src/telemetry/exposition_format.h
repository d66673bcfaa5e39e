// The formats of Penstock's expositions, and the choice between them by the Accept field of a request.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::telemetry {

enum class ExpositionFormat : std::uint8_t {
  kText,      // The text format 0.0.4.
  kProtobuf,  // Messages io.prometheus.client.MetricFamily, each after its length. Has native histograms.
};

[[nodiscard]] std::string_view content_type(ExpositionFormat format);

// `accept` is the value of the Accept field (RFC 9110, 12.5.1), empty if there is none. Returns kProtobuf if the client
// names this format and prefers no text to it. Anything else, also a malformed value, is kText.
[[nodiscard]] ExpositionFormat negotiate_format(std::string_view accept);

}  // namespace penstock::telemetry
