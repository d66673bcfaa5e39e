#include "telemetry/message_metrics.h"

namespace penstock::telemetry {

namespace {

void append_family(ExpositionWriter& writer, const std::string& name, const std::string& help,
                   std::span<const ReplicaMessages> replicas, std::uint64_t MessageCounts::*member) {
  writer.family(name, "counter", help);
  for (const ReplicaMessages& replica : replicas)
    writer.sample(replica.labels, static_cast<double>(replica.counts.*member));
}

}  // namespace

void append_message_counts(ExpositionWriter& writer, const std::string& name, const std::string& what,
                           std::span<const ReplicaMessages> replicas) {
  append_family(writer, name + "_received_total", what + " that were read.", replicas, &MessageCounts::received);
  append_family(writer, name + "_rejected_total", what + " that are malformed or of an unknown version.", replicas,
                &MessageCounts::rejected);
  append_family(writer, name + "_lost_total", what + " that gaps in the sequence show to be lost.", replicas,
                &MessageCounts::lost);
}

void append_replayed_counts(ExpositionWriter& writer, const std::string& name, const std::string& what,
                            std::span<const ReplicaMessages> replicas) {
  append_family(writer, name + "_replayed_total", what + " that were sent again after a gap, and read.", replicas,
                &MessageCounts::replayed);
}

}  // namespace penstock::telemetry
