// A Lease of Kubernetes with any content: it is refused with one line, or what is written of it is read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "connect/kubernetes/lease.h"

namespace {

using namespace penstock;

bool is_one_line(const core::Error& error) { return error.message().find('\n') == std::string::npos; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto name = connect::parse_object_name(text); name && name->in_namespace + "/" + name->name != text)
    std::abort();
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (object.is_discarded()) return 0;
  const auto lease = connect::parse_lease(object);
  if (!lease) {
    if (!is_one_line(lease.error())) std::abort();
    return 0;
  }
  const auto written = nlohmann::json::parse(connect::write_lease_call("n", "l", *lease).body, nullptr, false);
  const auto again = connect::parse_lease(written);
  if (!again || again->holder != lease->holder || again->duration != lease->duration ||
      again->transitions != lease->transitions || again->resource_version != lease->resource_version)
    std::abort();
  return 0;
}
