#include "connect/nats/endpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/address.h"

namespace penstock::connect {
namespace {

constexpr std::uint16_t kDefaultPort = 4222;
constexpr std::size_t kSubjectBytesMax = 1024;
constexpr std::string_view kScheme = "nats://", kTlsScheme = "tls://";

}  // namespace

std::string NatsEndpoint::server() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}:{}", tls ? kTlsScheme : kScheme, is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

bool is_nats_subject(std::string_view text) {
  if (text.empty() || text.size() > kSubjectBytesMax || text.front() == '.' || text.back() == '.') return false;
  if (text.find("..") != std::string_view::npos) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

bool is_nats_endpoint(std::string_view text) { return text.starts_with(kScheme) || text.starts_with(kTlsScheme); }

core::Result<NatsEndpoint> parse_nats_endpoint(std::string_view text) {
  const auto invalid = [&] {
    if (const std::size_t at = text.rfind('@'); at != std::string_view::npos)
      return core::invalid_input(std::string{text.substr(at + 1)}, "an endpoint of NATS has no user in its URL",
                                 "use planner.nats.user, planner.nats.password_file or another file of planner.nats");
    return core::invalid_input(std::string{text}, "is not an endpoint of NATS",
                               "use a form like nats://127.0.0.1:4222/subject");
  };
  if (!is_nats_endpoint(text)) return invalid();
  NatsEndpoint made;
  made.tls = text.starts_with(kTlsScheme);
  std::string_view host = text.substr(made.tls ? kTlsScheme.size() : kScheme.size()), subject;
  if (const std::size_t slash = host.find('/'); slash != std::string_view::npos) {
    subject = host.substr(slash + 1);
    host = host.substr(0, slash);
    if (!subject.empty() && !is_nats_subject(subject)) return invalid();
  }
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  const auto url = net::parse_url(fmt::format("{}{}", host, has_port ? "" : fmt::format(":{}", kDefaultPort)));
  if (!url || !url->path.empty() || url->tls) return invalid();
  made.host = url->host;
  made.port = url->port;
  made.subject = subject;
  return made;
}

}  // namespace penstock::connect
