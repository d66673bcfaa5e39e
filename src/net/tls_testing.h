// Certificates that are generated for one test.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>

#include "net/tls.h"

namespace penstock::net::testing {

class TestCertificate;
struct TestCertificateOptions {
  std::string names = "DNS:localhost,IP:127.0.0.1";
  std::string common_name = "Penstock test";
  const TestCertificate* issuer = nullptr;                // Null: it is signed by itself and may sign others.
  long valid_from_s = -3600, valid_until_s = 24L * 3600;  // Relative to now.
  long serial = 2;                                        // Of a certificate with an issuer.
};

// A temporary folder with a key and a certificate.
class TestCertificate {
 public:
  explicit TestCertificate(const TestCertificateOptions& options = {}) {
    std::string folder = (std::filesystem::temp_directory_path() / "penstock-tls-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), options.issuer == nullptr ? 1 : options.serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), options.valid_from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), options.valid_until_s);
    X509_set_pubkey(certificate_, key_);
    const auto* name = reinterpret_cast<const unsigned char*>(options.common_name.data());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate_), "CN", MBSTRING_UTF8, name,
                               static_cast<int>(options.common_name.size()), -1, 0);
    const TestCertificate& issuer = options.issuer == nullptr ? *this : *options.issuer;
    X509_set_issuer_name(certificate_, X509_get_subject_name(issuer.certificate_));
    add_extension(NID_subject_alt_name, options.names);
    if (options.issuer == nullptr) add_extension(NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate_, issuer.key_, EVP_sha256());
    write(certificate(), [&](FILE* file) { return PEM_write_X509(file, certificate_); });
    write(key(), [&](FILE* file) { return PEM_write_PrivateKey(file, key_, nullptr, nullptr, 0, nullptr, nullptr); });
  }
  ~TestCertificate() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
    std::filesystem::remove_all(folder_);
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  [[nodiscard]] std::string certificate() const { return folder_ / "certificate.pem"; }
  [[nodiscard]] std::string key() const { return folder_ / "key.pem"; }
  [[nodiscard]] std::string folder() const { return folder_; }
  // PEM with the revocation list of this issuer.
  [[nodiscard]] std::string revocation_list(std::initializer_list<const TestCertificate*> revoked,
                                            long valid_until_s = 24L * 3600) const {
    X509_CRL* list = X509_CRL_new();
    ASN1_TIME* time = X509_gmtime_adj(nullptr, -3600);
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(certificate_));
    X509_CRL_set1_lastUpdate(list, time);
    for (const TestCertificate* each : revoked) {
      X509_REVOKED* entry = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(each->certificate_));
      X509_REVOKED_set_revocationDate(entry, time);
      X509_CRL_add0_revoked(list, entry);
    }
    X509_CRL_set1_nextUpdate(list, X509_gmtime_adj(time, valid_until_s));
    X509_CRL_sort(list);
    X509_CRL_sign(list, key_, EVP_sha256());
    BIO* text = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_CRL(text, list);
    char* begin = nullptr;
    const long size = BIO_get_mem_data(text, &begin);
    std::string pem{begin, static_cast<std::size_t>(size)};
    BIO_free(text);
    ASN1_TIME_free(time);
    X509_CRL_free(list);
    return pem;
  }
  [[nodiscard]] std::shared_ptr<TlsContext> server() const {
    auto made = TlsContext::server(certificate(), key());
    EXPECT_TRUE(made) << made.error().message();
    return made.value_or(nullptr);
  }
  [[nodiscard]] std::shared_ptr<TlsContext> client() const {
    auto made = TlsContext::client(certificate());
    EXPECT_TRUE(made) << made.error().message();
    return made.value_or(nullptr);
  }

 private:
  void add_extension(int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    X509_add_ext(certificate_, extension, -1);
    X509_EXTENSION_free(extension);
  }
  template <class Write>
  static void write(const std::string& path, Write&& write_to) {
    FILE* file = std::fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(write_to(file), 1);
    std::fclose(file);
  }

  std::filesystem::path folder_;
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
};

}  // namespace penstock::net::testing
