// Records of Dynamo's discovery: figures are within their bounds, and a record is read or its rejection has a cause.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "connect/dynamo/records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::connect;
  const std::string_view json{reinterpret_cast<const char*>(data), size};
  DynamoRecords records;
  add_dynamo_record("v1/mdc/n/c/e/1", json, records);
  add_dynamo_record("v1/event_channels/n/1", json, records);
  add_dynamo_record("v1/instances/n/1", json, records);
  if (records.workers.size() + records.channels.size() > 2) std::abort();
  for (const DynamoWorker& worker : records.workers)
    if (worker.model.empty() || (worker.kv_tokens && *worker.kv_tokens == 0)) std::abort();
  for (const DynamoTopic topic : {DynamoTopic::kForwardPass, DynamoTopic::kKvCache})
    static_cast<void>(records.endpoints_of("", "127.0.0.1:4222", topic));
  return 0;
}
