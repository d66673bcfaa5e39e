// Chunked bodies (RFC 9112, §7.1).
#include <algorithm>
#include <array>

#include "core/digits.h"
#include "net/http.h"

namespace penstock::net {

namespace {

constexpr std::uint32_t kOverheadMax = 16 * 1024;
// Maximum number of digits of a chunk length, so that sums of lengths do not overflow.
constexpr std::uint32_t kDigitsMax = 15;

bool is_control(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; }

}  // namespace

ChunkReader::Step ChunkReader::take(std::string_view bytes) {
  Step step;
  const auto malformed = [&] {
    step.state = State::kMalformed;
    return step;
  };
  while (phase_ != Phase::kDone && step.consumed < bytes.size()) {
    const char c = bytes[step.consumed];
    switch (phase_) {
      case Phase::kSize:
        if (const int digit = core::hex_digit(c); digit >= 0) {
          if (++digits_ > kDigitsMax) return malformed();
          left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
        } else if (digits_ == 0) {
          return malformed();
        } else if (c == '\r') {
          phase_ = Phase::kSizeLf;
        } else if (c == ';') {
          phase_ = Phase::kExtension;
        } else {
          return malformed();
        }
        break;
      case Phase::kExtension:
        if (c == '\r') {
          phase_ = Phase::kSizeLf;
        } else if (is_control(c) || ++overhead_ > kOverheadMax) {
          return malformed();
        }
        break;
      case Phase::kSizeLf:
        if (c != '\n') return malformed();
        phase_ = left_ > 0 ? Phase::kData : Phase::kTrailer;
        line_empty_ = true;
        if (phase_ == Phase::kTrailer) {
          ++step.consumed;
          return step;
        }
        break;
      case Phase::kData: {
        step.payload = bytes.substr(step.consumed, left_);
        step.consumed += step.payload.size();
        left_ -= step.payload.size();
        if (left_ == 0) phase_ = Phase::kDataCr;
        return step;
      }
      case Phase::kDataCr:
        if (c != '\r') return malformed();
        phase_ = Phase::kDataLf;
        break;
      case Phase::kDataLf:
        if (c != '\n') return malformed();
        phase_ = Phase::kSize;
        digits_ = 0;
        break;
      case Phase::kTrailer:
        if (c == '\r') {
          phase_ = Phase::kTrailerLf;
        } else if (is_control(c) || ++overhead_ > kOverheadMax) {
          return malformed();
        } else {
          line_empty_ = false;
        }
        break;
      case Phase::kTrailerLf:
        if (c != '\n') return malformed();
        phase_ = line_empty_ ? Phase::kDone : Phase::kTrailer;
        line_empty_ = true;
        break;
      case Phase::kDone: break;
    }
    ++step.consumed;
  }
  if (phase_ == Phase::kDone) step.state = State::kDone;
  return step;
}

void append_chunk(std::string& out, std::string_view payload) {
  if (payload.empty()) return;
  std::array<char, 20> line{};
  std::size_t at = line.size();
  line[--at] = '\n';
  line[--at] = '\r';
  for (std::size_t left = payload.size(); left > 0; left /= 16) line[--at] = "0123456789abcdef"[left % 16];
  out.append(line.data() + at, line.size() - at).append(payload).append("\r\n");
}

std::optional<std::string> decode_query(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = core::hex_digit(text[i + 1]), low = core::hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string encode_query(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain)
      out += c;
    else
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out;
}

}  // namespace penstock::net
