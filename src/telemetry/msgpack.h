// Reading and writing of msgpack (msgpack.org, specification of 2017), as far as engine telemetry needs it.
//
// nlohmann's reader recurses for each level of nesting, so that 64 KiB of input overflow a stack, and it allocates a
// value for each of the thousands of token ids in a KV event. This reader only moves a cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::telemetry {

// Each read_…() reads the next value if it has that type. Otherwise, or at the end of the input, it returns nothing and
// does not move. Views point into the input.
class MsgpackReader {
 public:
  struct Integer {
    std::uint64_t bits = 0;  // Two's complement of a negative value.
    bool negative = false;
  };

  explicit MsgpackReader(std::string_view bytes) : bytes_(bytes) {}

  // Number of elements or pairs that follow, never more than bytes are left.
  [[nodiscard]] std::optional<std::uint32_t> read_array();
  [[nodiscard]] std::optional<std::uint32_t> read_map();
  [[nodiscard]] std::optional<std::string_view> read_text();
  [[nodiscard]] std::optional<std::string_view> read_binary();
  [[nodiscard]] std::optional<Integer> read_integer();
  [[nodiscard]] std::optional<std::uint64_t> read_unsigned();  // A non-negative integer.
  [[nodiscard]] std::optional<double> read_number();           // An integer or a float.
  [[nodiscard]] bool read_nil();
  // Skips one value of any type with its content, without recursion. Returns false if the input ends or is invalid.
  [[nodiscard]] bool skip();

  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  [[nodiscard]] std::optional<std::uint64_t> big_endian(std::size_t from, std::size_t length) const;
  // Reads the length in the `width` bytes after the tag, if that many bytes of `unit` follow.
  [[nodiscard]] std::optional<std::uint32_t> counted(std::size_t width, std::size_t unit);
  [[nodiscard]] std::optional<std::string_view> sized(std::size_t width, std::size_t extra = 0);
  [[nodiscard]] std::optional<std::uint32_t> container(std::uint8_t fixed, std::uint8_t tag16, std::size_t unit);
  [[nodiscard]] std::optional<std::string_view> take(std::size_t header, std::size_t length);
  [[nodiscard]] std::optional<std::uint64_t> skip_one();  // Number of values that it contains.

  std::string_view bytes_;
  std::size_t at_ = 0;
};

// Appends each value in its shortest form; floats have 64 bits.
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
