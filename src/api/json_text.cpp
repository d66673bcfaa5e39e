#include "api/json_text.h"

#include <array>
#include <cstring>

#include "core/byte_words.h"
#include "core/digits.h"

namespace penstock::api {
namespace {

std::uint64_t backslashes_in(std::uint64_t word) { return core::marks_of(word, '\\'); }

// Returns the value of four hexadecimal digits, or a negative number.
int code_unit(const char* at, const char* end) {
  if (end - at < 4) return -1;
  int unit = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = core::hex_digit(at[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

char* write_utf8(char* to, int code) {
  const auto put = [&to](int byte) { *to++ = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
  return to;
}

bool read_unicode_escape(const char*& at, const char* end, char*& to) {
  int code = code_unit(at, end);
  if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF)) return false;
  at += 4;
  if (code >= 0xD800 && code < 0xDC00) {
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return false;
    const int low = code_unit(at + 2, end);
    if (low < 0xDC00 || low > 0xDFFF) return false;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    at += 6;
  }
  to = write_utf8(to, code);
  return true;
}

// Decodes one escape at `at`, which points to its backslash. Writes at most 4 bytes.
bool read_escape(const char*& at, const char* end, char*& to) {
  if (end - at < 2) return false;
  const char kind = at[1];
  at += 2;
  switch (kind) {
    case '"':
    case '\\':
    case '/': *to++ = kind; return true;
    case 'b': *to++ = '\b'; return true;
    case 'f': *to++ = '\f'; return true;
    case 'n': *to++ = '\n'; return true;
    case 'r': *to++ = '\r'; return true;
    case 't': *to++ = '\t'; return true;
    case 'u': return read_unicode_escape(at, end, to);
    default: return false;
  }
}

bool is_number(std::string_view token) {
  std::size_t at = 0;
  const auto take = [&](std::string_view any) {
    const bool there = at < token.size() && any.find(token[at]) != std::string_view::npos;
    at += there ? 1 : 0;
    return there;
  };
  const auto take_digits = [&] {
    const std::size_t from = at;
    while (at < token.size() && token[at] >= '0' && token[at] <= '9') ++at;
    return at > from;
  };
  static_cast<void>(take("-"));
  if (!take("0") && !take_digits()) return false;
  if (take(".") && !take_digits()) return false;
  if (take("eE")) {
    static_cast<void>(take("+-"));
    if (!take_digits()) return false;
  }
  return at == token.size();
}

}  // namespace

namespace {

// Copies the bytes before the next 32 that contain a backslash. Pointers passed by value stay in registers, which those
// that read_escape() moves do not.
std::size_t copy_plain(const char* from, const char* end, char* to, const char* full) {
  const char* at = from;
  for (; end - at >= 32 && to < full; at += 32, to += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), at, 32);
    if ((backslashes_in(words[0]) | backslashes_in(words[1]) | backslashes_in(words[2]) | backslashes_in(words[3])) !=
        0)
      break;
    std::memcpy(to, words.data(), 32);
  }
  return static_cast<std::size_t>(at - from);
}

}  // namespace

bool append_unescaped(std::string& out, std::string_view raw) {
  // Uses a piece that stays in the L1 cache, because a string cannot grow without being zero-filled first.
  constexpr std::size_t kPieceBytes = 4096;
  // Space for a step of a run, a word and an escape after the last position that is read.
  char piece[kPieceBytes + 64];
  const char* at = raw.data();
  const char* const end = at + raw.size();
  char* to = piece;
  while (at != end) {
    if (to >= piece + kPieceBytes) {
      out.append(piece, to);
      to = piece;
    }
    const std::size_t plain_bytes = copy_plain(at, end, to, piece + kPieceBytes);
    at += plain_bytes;
    to += plain_bytes;
    if (at == end) break;
    if (end - at >= 8) {
      const std::uint64_t word = core::load_word(at);
      std::memcpy(to, &word, 8);
      const std::uint64_t found = backslashes_in(word);
      const int plain = found == 0 ? 8 : core::bytes_before(found);
      at += plain;
      to += plain;
      if (found == 0) continue;
    } else if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    if (!read_escape(at, end, to)) {
      out.append(piece, to);
      return false;
    }
  }
  out.append(piece, to);
  return true;
}

bool has_good_escapes(std::string_view raw) {
  const char* at = raw.data();
  const char* const end = at + raw.size();
  while (at != end) {
    at = static_cast<const char*>(std::memchr(at, '\\', static_cast<std::size_t>(end - at)));
    if (at == nullptr) return true;
    char bytes[4];
    char* to = bytes;
    if (!read_escape(at, end, to)) return false;
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(plain, i - plain));
    plain = i + 1;
    out += '\\';
    switch (c) {
      case '\b': out += 'b'; break;
      case '\f': out += 'f'; break;
      case '\n': out += 'n'; break;
      case '\r': out += 'r'; break;
      case '\t': out += 't'; break;
      case '"':
      case '\\': out += c; break;
      default:
        out += "u00";
        out += kHex[c >> 4];
        out += kHex[c & 0x0F];
    }
  }
  out.append(text.substr(plain));
  out += '"';
}

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 7> kNames{"null",     "a boolean", "a number", "a string",
                                                   "an array", "an object", "no JSON"};
  return kNames[static_cast<std::size_t>(kind)];
}

Kind kind_of(std::string_view token) {
  switch (token.empty() ? '\0' : token.front()) {
    case '"': return token.size() > 1 && token.back() == '"' ? Kind::kString : Kind::kNone;
    case '[': return Kind::kArray;
    case '{': return Kind::kObject;
    case 'n': return token == "null" ? Kind::kNull : Kind::kNone;
    case 't': return token == "true" ? Kind::kBool : Kind::kNone;
    case 'f': return token == "false" ? Kind::kBool : Kind::kNone;
    default: return is_number(token) ? Kind::kNumber : Kind::kNone;
  }
}

std::string_view without_space_behind(std::string_view json) {
  while (!json.empty() && (json.back() == ' ' || json.back() == '\n' || json.back() == '\r' || json.back() == '\t'))
    json.remove_suffix(1);
  return json;
}

}  // namespace penstock::api
