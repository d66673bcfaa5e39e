// Certificates that are generated for one test.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "net/tls.h"

namespace penstock::net::testing {

// A temporary folder with a key and a self-signed certificate for the given names ("DNS:localhost,IP:127.0.0.1").
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& names = "DNS:localhost,IP:127.0.0.1") {
    std::string folder = (std::filesystem::temp_directory_path() / "penstock-tls-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 24L * 3600);
    X509_set_pubkey(made, key);
    const auto* name = reinterpret_cast<const unsigned char*>("Penstock test");
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC, name, -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(made));
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    X509_add_ext(made, extension, -1);
    X509_sign(made, key, EVP_sha256());
    write(certificate(), [&](FILE* file) { return PEM_write_X509(file, made); });
    write(this->key(),
          [&](FILE* file) { return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr); });
    X509_EXTENSION_free(extension);
    X509_free(made);
    EVP_PKEY_free(key);
  }
  ~TestCertificate() { std::filesystem::remove_all(folder_); }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  [[nodiscard]] std::string certificate() const { return folder_ / "certificate.pem"; }
  [[nodiscard]] std::string key() const { return folder_ / "key.pem"; }
  [[nodiscard]] std::string folder() const { return folder_; }
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
  template <class Write>
  static void write(const std::string& path, Write&& write_to) {
    FILE* file = std::fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(write_to(file), 1);
    std::fclose(file);
  }

  std::filesystem::path folder_;
};

}  // namespace penstock::net::testing
