#include "connect/nats/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "net/address.h"

namespace penstock::connect {
namespace {

constexpr std::uint16_t kDefaultPort = 4222;
constexpr std::size_t kSubjectBytesMax = 1024;
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kFieldsMax = 6;

tl::unexpected<core::Error> malformed(const std::string& what) {
  return core::invalid_input("NATS", what, "check that the endpoint is a NATS server");
}

bool is_verb(std::string_view word, std::string_view verb) {
  return std::equal(word.begin(), word.end(), verb.begin(), verb.end(),
                    [](char left, char right) { return std::toupper(static_cast<unsigned char>(left)) == right; });
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Removes and returns the first word of a line.
std::string_view take_word(std::string_view& line) {
  const auto begin = std::find_if_not(line.begin(), line.end(), is_blank);
  const auto end = std::find_if(begin, line.end(), is_blank);
  const std::string_view word{begin, end};
  line = std::string_view{std::find_if_not(end, line.end(), is_blank), line.end()};
  return word;
}

// The line of a message: subject, subscription, perhaps an address for a reply, and sizes.
struct MessageLine {
  std::string_view subject;
  std::uint64_t subscription = 0;
  std::size_t header_bytes = 0, bytes = 0;  // The header is a part of the bytes.
};
std::optional<MessageLine> read_message_line(std::string_view line, bool has_header) {
  std::array<std::string_view, kFieldsMax> words{};
  std::size_t count = 0;
  while (!line.empty() && count < words.size()) words[count++] = take_word(line);
  const std::size_t sizes = has_header ? 2 : 1;
  if (!line.empty() || (count != 2 + sizes && count != 3 + sizes)) return std::nullopt;
  const auto subscription = number_in(words[1]), bytes = number_in(words[count - 1]);
  const auto header = has_header ? number_in(words[count - 2]) : std::optional<std::uint64_t>{0};
  if (!subscription || !bytes || !header || *header > *bytes) return std::nullopt;
  return MessageLine{words[0], *subscription, static_cast<std::size_t>(*header), static_cast<std::size_t>(*bytes)};
}

}  // namespace

void NatsParser::add(std::string_view bytes) {
  buffer_.erase(0, read_);
  read_ = 0;
  buffer_ += bytes;
}

void NatsParser::reset() {
  buffer_ = {};
  read_ = 0;
}

core::Result<std::optional<NatsReceived>> NatsParser::next() {
  using Next = std::optional<NatsReceived>;
  const std::string_view rest = std::string_view{buffer_}.substr(read_);
  const std::size_t end = rest.substr(0, kNatsLineBytesMax).find(kLineEnd);
  if (end == std::string_view::npos) {
    if (rest.size() >= kNatsLineBytesMax)
      return malformed(fmt::format("sent a line of more than {} bytes", kNatsLineBytesMax));
    return Next{};
  }
  std::string_view line = rest.substr(0, end);
  const std::size_t line_bytes = end + kLineEnd.size();
  const std::string_view verb = take_word(line);
  NatsReceived received;
  received.text = line;
  const bool has_header = is_verb(verb, "HMSG");
  if (has_header || is_verb(verb, "MSG")) {
    const auto message = read_message_line(line, has_header);
    if (!message) return malformed("sent a malformed message line");
    if (message->bytes > kNatsPayloadBytesMax)
      return malformed(fmt::format("sent a message of {} bytes, of at most {}", message->bytes, kNatsPayloadBytesMax));
    const std::size_t whole = line_bytes + message->bytes + kLineEnd.size();
    if (rest.size() < whole) return Next{};
    if (rest.substr(whole - kLineEnd.size(), kLineEnd.size()) != kLineEnd)
      return malformed("sent a message that is longer than its size");
    received = {NatsOperation::kMessage,
                {},
                message->subject,
                rest.substr(line_bytes, message->bytes).substr(message->header_bytes),
                message->subscription};
    read_ += whole;
    return Next{received};
  }
  if (is_verb(verb, "INFO"))
    received.operation = NatsOperation::kInfo;
  else if (is_verb(verb, "PING"))
    received.operation = NatsOperation::kPing;
  else if (is_verb(verb, "PONG"))
    received.operation = NatsOperation::kPong;
  else if (is_verb(verb, "-ERR"))
    received.operation = NatsOperation::kError;
  else if (!is_verb(verb, "+OK"))
    return malformed("sent a line that is not of its protocol");
  read_ += line_bytes;
  return Next{received};
}

std::string NatsEndpoint::server() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}:{}", kNatsScheme, is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

bool is_nats_subject(std::string_view text) {
  if (text.empty() || text.size() > kSubjectBytesMax || text.front() == '.' || text.back() == '.') return false;
  if (text.find("..") != std::string_view::npos) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

core::Result<NatsEndpoint> parse_nats_endpoint(std::string_view text) {
  const auto invalid = [&] {
    return core::invalid_input(std::string{text}, "is not an endpoint of NATS",
                               "use a form like nats://127.0.0.1:4222/subject");
  };
  if (!text.starts_with(kNatsScheme)) return invalid();
  std::string_view host = text.substr(kNatsScheme.size()), subject;
  if (const std::size_t slash = host.find('/'); slash != std::string_view::npos) {
    subject = host.substr(slash + 1);
    host = host.substr(0, slash);
    if (!subject.empty() && !is_nats_subject(subject)) return invalid();
  }
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  const auto url = net::parse_url(fmt::format("{}{}", host, has_port ? "" : fmt::format(":{}", kDefaultPort)));
  if (!url || !url->path.empty()) return invalid();
  return NatsEndpoint{url->host, url->port, std::string{subject}};
}

}  // namespace penstock::connect
