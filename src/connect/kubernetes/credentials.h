// What a client shows an API server, read again when its files change.
#pragma once

#include <memory>
#include <string>

#include "connect/file_stamps.h"
#include "connect/kubernetes/access.h"
#include "core/result.h"
#include "net/tls.h"

namespace penstock::connect {

class KubernetesCredentials {
 public:
  // Reads all files.
  [[nodiscard]] static core::Result<KubernetesCredentials> load(KubernetesAccess access);

  // Null for plain HTTP.
  [[nodiscard]] const std::shared_ptr<net::TlsContext>& tls() const { return tls_; }
  // Lines of header fields.
  [[nodiscard]] const std::string& fields() const { return fields_; }
  [[nodiscard]] const KubernetesAccess& access() const { return access_; }

  // Reads the files again if they have changed; see FileStamps::changed(). What was read before stays after an error.
  [[nodiscard]] core::Result<void> refresh();
  // Reads the files now. Returns true if the fields are others than before.
  [[nodiscard]] core::Result<bool> reload();

 private:
  explicit KubernetesCredentials(KubernetesAccess access) : access_(std::move(access)) {}

  KubernetesAccess access_;
  FileStamps stamps_;
  std::shared_ptr<net::TlsContext> tls_;
  std::string fields_;
};

}  // namespace penstock::connect
