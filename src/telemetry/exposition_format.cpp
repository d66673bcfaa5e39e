#include "telemetry/exposition_format.h"

#include <algorithm>
#include <optional>

#include "core/equal_fold.h"

namespace penstock::telemetry {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  return from == std::string_view::npos ? std::string_view{}
                                        : text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

// Removes the part before the next separator, which does not count within quotes.
std::string_view take_part(std::string_view& text, char separator) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < text.size() && (quoted || text[end] != separator); ++end) {
    if (text[end] == '"') quoted = !quoted;
    if (quoted && text[end] == '\\') ++end;
  }
  end = std::min(end, text.size());
  const std::string_view part = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// Thousandths of a weight: 0 to 1 with at most three decimals.
std::optional<int> parse_weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int thousandths = (text[0] - '0') * 1000, place = 100;
  for (std::size_t i = 2; i < text.size(); ++i, place /= 10) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    thousandths += (text[i] - '0') * place;
  }
  return thousandths <= 1000 ? std::optional{thousandths} : std::nullopt;
}

// One range of media types, with the parameters that matter here.
struct MediaRange {
  std::string_view type, proto, encoding, version;
  std::optional<int> weight = 1000;  // Empty: malformed.

  explicit MediaRange(std::string_view text) : type(take_part(text, ';')) {
    while (!text.empty()) {
      std::string_view value = take_part(text, ';');
      const std::string_view name = take_part(value, '=');
      value = trimmed(value);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      if (core::equal_fold(name, "q")) weight = parse_weight(value);
      if (core::equal_fold(name, "proto")) proto = value;
      if (core::equal_fold(name, "encoding")) encoding = value;
      if (core::equal_fold(name, "version")) version = value;
    }
  }

  [[nodiscard]] bool is_protobuf() const {
    return core::equal_fold(type, "application/vnd.google.protobuf") && proto == "io.prometheus.client.MetricFamily" &&
           core::equal_fold(encoding, "delimited");
  }
  // How exactly the range names the text format; 0: it does not.
  [[nodiscard]] int names_text() const {
    if (core::equal_fold(type, "text/plain")) return version.empty() ? 3 : version == "0.0.4" ? 4 : 0;
    if (core::equal_fold(type, "text/*")) return 2;
    return type == "*/*" ? 1 : 0;
  }
};

}  // namespace

std::string_view content_type(ExpositionFormat format) {
  return format == ExpositionFormat::kText
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
}

ExpositionFormat negotiate_format(std::string_view accept) {
  int protobuf = 0, text = 0, exactness = 0;
  while (!accept.empty()) {
    const MediaRange range{take_part(accept, ',')};
    if (!range.weight) continue;
    if (range.is_protobuf()) protobuf = std::max(protobuf, *range.weight);
    // The most exact range counts (RFC 9110, 12.5.1).
    const int names = range.names_text();
    if (names == 0 || names < exactness) continue;
    text = names > exactness ? *range.weight : std::max(text, *range.weight);
    exactness = names;
  }
  return protobuf > 0 && protobuf >= text ? ExpositionFormat::kProtobuf : ExpositionFormat::kText;
}

}  // namespace penstock::telemetry
