// TLS 1.2 and 1.3 by OpenSSL over non-blocking sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace penstock::net {

// A PEM document: a file, or text in memory.
struct Pem {
  Pem() = default;
  Pem(std::string file) : name(std::move(file)) {}  // A file stands for its content.
  Pem(const char* file) : name(file) {}
  Pem(std::string called, std::string content) : name(std::move(called)), text(std::move(content)) {}

  [[nodiscard]] bool empty() const { return name.empty() && !text; }

  std::string name;                 // The file; with a text, what errors call it.
  std::optional<std::string> text;  // None: the file is read.
};

enum class ClientCertificates : std::uint8_t {
  kOptional,  // One that a client sends is verified; see Transport::peer_verified().
  kRequired,  // The handshake fails without one.
};

// Certificates and settings that connections and threads share.
class TlsContext {
 public:
  // Reads the certificate chain and its key. With `client_ca`, certificates of clients are verified against it, and
  // against the revocation lists in it. Errors name the document.
  [[nodiscard]] static core::Result<std::shared_ptr<TlsContext>> server(
      const Pem& certificate, const Pem& key, const Pem& client_ca = {},
      ClientCertificates clients = ClientCertificates::kOptional);
  // Verifies the peer's name and chain against `ca` and the revocation lists in it, or against the system's
  // certificates if it is empty. A certificate and its key identify the client; both are empty if there is none.
  [[nodiscard]] static core::Result<std::shared_ptr<TlsContext>> client(const Pem& ca = {}, const Pem& certificate = {},
                                                                        const Pem& key = {});
  ~TlsContext();
  void use_http2();  // Servers of gRPC: clients must speak HTTP/2.

 private:
  friend class Transport;
  TlsContext() = default;
  void* context_ = nullptr;  // SSL_CTX.
  bool is_server_ = false;
};

// A connected socket with or without TLS. Owns the descriptor.
class Transport {
 public:
  // A null context means plain. For a client, `host` is the server name that is sent and verified.
  Transport(int descriptor, const std::shared_ptr<TlsContext>& context, const std::string& host = {});
  Transport(Transport&& other) noexcept;
  Transport& operator=(Transport&&) = delete;
  ~Transport();

  struct Transfer {
    std::size_t bytes = 0;
    bool closed = false;      // Read: the peer has sent everything. Write: the peer accepts no more bytes.
    bool failed = false;      // The connection was reset, or TLS failed.
    bool wants_read = false;  // The call would block. With TLS a write may need to read and the reverse.
    bool wants_write = false;
  };
  // Each call makes one system call on a plain socket and may be repeated at any time. Bytes that write() did not take
  // must be at the front of the next write, because TLS may have encrypted them already.
  [[nodiscard]] Transfer read(char* into, std::size_t size);
  [[nodiscard]] Transfer write(std::string_view first, std::string_view second = {});
  // Decrypted bytes are buffered; the descriptor does not become readable for them.
  [[nodiscard]] bool has_pending() const { return has_pending_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_tls() const { return ssl_ != nullptr; }
  // Returns true without TLS, or after its handshake, which a read may end, too.
  [[nodiscard]] bool may_send() const;
  // Returns true if the peer has sent a certificate and it was verified.
  [[nodiscard]] bool peer_verified() const;
  // Returns the common name of the verified certificate; empty if there is none, or more than one.
  [[nodiscard]] std::string peer_name() const;
  // Returns why TLS failed; empty if it did not.
  [[nodiscard]] const std::string& tls_failure() const { return tls_failure_; }

 private:
  int descriptor_ = -1;
  void explain(int result, Transfer& transfer);
  Transfer write_tls(std::string_view first, std::string_view second);

  void* ssl_ = nullptr;  // SSL.
  std::string tls_failure_;
  bool has_pending_ = false;
};

}  // namespace penstock::net
