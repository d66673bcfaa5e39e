#include "net/http.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/byte_words.h"
#include "core/digits.h"

namespace penstock::net {

namespace {

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

enum CharacterClass : std::uint8_t { kToken = 1, kText = 2, kVisible = 4, kAuthority = 8 };

constexpr std::array<std::uint8_t, 256> kClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";         // RFC 9110, §5.6.2
  constexpr std::string_view kAuthorityMarks = "-._~!$&'()*+;=%:[]";  // RFC 3986, §3.2, without users and commas
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto c = static_cast<char>(i);
    const bool is_name = core::is_digit(c) || is_letter(c);
    if (is_name || kTokenMarks.find(c) != std::string_view::npos) classes[i] |= kToken;
    if (is_name || kAuthorityMarks.find(c) != std::string_view::npos) classes[i] |= kAuthority;
    if (i > ' ' && i < 0x7f) classes[i] |= kVisible;
    if (i == '\t' || (i >= ' ' && i != 0x7f)) classes[i] |= kText;
  }
  return classes;
}();

bool all_are(CharacterClass wanted, std::string_view text) {
  std::uint8_t common = wanted;
  for (const char c : text) common &= kClasses[static_cast<unsigned char>(c)];
  return common != 0;
}

// Whether a field may have this value.
bool is_text(std::string_view text) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::size_t at = 0;
  while (at + kWord <= text.size() && core::is_visible_ascii(core::load_word(text.data() + at))) at += kWord;
  return all_are(kText, text.substr(at));
}

HeadResult malformed(int status, const char* fault) { return {HeadState::kMalformed, 0, status, fault}; }

constexpr const char* kBareLineFeed = "a line does not end with CR LF";

// Bounds of the head. It starts after empty lines, which servers should skip (RFC 9112, §2.2).
struct Extent {
  HeadState state = HeadState::kIncomplete;
  std::size_t begin = 0, end = 0;
};
Extent find_extent(std::string_view bytes, std::size_t searched, bool forgives_empty_lines) {
  Extent extent;
  while (forgives_empty_lines && bytes.substr(extent.begin, 2) == "\r\n") extent.begin += 2;
  std::size_t from = std::max(searched, extent.begin);
  while (from < bytes.size()) {
    const std::size_t feed = bytes.find('\n', from);
    if (feed == std::string_view::npos) break;
    if (feed == extent.begin || bytes[feed - 1] != '\r') {
      extent.state = HeadState::kMalformed;
      return extent;
    }
    if (feed >= extent.begin + 3 && bytes[feed - 2] == '\n') {
      extent.state = HeadState::kComplete;
      extent.end = feed + 1;
      return extent;
    }
    from = feed + 1;
  }
  return extent;
}

