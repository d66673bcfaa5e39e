// Reading and writing of msgpack (msgpack.org, spec of 2017), as much as engine telemetry needs.
//
// nlohmann's reader calls itself for each level of nesting, so that 64 KiB of outside bytes overflow a stack; and it makes
// a value of each of the many thousand token ids that a KV event has. This one only moves a cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::telemetry {

// Each read_…() takes the next value if it is of that type, and gives none and stays where it is if it is of another, or
// cut off. Views are into the bytes.
class MsgpackReader {
 public:
  struct Integer {
    std::uint64_t bits = 0;  // of the two's complement where it is negative
    bool negative = false;
  };

  explicit MsgpackReader(std::string_view bytes) : bytes_(bytes) {}

  // How many elements follow, or pairs. Never more than there are bytes left.
  [[nodiscard]] std::optional<std::uint32_t> read_array();
  [[nodiscard]] std::optional<std::uint32_t> read_map();
  [[nodiscard]] std::optional<std::string_view> read_text();
  [[nodiscard]] std::optional<std::string_view> read_binary();
  [[nodiscard]] std::optional<Integer> read_integer();
  [[nodiscard]] std::optional<std::uint64_t> read_unsigned();  // an integer that is not negative
  [[nodiscard]] std::optional<double> read_number();           // an integer or a float
  [[nodiscard]] bool read_nil();
  // One value of any type, with all that is in it; without recursion. False if it is cut off or no msgpack.
  [[nodiscard]] bool skip();

  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  [[nodiscard]] std::optional<std::uint64_t> big_endian(std::size_t from, std::size_t length) const;
  // The length in `width` bytes after the tag, if so many bytes of `unit` follow it.
  [[nodiscard]] std::optional<std::uint32_t> counted(std::size_t width, std::size_t unit);
  [[nodiscard]] std::optional<std::string_view> sized(std::size_t width, std::size_t extra = 0);
  [[nodiscard]] std::optional<std::uint32_t> container(std::uint8_t fixed, std::uint8_t tag16, std::size_t unit);
  [[nodiscard]] std::optional<std::string_view> take(std::size_t header, std::size_t length);
  [[nodiscard]] std::optional<std::uint64_t> skip_one();  // values that it holds

  std::string_view bytes_;
  std::size_t at_ = 0;
};

// Appends; every value in its shortest form, floats as 64 bits.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  void array(std::uint32_t elements);
  void map(std::uint32_t pairs);
  void text(std::string_view value);
  void unsigned_integer(std::uint64_t value);
  void integer(std::int64_t value);
  void number(double value);
  void nil();

 private:
  void tagged(std::uint8_t tag, std::uint64_t value, std::size_t width);

  std::string& out_;
};

}  // namespace penstock::telemetry
