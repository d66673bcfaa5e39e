// Which texts Kubernetes accepts. Errors have no `where`.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/result.h"

namespace penstock::deployment {

// Longest name of a Service, and so of all objects that share its name.
inline constexpr std::size_t kLabelBytesMax = 63;
inline constexpr std::size_t kNameBytesMax = 253;

// A label of DNS that begins with a letter (RFC 1035), as names of Services are: "penstock-gateway".
[[nodiscard]] core::Result<void> check_dns_label(std::string_view text, std::size_t bytes_max = kLabelBytesMax);
// Labels of DNS with dots between them (RFC 1123), as names of Deployments are: "qwen3-32b.decode".
[[nodiscard]] core::Result<void> check_dns_name(std::string_view text, std::size_t bytes_max = kNameBytesMax);
// The value of a label, such as "decode"; selectors compare it.
[[nodiscard]] core::Result<void> check_label_value(std::string_view text);
// The key of a label, such as "pool" or "cloud.google.com/gke-nodepool".
[[nodiscard]] core::Result<void> check_label_key(std::string_view text);
// An extended resource, such as "nvidia.com/mig-3g.40gb".
[[nodiscard]] core::Result<void> check_resource(std::string_view text);
// A quantity above zero, such as "4", "500m" or "64Gi".
[[nodiscard]] core::Result<void> check_quantity(std::string_view text);
// The reference of a container image, such as "registry.example/penstock:1.0".
[[nodiscard]] core::Result<void> check_image(std::string_view text);
// Accepts an address of pages, such as https://wiki.example.org/penstock.
[[nodiscard]] core::Result<void> check_link(std::string_view text);
// The name of an environment variable that is also the key of a Secret.
[[nodiscard]] core::Result<void> check_variable(std::string_view text);
// The key of a Secret, which is the name of its file where the Secret is mounted: "admin-token".
[[nodiscard]] core::Result<void> check_secret_key(std::string_view text);

}  // namespace penstock::deployment
