// A request that a server's connection puts together.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/http.h"

namespace penstock::net {

// A request from the end of its head to the end of its response.
struct Request {
  // The body's memory grows in steps of this size.
  static constexpr std::size_t kStepBytes = 1024 * 1024;

  RequestHead head;        // Its views point into head_bytes.
  std::string head_bytes;  // Never moved while the request is in progress.
  std::string body;
  std::size_t body_read = 0;  // The body may be longer: it has room for what comes.
  ChunkReader chunks;
  bool last_chunk_read = false;
  core::Instant received_at;

  // Copies the head into memory of the request's own, and its views with it.
  void keep_head(std::string_view bytes);

  // Whether a long body has room for the socket to be read into it without a copy. The room is in proportion to what
  // has come, so that an announced length costs nothing.
  [[nodiscard]] bool make_room();

  struct Taken {
    std::size_t bytes = 0;  // Bytes that the body has gained. The caller adds them to body_read.
    int fault_status = 0;   // 0: there is no fault.
    std::string_view fault{};
  };
  // Takes what belongs to the body off the front of `rest`.
  [[nodiscard]] Taken take_body(std::string_view& rest, std::size_t bytes_max);
  // Whether all of the body has come.
  [[nodiscard]] bool is_complete() const { return head.chunked ? last_chunk_read : body_read == *head.content_length; }
};

}  // namespace penstock::net
