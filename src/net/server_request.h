// A request that a server's connection puts together.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/body.h"
#include "net/http.h"
#include "net/server.h"

namespace penstock::net {

// A request from the end of its head to the end of its response.
struct Request {
  static constexpr std::size_t kStepBytes = 1024 * 1024;  // Each of these extends the time limit of the body.

  RequestHead head;        // Its views point into head_bytes.
  std::string head_bytes;  // Never moved while the request is in progress.
  Body body;
  ChunkReader chunks;
  bool last_chunk_read = false;
  std::size_t admitted_bytes = 0;  // Size that the handler has admitted.
  MemoryAccount* payer = nullptr;  // Pays for the body until it is taken, and for unsent output. Null: no tenant.
  core::Instant received_at;

  // Copies the head into memory of the request's own, and its views with it.
  void keep_head(std::string_view bytes);

  // Whether the socket is read into the body without a copy.
  [[nodiscard]] bool reads_directly() const;
  // Makes room for that in proportion to what has come, so that an announced length costs nothing. Returns the room; 0
  // if there is no memory.
  [[nodiscard]] std::size_t make_room();

  // Decides about a body of this size, announced or reached. A refusal without an error body says that there is no
  // memory.
  [[nodiscard]] BodyAdmission admit(ExchangeHandler& handler, MemoryBudget& memory, std::uint64_t bytes);

  struct Taken {
    std::size_t bytes = 0;  // Bytes that the body has gained.
    int fault_status = 0;   // 0: there is no fault. 503: there is no memory.
    std::string_view fault{};
  };
  // Moves what belongs to the body from the front of `rest` into it.
  [[nodiscard]] Taken take_body(std::string_view& rest, std::size_t bytes_max);
  // Whether all of the body has come.
  [[nodiscard]] bool is_complete() const {
    return head.chunked ? last_chunk_read : body.size() == *head.content_length;
  }
};

}  // namespace penstock::net
