// A request whose KV is being transferred from a prefill engine.
#pragma once

#include <memory>

#include "engine_server/engine_server.h"

namespace penstock::engine_server {

struct EngineServer::Pull {
  api::InferenceRequest request;
  core::Instant arrived;  // By the engine's clock.
  std::unique_ptr<LiveAnswer> answer;
  std::unique_ptr<KvPull> fetch;
};

}  // namespace penstock::engine_server
