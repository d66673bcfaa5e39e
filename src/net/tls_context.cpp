// Settings that all TLS connections of a server or a client share.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>

#include "net/tls.h"

namespace penstock::net {
namespace {

constexpr unsigned char kProtocols[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// The oldest error is the cause; later ones belong to its callers.
std::string take_reason() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (error == 0) return "unknown reason";
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "unknown reason";
}

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_length, const unsigned char* offered,
                    unsigned int offered_length, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_length, kProtocols, sizeof kProtocols, offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

// A key with a passphrase is an error; the library would prompt for it at the terminal.
int refuse_passphrase(char*, int, int, void*) { return -1; }

SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  PENSTOCK_ASSERT(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1,
                  "OpenSSL knows TLS 1.2 and has memory");
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // Sessions are resumed by tickets, which the peer stores.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Reads a record's head and body in one recv().
  SSL_CTX_set_read_ahead(context, 1);
  ERR_clear_error();
  return context;
}

core::Result<void> use_certificate(SSL_CTX* context, const std::string& certificate_file, const std::string& key_file) {
  SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1)
    return core::environment_error(certificate_file, "cannot be used as a certificate: " + take_reason(),
                                   "use a PEM file with the certificate itself first, followed by its issuers");
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return core::environment_error(key_file, "cannot be used as the key of " + certificate_file + ": " + take_reason(),
                                   "use the PEM file of that certificate's key, without a passphrase");
  return {};
}

}  // namespace

core::Result<std::shared_ptr<TlsContext>> TlsContext::server(const std::string& certificate_file,
                                                             const std::string& key_file,
                                                             const std::string& client_ca_file) {
  const std::shared_ptr<TlsContext> made{new TlsContext};
  SSL_CTX* context = make_context(TLS_server_method());
  made->context_ = context;
  made->is_server_ = true;
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  if (auto used = use_certificate(context, certificate_file, key_file); !used) return tl::make_unexpected(used.error());
  if (client_ca_file.empty()) return made;
  if (SSL_CTX_load_verify_file(context, client_ca_file.c_str()) != 1)
    return core::environment_error(client_ca_file, "contains no trusted certificates: " + take_reason(),
                                   "use a PEM file with at least one certificate");
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(client_ca_file.c_str());
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  // Resumed sessions keep their certificate; they need a context to belong to.
  constexpr unsigned char kSessions[] = "penstock";
  SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions - 1);
  ERR_clear_error();
  return made;
}

core::Result<std::shared_ptr<TlsContext>> TlsContext::client(const std::string& ca_file,
                                                             const std::string& certificate_file,
                                                             const std::string& key_file) {
  const std::shared_ptr<TlsContext> made{new TlsContext};
  SSL_CTX* context = make_context(TLS_client_method());
  made->context_ = context;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(context, kProtocols, sizeof kProtocols);
  if (ca_file.empty() && SSL_CTX_set_default_verify_paths(context) != 1)
    return core::environment_error({}, "the system's certificate store cannot be used: " + take_reason(),
                                   "use a file of trusted certificates");
  if (!ca_file.empty() && SSL_CTX_load_verify_file(context, ca_file.c_str()) != 1)
    return core::environment_error(ca_file, "contains no trusted certificates: " + take_reason(),
                                   "use a PEM file with at least one certificate");
  if (!certificate_file.empty())
    if (auto used = use_certificate(context, certificate_file, key_file); !used)
      return tl::make_unexpected(used.error());
  ERR_clear_error();
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

}  // namespace penstock::net
