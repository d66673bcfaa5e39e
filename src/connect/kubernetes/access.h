// How a client reaches an API server of Kubernetes and identifies itself: from a kubeconfig, or from the files that
// Kubernetes mounts into a pod.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "net/address.h"
#include "net/tls.h"

namespace penstock::connect {

struct KubernetesAccess {
  net::Url server;
  std::string server_name;        // Name that TLS verifies; empty: the host of the URL.
  net::Pem ca;                    // Empty: the system's certificates.
  net::Pem certificate, key;      // Of the client; empty: none.
  std::string token, token_file;  // A file is read again when it changes. Both empty: no token.
  std::string default_namespace = "default";
};

// Reads one context of a kubeconfig; empty: its current context. Paths in it are relative to the folder of `file`.
// Credentials that programs provide, impersonation, passwords, proxies and unverified TLS are errors.
[[nodiscard]] core::Result<KubernetesAccess> parse_kubeconfig(std::string_view text, const std::string& file,
                                                              std::string_view context = {});

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// Reads what a pod has: the values of KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and the mounted files.
[[nodiscard]] core::Result<KubernetesAccess> in_cluster_access(const std::string& host, const std::string& port,
                                                               const std::string& folder = kServiceAccountFolder);

// Uses the given kubeconfig; without one, the file that KUBECONFIG names, the service account of this pod, or
// ~/.kube/config, whichever comes first.
[[nodiscard]] core::Result<KubernetesAccess> find_kubernetes_access(const std::string& kubeconfig = {},
                                                                    std::string_view context = {});

// Returns the token of a file's text, without white space at its ends. Errors never contain it.
[[nodiscard]] core::Result<std::string> parse_token(std::string_view text, const std::string& name);

}  // namespace penstock::connect
