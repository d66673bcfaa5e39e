#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "net/address.h"

namespace penstock::net {
namespace {

constexpr std::size_t kRecordBytesMax = 16 * 1024;

static_assert(EAGAIN == EWOULDBLOCK);

SSL* ssl_of(void* ssl) { return static_cast<SSL*>(ssl); }

// OpenSSL's own socket BIO uses write(), which raises SIGPIPE after the peer has closed.
int descriptor_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int write_to_socket(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t done = 0;
  do done = ::send(descriptor_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  while (done < 0 && errno == EINTR);
  if (done < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
  return static_cast<int>(done);
}

int read_from_socket(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t done = 0;
  do done = ::recv(descriptor_of(bio), into, static_cast<std::size_t>(size), 0);
  while (done < 0 && errno == EINTR);
  if (done < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
  return static_cast<int>(done);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_bio(int descriptor) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    BIO_meth_set_write(made, write_to_socket);
    BIO_meth_set_read(made, read_from_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  BIO* bio = BIO_new(method);
  PENSTOCK_ASSERT(bio != nullptr, "there is memory");
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  return bio;
}

// Without a name, any certificate of a trusted authority would be accepted.
void expect_host(SSL* ssl, const std::string& host) {
  PENSTOCK_ASSERT(!host.empty(), "a client of TLS says whom it wants to reach");
  if (Address::parse(host, 0)) {
    const bool kept = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
    PENSTOCK_ASSERT(kept, "the address is numeric");
    return;
  }
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool kept = SSL_set1_host(ssl, host.c_str()) == 1;
  PENSTOCK_ASSERT(kept, "there is memory");
  // A name that is too long for SNI is not sent, but it is still verified.
  SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, const_cast<char*>(host.c_str()));
  ERR_clear_error();
}

// The oldest error in the queue is the cause.
std::string tls_failure_of(SSL* ssl) {
  if (const long verified = SSL_get_verify_result(ssl); verified != X509_V_OK)
    return std::string{"the certificate is not trusted: "} + X509_verify_cert_error_string(verified);
  const unsigned long error = ERR_peek_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "the connection was closed" : reason;
}

Transport::Transfer read_plain(int descriptor, char* into, std::size_t size) {
  Transport::Transfer transfer;
  ssize_t got = 0;
  do got = ::recv(descriptor, into, size, 0);
  while (got < 0 && errno == EINTR);
  if (got > 0)
    transfer.bytes = static_cast<std::size_t>(got);
  else if (got == 0)
    transfer.closed = true;
  else if (errno == EAGAIN)
    transfer.wants_read = true;
  else
    transfer.failed = true;
  return transfer;
}

Transport::Transfer write_plain(int descriptor, std::string_view first, std::string_view second) {
  Transport::Transfer transfer;
  ssize_t sent = 0;
  if (second.empty()) {
    do sent = ::send(descriptor, first.data(), first.size(), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
  } else {
    std::array<iovec, 2> parts{
        {{const_cast<char*>(first.data()), first.size()}, {const_cast<char*>(second.data()), second.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    do sent = ::sendmsg(descriptor, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
  }
  if (sent >= 0) {
    transfer.bytes = static_cast<std::size_t>(sent);
    transfer.wants_write = transfer.bytes < first.size() + second.size();
  } else if (errno == EAGAIN) {
    transfer.wants_write = true;
  } else if (errno == EPIPE) {
    transfer.closed = true;
  } else {
    transfer.failed = true;
  }
  return transfer;
}

}  // namespace

Transport::Transport(int descriptor, const std::shared_ptr<TlsContext>& context, const std::string& host)
    : descriptor_{descriptor} {
  if (context == nullptr) return;
  SSL* ssl = SSL_new(static_cast<SSL_CTX*>(context->context_));
  PENSTOCK_ASSERT(ssl != nullptr, "there is memory");
  ssl_ = ssl;
  BIO* bio = make_bio(descriptor);
  SSL_set_bio(ssl, bio, bio);
  if (context->is_server_) {
    SSL_set_accept_state(ssl);
  } else {
    SSL_set_connect_state(ssl);
    expect_host(ssl, host);
  }
}

Transport::Transport(Transport&& other) noexcept
    : descriptor_{std::exchange(other.descriptor_, -1)},
      ssl_{std::exchange(other.ssl_, nullptr)},
      has_pending_{std::exchange(other.has_pending_, false)} {}

bool Transport::may_send() const { return ssl_ == nullptr || SSL_is_init_finished(ssl_of(ssl_)) == 1; }

bool Transport::peer_verified() const {
  if (ssl_ == nullptr) return false;
  SSL* ssl = ssl_of(ssl_);
  return SSL_get0_peer_certificate(ssl) != nullptr && SSL_get_verify_result(ssl) == X509_V_OK;
}

std::string Transport::peer_name() const {
  if (!peer_verified()) return {};
  const X509_NAME* subject = X509_get_subject_name(SSL_get0_peer_certificate(ssl_of(ssl_)));
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  // Other programs would read such a name only up to its zero byte.
  return name.find('\0') == std::string::npos ? name : std::string{};
}

Transport::~Transport() {
  if (ssl_ != nullptr) {
    // Sends close_notify if that is possible at once.
    if (SSL_is_init_finished(ssl_of(ssl_)) == 1) SSL_shutdown(ssl_of(ssl_));
    SSL_free(ssl_of(ssl_));
    ERR_clear_error();
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Translates the result of an SSL call that transferred nothing.
void Transport::explain(int result, Transfer& transfer) {
  SSL* ssl = ssl_of(ssl_);
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ: transfer.wants_read = true; return;
    case SSL_ERROR_WANT_WRITE: transfer.wants_write = true; return;
    case SSL_ERROR_ZERO_RETURN: transfer.closed = true; return;
    default:
      transfer.failed = true;
      tls_failure_ = tls_failure_of(ssl);
      // After a fatal error the library forbids SSL_shutdown(); this makes it do nothing.
      SSL_set_quiet_shutdown(ssl, 1);
      ERR_clear_error();
  }
}

Transport::Transfer Transport::write_tls(std::string_view first, std::string_view second) {
  Transfer transfer;
  std::array<char, kRecordBytesMax> joined;
  while (!first.empty() || !second.empty()) {
    std::string_view next = first.empty() ? second : first;
    if (!first.empty() && !second.empty() && first.size() < joined.size()) {
      // The head and the following bytes share one record. The library requires that a record that could not be sent is
      // retried with the same bytes at its front, which holds because the caller repeats what was not taken.
      const std::size_t more = std::min(second.size(), joined.size() - first.size());
      std::memcpy(joined.data(), first.data(), first.size());
      std::memcpy(joined.data() + first.size(), second.data(), more);
      next = {joined.data(), first.size() + more};
    }
    std::size_t taken = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_of(ssl_), next.data(), next.size(), &taken);
    if (result != 1) {
      explain(result, transfer);
      return transfer;
    }
    transfer.bytes += taken;
    const std::size_t of_first = std::min(taken, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(taken - of_first);
  }
  return transfer;
}

Transport::Transfer Transport::read(char* into, std::size_t size) {
  if (ssl_ == nullptr) return read_plain(descriptor_, into, size);
  Transfer transfer;
  has_pending_ = false;
  do {
    std::size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_of(ssl_), into + transfer.bytes, size - transfer.bytes, &got);
    if (result != 1) {
      Transfer end;
      explain(result, end);
      // The next read returns an end of stream or a wait that follows bytes.
      if (transfer.bytes == 0) return end;
      has_pending_ = end.closed || end.failed;
      return transfer;
    }
    transfer.bytes += got;
  } while (transfer.bytes < size && SSL_has_pending(ssl_of(ssl_)) == 1);
  has_pending_ = SSL_has_pending(ssl_of(ssl_)) == 1;
  return transfer;
}

Transport::Transfer Transport::write(std::string_view first, std::string_view second) {
  return ssl_ == nullptr ? write_plain(descriptor_, first, second) : write_tls(first, second);
}

}  // namespace penstock::net