// Removes the first line; the caller knows that it is complete.
std::string_view take_line(std::string_view& rest) {
  const std::size_t feed = rest.find('\n');
  const std::string_view line = rest.substr(0, feed - 1);
  rest.remove_prefix(feed + 1);
  return line;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

struct Version {
  bool is_http = false, is_known = false, is_1_0 = false;
};
Version parse_version(std::string_view text) {
  if (text.size() != 8 || !text.starts_with("HTTP/") || !core::is_digit(text[5]) || text[6] != '.' ||
      !core::is_digit(text[7]))
    return {};
  return {true, text[5] == '1', text[7] == '0'};
}

// Framing fields that were read so far.
struct Framing {
  bool has_coding = false, has_host = false, says_close = false, says_keep = false;
};

void take_connection(std::string_view value, Framing& framing) {
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    const std::string_view option = trimmed(value.substr(0, comma));
    framing.says_close |= equal_fold(option, "close");
    framing.says_keep |= equal_fold(option, "keep-alive");
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
}

bool parse_length(std::string_view text, std::uint64_t& length) {
  if (text.empty() || text.size() > 18) return false;
  length = 0;
  for (const char c : text) {
    if (!core::is_digit(c)) return false;
    length = length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

const HeadResult kFine{HeadState::kComplete, 0, 0, ""};

// Handles the fields that determine where the body ends.
HeadResult take_framing(const Field& field, MessageHead& head, Framing& framing) {
  switch (field.name.size()) {
    case 10:
      if (equal_fold(field.name, "connection")) take_connection(field.value, framing);
      break;
    case 14:
      if (equal_fold(field.name, "content-length")) {
        std::uint64_t length = 0;
        if (head.content_length) return malformed(400, "the Content-Length header is given twice");
        if (!parse_length(field.value, length)) return malformed(400, "the Content-Length header is not a number");
        head.content_length = length;
      }
      break;
    case 17:
      if (equal_fold(field.name, "transfer-encoding")) {
        if (framing.has_coding) return malformed(400, "the Transfer-Encoding header is given twice");
        framing.has_coding = true;
        head.chunked = equal_fold(field.value, "chunked");
        if (!head.chunked) return malformed(501, "the Transfer-Encoding is not supported; use chunked");
      }
      break;
    default: break;
  }
  return kFine;
}

HeadResult take_request_field(const Field& field, RequestHead& head, Framing& framing) {
  if (field.name.size() == 4 && equal_fold(field.name, "host")) {
    if (framing.has_host) return malformed(400, "the Host header is given twice");
    if (!all_are(kAuthority, field.value)) return malformed(400, "the Host header is invalid");
    framing.has_host = true;
  } else if (field.name.size() == 6 && equal_fold(field.name, "expect")) {
    head.expect_continue = equal_fold(field.value, "100-continue");
  }
  return take_framing(field, head, framing);
}

template <class TakeField>
HeadResult parse_fields(std::string_view rest, MessageHead& head, TakeField&& take_field) {
  while (rest.size() > 2) {
    const std::string_view line = take_line(rest);
    const std::size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return malformed(400, "a header field has no name");
    if (!all_are(kToken, line.substr(0, colon)))
      return malformed(400, "the name of a header field has an invalid character");
    const Field field{line.substr(0, colon), trimmed(line.substr(colon + 1))};
    if (!is_text(field.value)) return malformed(400, "a header field has a control character");
    if (head.fields.size() == MessageHead::kFieldsMax) return malformed(431, "the message has too many header fields");
    head.fields.push_back(field);
    if (const HeadResult result = take_field(field); result.state != HeadState::kComplete) return result;
  }
  return kFine;
}

HeadResult check_framing(MessageHead& head, const Framing& framing) {
  if (head.chunked && head.content_length)
    return malformed(400, "the message has both Content-Length and Transfer-Encoding headers; send one of them");
  if (head.chunked && head.http_1_0)
    return malformed(400, "a message of HTTP/1.0 must not have a Transfer-Encoding header");
  head.keep_alive = !framing.says_close && (!head.http_1_0 || framing.says_keep);
  return kFine;
}

void clear(MessageHead& head) {
  head.fields.clear();
  head.http_1_0 = false;
  head.keep_alive = true;
  head.chunked = false;
  head.content_length.reset();
}

bool is_target(std::string_view target) {
  if (target.empty() || !all_are(kVisible, target)) return false;
  return target.front() == '/' || target == "*" || equal_fold(target.substr(0, 7), "http://") ||
         equal_fold(target.substr(0, 8), "https://");
}

HeadResult parse_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == last)
    return malformed(400, "the request line is invalid; it must have a method, a target and a version");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const Version version = parse_version(line.substr(last + 1));
  if (head.method.empty() || !all_are(kToken, head.method))
    return malformed(400, "the method of the request is invalid");
  if (!version.is_http) return malformed(400, "the request line has no HTTP version");
  if (!version.is_known) return malformed(505, "the HTTP version is not supported; use HTTP/1.1");
  if (!is_target(head.target)) return malformed(400, "the target of the request is invalid");
  head.http_1_0 = version.is_1_0;
  return kFine;
}

HeadResult parse_status_line(std::string_view line, ResponseHead& head) {
  const Version version = parse_version(line.substr(0, 8));
  if (!version.is_known) return malformed(400, "the status line has no HTTP version that is supported");
  const std::string_view rest = line.substr(8);
  if (rest.size() < 4 || rest[0] != ' ' || !core::is_digit(rest[1]) || !core::is_digit(rest[2]) ||
      !core::is_digit(rest[3]) || (rest.size() > 4 && rest[4] != ' '))
    return malformed(400, "the status code is invalid");
  head.status = (rest[1] - '0') * 100 + (rest[2] - '0') * 10 + (rest[3] - '0');
  if (head.status < 100 || head.status > 599) return malformed(400, "the status code is out of range");
  if (!is_text(rest)) return malformed(400, "the first line has a control character");
  head.http_1_0 = version.is_1_0;
  return kFine;
}

// Returns the target from its path on, without the "http://host" that clients send to a proxy.
std::string_view local_target(std::string_view target) {
  if (target.empty() || target.front() == '/') return target;
  const std::size_t authority = target.find("://");
  if (authority == std::string_view::npos) return target;
  const std::size_t slash = target.find_first_of("/?", authority + 3);
  if (slash == std::string_view::npos) return "/";
  return target.substr(slash);
}

}  // namespace

