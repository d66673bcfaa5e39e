// A prompt whose KV another engine holds or shall hold: vLLM's `kv_transfer_params` (NIXL connector).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::api {

struct KvTransfer {
  bool do_remote_decode = false;   // Keep the KV; another engine decodes.
  bool do_remote_prefill = false;  // The KV is on the engine below.
  std::string remote_engine_id, remote_host;
  std::uint32_t remote_port = 0;
  std::vector<std::uint64_t> remote_block_ids;
};

// Reads the value of `kv_transfer_params`. Errors name the field ("kv_transfer_params.remote_port").
[[nodiscard]] core::Result<KvTransfer> read_kv_transfer(std::string_view json);

}  // namespace penstock::api
