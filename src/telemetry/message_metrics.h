// Counts of the messages that engines publish, by replica, and how they are exposed to Prometheus.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telemetry/exposition_writer.h"

namespace penstock::telemetry {

struct MessageCounts {
  std::uint64_t received = 0;  // Read messages.
  std::uint64_t rejected = 0;  // Malformed messages, and those of an unknown version.
  std::uint64_t lost = 0;      // Gaps in the sequence.
  std::uint64_t replayed = 0;  // Of the received or rejected ones: sent again after a gap.

  MessageCounts& operator+=(const MessageCounts& other) {
    received += other.received;
    rejected += other.rejected;
    lost += other.lost;
    replayed += other.replayed;
    return *this;
  }
  friend bool operator==(const MessageCounts&, const MessageCounts&) = default;
};

struct ReplicaMessages {
  std::string labels;  // As format_labels() makes them, with a name of the replica.
  MessageCounts counts;
};

// Appends `<name>_{received,rejected,lost}_total`, one series for each replica; nothing without replicas.
void append_message_counts(ExpositionWriter& writer, const std::string& name, const std::string& what,
                           std::span<const ReplicaMessages> replicas);
// Appends `<name>_replayed_total` of publishers that send missed messages again.
void append_replayed_counts(ExpositionWriter& writer, const std::string& name, const std::string& what,
                            std::span<const ReplicaMessages> replicas);

}  // namespace penstock::telemetry