std::string_view MessageHead::field(std::string_view name) const {
  for (const Field& field : fields)
    if (equal_fold(field.name, name)) return field.value;
  return {};
}

std::string MessageHead::joined_field(std::string_view name) const {
  std::string joined;
  for (const Field& each : fields)
    if (equal_fold(each.name, name)) joined.append(joined.empty() ? "" : ",").append(each.value);
  return joined;
}

bool MessageHead::has_field(std::string_view name) const {
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return equal_fold(field.name, name); });
}

std::string_view RequestHead::path() const {
  const std::string_view local = local_target(target);
  const std::string_view path = local.substr(0, local.find('?'));
  return path.empty() ? "/" : path;
}

std::string_view RequestHead::query() const {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view{} : target.substr(mark + 1);
}

std::string_view RequestHead::parameter(std::string_view name) const {
  std::string_view rest = query();
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name)
      return equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return {};
}

std::string RequestHead::decoded_parameter(std::string_view name) const {
  std::string decoded;
  for (std::string_view rest = parameter(name); !rest.empty();) {
    const int high = rest.size() > 2 ? core::hex_digit(rest[1]) : -1,
              low = rest.size() > 2 ? core::hex_digit(rest[2]) : -1;
    const bool escaped = rest.front() == '%' && high >= 0 && low >= 0;
    decoded += escaped ? static_cast<char>(high * 16 + low) : rest.front() == '+' ? ' ' : rest.front();
    rest.remove_prefix(escaped ? 3 : 1);
  }
  return decoded;
}

HeadResult parse_request_head(std::string_view bytes, RequestHead& head, std::size_t searched) {
  clear(head);
  head.method = head.target = {};
  head.expect_continue = false;
  const Extent extent = find_extent(bytes, searched, true);
  if (extent.state == HeadState::kMalformed) return malformed(400, kBareLineFeed);
  if (extent.state == HeadState::kIncomplete) {
    // Another protocol, such as TLS on a plain port, is detected at its first byte instead of by a timeout.
    if (extent.begin < bytes.size() && bytes[extent.begin] != '\r' && !all_are(kToken, bytes.substr(extent.begin, 1)))
      return malformed(400, "the bytes are not HTTP");
    return {};
  }
  std::string_view rest = bytes.substr(extent.begin, extent.end - extent.begin);
  HeadResult result = parse_request_line(take_line(rest), head);
  if (result.state != HeadState::kComplete) return result;
  Framing framing;
  result = parse_fields(rest, head, [&](const Field& field) { return take_request_field(field, head, framing); });
  if (result.state == HeadState::kComplete) result = check_framing(head, framing);
  if (result.state != HeadState::kComplete) return result;
  if (!framing.has_host && !head.http_1_0) return malformed(400, "the Host header is missing");
  head.expect_continue = head.expect_continue && !head.http_1_0;
  return {HeadState::kComplete, extent.end, 200, ""};
}

HeadResult parse_response_head(std::string_view bytes, ResponseHead& head, std::size_t searched) {
  clear(head);
  head.status = 0;
  const Extent extent = find_extent(bytes, searched, false);
  if (extent.state == HeadState::kMalformed) return malformed(400, kBareLineFeed);
  if (extent.state == HeadState::kIncomplete) return {};
  std::string_view rest = bytes.substr(extent.begin, extent.end - extent.begin);
  HeadResult result = parse_status_line(take_line(rest), head);
  if (result.state != HeadState::kComplete) return result;
  Framing framing;
  result = parse_fields(rest, head, [&](const Field& field) { return take_framing(field, head, framing); });
  if (result.state == HeadState::kComplete) result = check_framing(head, framing);
  if (result.state != HeadState::kComplete) return result;
  return {HeadState::kComplete, extent.end, 200, ""};
}

bool is_token(std::string_view text) { return !text.empty() && all_are(kToken, text); }

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 425: return "Too Early";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "";
  }
}

}  // namespace penstock::net
