#include "net/self_signed.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace penstock::net {
namespace {

constexpr long kSecondsADay = 24L * 3600, kValidDays = 3650;
constexpr int kSerialBits = 127;
constexpr std::size_t kCommonNameMax = 64;  // X.520, ub-common-name. The whole name is in subjectAltName.

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* owned) const {
    kFree(owned);
  }
};
using OwnCertificate = std::unique_ptr<X509, Freed<X509_free>>;
using OwnKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using OwnBio = std::unique_ptr<BIO, Freed<BIO_free>>;
using OwnNumber = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using OwnExtension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

bool is_ip(const std::string& host) {
  in6_addr unused{};
  return inet_pton(AF_INET, host.c_str(), &unused) == 1 || inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

// Other characters would have a meaning of their own in the description of an extension.
bool is_host_name(const std::string& host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '*';
  });
}

bool add_host(X509* certificate, const std::string& host) {
  const std::string described = (is_ip(host) ? "IP:" : "DNS:") + host;
  const OwnExtension extension{X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, described.c_str())};
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool fill(X509* certificate, EVP_PKEY* key, const std::string& host) {
  const OwnNumber serial{BN_new()};
  X509_NAME* const name = X509_get_subject_name(certificate);
  const std::string common_name = host.substr(0, kCommonNameMax);
  return X509_set_version(certificate, X509_VERSION_3) == 1 && serial != nullptr &&
         BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr &&
         // Clocks of clients may be slow.
         X509_gmtime_adj(X509_getm_notBefore(certificate), -kSecondsADay) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(certificate), kValidDays * kSecondsADay) != nullptr &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         add_host(certificate, host) && X509_sign(certificate, key, EVP_sha256()) != 0;
}

template <typename Write>
std::string pem_of(Write write) {
  const OwnBio memory{BIO_new(BIO_s_mem())};
  if (memory == nullptr || write(memory.get()) != 1) return {};
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace

core::Result<CertificateAndKey> self_signed_certificate(const std::string& host) {
  if (!is_ip(host) && !is_host_name(host))
    return core::invalid_input("certificate", "\"" + host + "\" is neither a host name nor an IP address",
                               "name the host that clients connect to");
  ERR_clear_error();
  const OwnKey key{EVP_EC_gen("P-256")};
  const OwnCertificate certificate{X509_new()};
  std::string certificate_text, key_text;
  if (key != nullptr && certificate != nullptr && fill(certificate.get(), key.get(), host)) {
    certificate_text = pem_of([&](BIO* to) { return PEM_write_bio_X509(to, certificate.get()); });
    key_text =
        pem_of([&](BIO* to) { return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }
  ERR_clear_error();
  if (certificate_text.empty() || key_text.empty())
    return core::environment_error("certificate", "OpenSSL cannot make a self-signed certificate",
                                   "provide the files of a certificate and its key");
  return CertificateAndKey{Pem{"self-signed certificate", std::move(certificate_text)},
                           Pem{"key of the self-signed certificate", std::move(key_text)}};
}

}  // namespace penstock::net
