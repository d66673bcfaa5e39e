// A file that says which replicas serve: refused with a place, or a list that reads back equal from what is written of
// it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "connect/replicas_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::connect;
  const auto read = read_replicas({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!read) {
    const std::string message = read.error().message();
    if (!message.starts_with("fuzz.json: ") || message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  // What a gateway counts on.
  std::set<std::string> ids, urls;
  for (const ReplicaEntry& entry : *read) {
    if (entry.id.empty() || !ids.insert(entry.id).second || !urls.insert(entry.url).second) std::abort();
    if (!entry.url.starts_with("http") || !(entry.weight > 0.0) || entry.block_tokens == 0U) std::abort();
  }
  if (read->size() > kReplicasMax || read_replicas(replicas_text(*read), "again.json") != *read) std::abort();
  return 0;
}
