#include "core/state_archive.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace penstock::core {

Result<void> StateArchive::finish() const {
  if (!error_.empty()) return invalid_input("state", error_);
  if (reading_ && rest_.find_first_not_of(' ') != std::string_view::npos)
    return invalid_input("state", "has more values than expected");
  return {};
}

void StateArchive::fail(std::string_view why) {
  if (error_.empty()) error_ = (last_label_.empty() ? "" : last_label_ + ": ") + std::string{why};
}

void StateArchive::write(std::string_view token) {
  if (!text_.empty()) text_ += ' ';
  text_ += token;
}

std::string_view StateArchive::read() {
  if (failed()) return {};
  rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(' ')));
  const std::string_view token = rest_.substr(0, rest_.find(' '));
  rest_.remove_prefix(token.size());
  if (token.empty()) fail("ends too early");
  return token;
}

void StateArchive::label(std::string_view name) {
  if (!reading_) return write(name);
  const std::string_view found = read();
  if (!failed() && found != name) fail("is followed by another part than " + std::string{name});
  last_label_ = name;
}

void StateArchive::whole(std::int64_t& number) {
  if (!reading_) return write(std::to_string(number));
  const std::string_view token = read();
  const auto parsed = std::from_chars(token.data(), token.data() + token.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != token.data() + token.size()) {
    number = 0;
    fail("a whole number is expected");
  }
}

void StateArchive::real(double& number) {
  if (!reading_) {
    std::array<char, 32> digits{};  // the shortest text that reads back to the same bits
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return write({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  const std::string_view token = read();
  const auto parsed = std::from_chars(token.data(), token.data() + token.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != token.data() + token.size()) {
    number = 0.0;
    fail("a number is expected");
  }
}

std::uint64_t StateArchive::size_of(std::size_t size) {
  auto count = static_cast<std::int64_t>(size);
  whole(count);
  if (!reading_) return size;
  if (count >= 0 && static_cast<std::uint64_t>(count) <= rest_.size()) return static_cast<std::uint64_t>(count);
  fail("a list is longer than its text");
  return 0;
}

}  // namespace penstock::core
