#include "deployment/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/utf8.h"

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;

// Words that YAML 1.1 or 1.2 reads as a boolean or as null, in lower case.
constexpr std::array<std::string_view, 9> kReserved = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};

// A text that every reader takes for the same text without quotes: it begins with a letter or a slash.
bool is_plain(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || text.size() > 100 || !(letter(text.front()) || text.front() == '/')) return false;
  if (!std::all_of(text.begin(), text.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9') || std::string_view{"-_./"}.find(c) != std::string_view::npos;
      }))
    return false;
  std::string lower{text};
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(kReserved.begin(), kReserved.end(), lower) == kReserved.end();
}

std::uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(sequence[i])); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0xFFU >> (sequence.size() + 1));
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

// Whether YAML contains the character as it is. Line separators and what steers terminals are escaped.
bool is_printable(std::string_view sequence) {
  const std::uint32_t code = code_point(sequence);
  return !core::is_control(sequence) && code != 0x2028 && code != 0x2029 && code != 0xFEFF && code != 0xFFFE &&
         code != 0xFFFF;
}

template <class Visit>
void each_character(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, core::utf8_length(text));
    visit(text.substr(0, length));
    text.remove_prefix(length);
  }
}

std::string double_quoted(std::string_view text) {
  std::string made = "\"";
  each_character(text, [&](std::string_view character) {
    if (character == "\"" || character == "\\") {
      made += '\\';
      made += character;
    } else if (character == "\n") {
      made += "\\n";
    } else if (is_printable(character)) {
      made += character;
    } else {
      fmt::format_to(std::back_inserter(made), "\\u{:04x}", code_point(character));
    }
  });
  return made + "\"";
}

// Whether a block scalar without an indentation indicator has the text, and not one more or one less line end.
bool is_block(std::string_view text) {
  if (text.size() < 2 || text.back() != '\n' || text[text.size() - 2] == '\n') return false;
  if (text.front() == ' ' || text.front() == '\n') return false;
  bool plain = true;
  each_character(text, [&](std::string_view character) { plain &= character == "\n" || is_printable(character); });
  return plain;
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_{out} {}

  // Appends a document.
  void write_document(const Json& object) { write_map(object, 0, false); }

 private:
  // Appends the value after "key:" or "-".
  void write_value(const Json& value, std::size_t indent, bool in_list) {
    if (value.is_object() && !value.empty()) return write_map(value, indent, in_list);
    if (value.is_array() && !value.empty()) return write_list(value, indent);
    out_ += ' ';
    if (!value.is_string())
      out_ += value.is_object() || value.is_array() ? (value.is_object() ? "{}" : "[]") : value.dump();
    else if (const auto& text = value.get_ref<const std::string&>(); is_block(text))
      return write_block(text, indent);
    else
      out_ += is_plain(text) ? text : double_quoted(text);
    out_ += '\n';
  }

  void write_map(const Json& map, std::size_t indent, bool in_list) {
    bool first = true;
    if (!in_list && indent > 0) out_ += '\n';
    for (const auto& [key, value] : map.items()) {
      out_ += first && in_list ? std::string{" "} : std::string(indent, ' ');
      out_ += (is_plain(key) ? key : double_quoted(key)) + ":";
      write_value(value, indent + kIndent, false);
      first = false;
    }
  }

  void write_list(const Json& list, std::size_t indent) {
    out_ += '\n';
    for (const Json& item : list) {
      out_ += std::string(indent, ' ') + "-";
      write_value(item, indent + kIndent, true);
    }
  }

  void write_block(std::string_view text, std::size_t indent) {
    out_ += "|\n";
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end > 0) out_ += std::string(indent, ' ').append(text.substr(0, end));
      out_ += '\n';
      text.remove_prefix(end + 1);
    }
  }

  std::string& out_;
};

}  // namespace

std::string to_yaml(const std::vector<Json>& objects) {
  std::string text;
  for (const Json& object : objects) {
    if (!text.empty()) text += "---\n";
    Writer{text}.write_document(object);
  }
  return text;
}

core::Result<void> check_utf8(std::string_view text) {
  for (std::size_t line = 1; !text.empty();) {
    const std::size_t length = core::utf8_length(text);
    if (length == 0) return core::invalid_input({}, fmt::format("line {} is not UTF-8", line));
    if (text.front() == '\n') ++line;
    text.remove_prefix(length);
  }
  return {};
}

}  // namespace penstock::deployment
