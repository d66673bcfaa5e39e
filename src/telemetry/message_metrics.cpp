#include "telemetry/message_metrics.h"

namespace penstock::telemetry {

void append_message_counts(ExpositionWriter& writer, const std::string& name, const std::string& what,
                           std::span<const ReplicaMessages> replicas) {
  const auto family = [&](const char* suffix, const std::string& help, std::uint64_t MessageCounts::*member) {
    writer.family(name + suffix, "counter", what + help);
    for (const ReplicaMessages& replica : replicas)
      writer.sample(replica.labels, static_cast<double>(replica.counts.*member));
  };
  family("_received_total", " that were read.", &MessageCounts::received);
  family("_rejected_total", " that are malformed or of an unknown version.", &MessageCounts::rejected);
  family("_lost_total", " that gaps in the sequence show to be lost.", &MessageCounts::lost);
}

}  // namespace penstock::telemetry
