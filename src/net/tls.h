// TLS 1.2 and 1.3 by OpenSSL, over sockets that do not block.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::net {

// Certificates and settings, shared by connections and threads.
class TlsContext {
 public:
  // PEM files: a chain and its key. Errors name the file.
  [[nodiscard]] static core::Result<std::shared_ptr<TlsContext>> server(const std::string& certificate_file,
                                                                        const std::string& key_file);
  // Checks the peer's name and chain against `ca_file`, or the system's store where that is empty.
  [[nodiscard]] static core::Result<std::shared_ptr<TlsContext>> client(const std::string& ca_file = {});
  ~TlsContext();

 private:
  friend class Transport;
  TlsContext() = default;
  void* context_ = nullptr;  // SSL_CTX
  bool is_server_ = false;
};

// A connected socket with or without TLS. Owns the descriptor.
class Transport {
 public:
  // Plain where the context is null. As a client, `host` is the name that is asked for and checked.
  Transport(int descriptor, const std::shared_ptr<TlsContext>& context, const std::string& host = {});
  Transport(Transport&& other) noexcept;
  Transport& operator=(Transport&&) = delete;
  ~Transport();

  struct Transfer {
    std::size_t bytes = 0;
    bool closed = false;      // read: the peer sent all it will. write: it takes no more
    bool failed = false;      // reset, or TLS is broken
    bool wants_read = false;  // would block; for TLS a write may want to read, and the reverse
    bool wants_write = false;
  };
  // One system call each where there is no TLS; both may be called again at any time. What write() did not take has to
  // stand at the front of what it is given next: with TLS it may be encrypted already.
  [[nodiscard]] Transfer read(char* into, std::size_t size);
  [[nodiscard]] Transfer write(std::string_view first, std::string_view second = {});
  // Decrypted bytes that wait inside: the descriptor does not show them as readable.
  [[nodiscard]] bool has_pending() const { return has_pending_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_tls() const { return ssl_ != nullptr; }

 private:
  int descriptor_ = -1;
  void* ssl_ = nullptr;  // SSL
  bool has_pending_ = false;
};

}  // namespace penstock::net
