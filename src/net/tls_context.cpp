// Settings that all TLS connections of a server or a client share.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstring>
#include <memory>

#include "net/tls.h"

namespace penstock::net {
namespace {

constexpr std::string_view kHttp1 = "\x08http/1.1", kHttp2 = "\x02h2";

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

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
                    unsigned int offered_length, void* protocols) {
  unsigned char* found = nullptr;
  const auto own = *static_cast<const std::string_view*>(protocols);
  if (SSL_select_next_proto(&found, chosen_length, bytes(own), static_cast<unsigned>(own.size()), offered,
                            offered_length) != OPENSSL_NPN_NEGOTIATED)
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

struct BioDelete {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Document = std::unique_ptr<BIO, BioDelete>;
struct X509Delete {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct KeyDelete {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct InfosDelete {
  void operator()(STACK_OF(X509_INFO) * infos) const { sk_X509_INFO_pop_free(infos, X509_INFO_free); }
};

// Returns null with the reason in the queue of errors. The text must outlive the result.
Document open_document(const Pem& pem) {
  ERR_clear_error();
  return Document{pem.text ? BIO_new_mem_buf(pem.text->data(), static_cast<int>(pem.text->size()))
                           : BIO_new_file(pem.name.c_str(), "rb")};
}

bool use_chain(SSL_CTX* context, const Pem& pem) {
  const Document document = open_document(pem);
  if (document == nullptr) return false;
  const std::unique_ptr<X509, X509Delete> own{
      PEM_read_bio_X509_AUX(document.get(), nullptr, refuse_passphrase, nullptr)};
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (X509* const issuer = PEM_read_bio_X509(document.get(), nullptr, refuse_passphrase, nullptr))
    if (SSL_CTX_add0_chain_cert(context, issuer) != 1) return X509_free(issuer), false;
  // The chain ends where the document does; anything else is a malformed certificate.
  const unsigned long end = ERR_peek_last_error();
  return ERR_GET_LIB(end) == ERR_LIB_PEM && ERR_GET_REASON(end) == PEM_R_NO_START_LINE;
}

bool use_key(SSL_CTX* context, const Pem& pem) {
  const Document document = open_document(pem);
  if (document == nullptr) return false;
  const std::unique_ptr<EVP_PKEY, KeyDelete> key{
      PEM_read_bio_PrivateKey(document.get(), nullptr, refuse_passphrase, nullptr)};
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

core::Result<void> use_certificate(SSL_CTX* context, const Pem& certificate, const Pem& key) {
  if (!use_chain(context, certificate))
    return core::environment_error(certificate.name, "cannot be used as a certificate: " + take_reason(),
                                   "use PEM with the certificate itself first, followed by its issuers");
  if (!use_key(context, key))
    return core::environment_error(key.name, "cannot be used as the key of " + certificate.name + ": " + take_reason(),
                                   "use the PEM of that certificate's key, without a passphrase");
  ERR_clear_error();
  return {};
}

// Trusts the certificates of the document. A server also names them to its clients. If the document has revocation
// lists, each certificate of a peer is checked against that of its issuer, and refused if there is none.
core::Result<void> trust(SSL_CTX* context, const Pem& ca, bool is_server) {
  const Document document = open_document(ca);
  const std::unique_ptr<STACK_OF(X509_INFO), InfosDelete> infos{
      document == nullptr ? nullptr : PEM_X509_INFO_read_bio(document.get(), nullptr, refuse_passphrase, nullptr)};
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  int trusted = 0;
  for (int i = 0; infos != nullptr && i < sk_X509_INFO_num(infos.get()); ++i) {
    const X509_INFO* const info = sk_X509_INFO_value(infos.get(), i);
    if (info->crl != nullptr) {
      X509_STORE_add_crl(store, info->crl);
      X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    }
    if (info->x509 == nullptr || X509_STORE_add_cert(store, info->x509) != 1) continue;
    if (is_server) SSL_CTX_add_client_CA(context, info->x509);
    ++trusted;
  }
  if (trusted == 0)
    return core::environment_error(ca.name, "contains no trusted certificates: " + take_reason(),
                                   "use PEM with at least one certificate");
  ERR_clear_error();
  return {};
}

}  // namespace

core::Result<std::shared_ptr<TlsContext>> TlsContext::server(const Pem& certificate, const Pem& key,
                                                             const Pem& client_ca, ClientCertificates clients) {
  const std::shared_ptr<TlsContext> made{new TlsContext};
  SSL_CTX* context = make_context(TLS_server_method());
  made->context_ = context;
  made->is_server_ = true;
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, const_cast<std::string_view*>(&kHttp1));
  if (auto used = use_certificate(context, certificate, key); !used) return tl::make_unexpected(used.error());
  PENSTOCK_ASSERT(clients == ClientCertificates::kOptional || !client_ca.empty(), "required certificates are verified");
  if (client_ca.empty()) return made;
  if (auto trusted = trust(context, client_ca, true); !trusted) return tl::make_unexpected(trusted.error());
  const bool is_required = clients == ClientCertificates::kRequired;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (is_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  // A resumed session would bring back the certificate of an earlier connection, which may have expired since.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  return made;
}

core::Result<std::shared_ptr<TlsContext>> TlsContext::client(const Pem& ca, const Pem& certificate, const Pem& key) {
  const std::shared_ptr<TlsContext> made{new TlsContext};
  SSL_CTX* context = make_context(TLS_client_method());
  made->context_ = context;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(context, bytes(kHttp1), static_cast<unsigned>(kHttp1.size()));
  if (ca.empty() && SSL_CTX_set_default_verify_paths(context) != 1)
    return core::environment_error({}, "the system's certificate store cannot be used: " + take_reason(),
                                   "use a file of trusted certificates");
  if (!ca.empty())
    if (auto trusted = trust(context, ca, false); !trusted) return tl::make_unexpected(trusted.error());
  if (!certificate.empty())
    if (auto used = use_certificate(context, certificate, key); !used) return tl::make_unexpected(used.error());
  ERR_clear_error();
  return made;
}

void TlsContext::use_http2() {
  SSL_CTX_set_alpn_select_cb(static_cast<SSL_CTX*>(context_), choose_protocol, const_cast<std::string_view*>(&kHttp2));
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

}  // namespace penstock::net
