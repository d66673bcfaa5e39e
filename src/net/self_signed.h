// A certificate that its own key has signed, for servers whose clients encrypt but do not verify.
#pragma once

#include <string>

#include "core/result.h"
#include "net/tls.h"

namespace penstock::net {

struct CertificateAndKey {
  Pem certificate, key;
};

// Makes a key (EC P-256) and a certificate for the host, a name or an IP address, that is valid for ten years. Both are
// in memory only. Fails if `host` can be neither.
[[nodiscard]] core::Result<CertificateAndKey> self_signed_certificate(const std::string& host);

}  // namespace penstock::net
