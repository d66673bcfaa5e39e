#include "logging/line.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "core/utf8.h"

namespace penstock::logging {
namespace {

constexpr std::string_view kEllipsis = "…";

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (c <= ' ' || c >= '\x7f' || c == '"' || c == '\\' || c == '=') return false;
  return true;
}

void append_hex(std::string& out, std::string_view prefix, std::string_view bytes) {
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(out), "{}{:02x}", prefix, static_cast<unsigned>(static_cast<unsigned char>(c)));
}

// The sequence, or what stands for it within quotes.
void append_sequence(std::string& out, Format format, std::string_view sequence, bool is_utf8) {
  const bool json = format == Format::kJson;
  if (sequence == "\"" || sequence == "\\") {
    out += '\\';
    out += sequence;
  } else if (sequence == "\n") {
    out += "\\n";
  } else if (sequence == "\r") {
    out += "\\r";
  } else if (sequence == "\t") {
    out += "\\t";
  } else if (!is_utf8) {
    json ? static_cast<void>(out += "\xEF\xBF\xBD") : append_hex(out, "\\x", sequence);
  } else if (!core::is_control(sequence)) {
    out += sequence;
  } else if (!json) {
    append_hex(out, "\\x", sequence);
  } else if (sequence.size() == 1) {
    append_hex(out, "\\u00", sequence);
  } else {
    out += "\xEF\xBF\xBD";
  }
}

void append_quoted(std::string& out, Format format, std::string_view text) {
  const bool cut = text.size() > kValueBytesMax;
  if (cut) text = text.substr(0, kValueBytesMax);
  out += '"';
  while (!text.empty()) {
    const std::size_t length = core::utf8_length(text);
    // The last character of a value that was cut may be cut, too.
    if (length == 0 && cut && text.size() < 4) break;
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    append_sequence(out, format, sequence, length > 0);
    text.remove_prefix(sequence.size());
  }
  if (cut) out += kEllipsis;
  out += '"';
}

struct Writer {
  std::string& out;
  Format format;

  void operator()(std::string_view text) const {
    if (format == Format::kText && text.size() <= kValueBytesMax && is_plain(text))
      out += text;
    else
      append_quoted(out, format, text);
  }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(double value) const { fmt::format_to(std::back_inserter(out), "{:.6g}", value); }
  void operator()(std::integral auto value) const { fmt::format_to(std::back_inserter(out), "{}", value); }
};

bool is_known(const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value.kind())) return !text->empty();
  if (const auto* number = std::get_if<double>(&value.kind())) return std::isfinite(*number);
  return true;
}

}  // namespace

std::string format_line(Format format, Event event, std::span<const Field> fields) {
  std::string line;
  line.reserve(256);
  const bool json = format == Format::kJson;
  if (json) line += "\"event\":\"";
  line += info_of(event).name;
  if (json) line += '"';
  for (const Field& field : fields) {
    if (!is_known(field.value)) continue;
    line += json ? ",\"" : " ";
    line += field.name;
    line += json ? "\":" : "=";
    std::visit(Writer{line, format}, field.value.kind());
  }
  return line;
}

}  // namespace penstock::logging
