// The bytes of a body, which count against a memory budget as long as they are held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "net/memory_budget.h"

namespace penstock::net {

// Grows without a copy where the system can move pages. A failed allocation is a return value.
class Body {
 public:
  // Bytes behind the last one, for parsers that read ahead.
  static constexpr std::size_t kPadding = 64;

  Body() = default;
  Body(Body&& other) noexcept
      : bytes_(std::move(other.bytes_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        hold_(std::move(other.hold_)) {}
  Body& operator=(Body&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    hold_ = std::move(other.hold_);
    return *this;
  }

  // Fills the padding with spaces.
  void pad();
  [[nodiscard]] std::string_view view() const { return {bytes_.get(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] MemoryAccount* account() const { return hold_.account(); }

  // The following return false if the budget or the system has no memory; the body is then unchanged.
  // Moves what is held to another account, which also pays for later bytes.
  [[nodiscard]] bool charge_to(MemoryAccount& account);
  [[nodiscard]] bool reserve(std::size_t bytes);
  // The whole content will have at most `whole_max` bytes.
  [[nodiscard]] bool append(std::string_view bytes, std::size_t whole_max = SIZE_MAX);
  // Room behind the last byte, for reading into it. The caller then calls added().
  [[nodiscard]] char* end() { return bytes_.get() + size_; }
  [[nodiscard]] std::size_t room() const { return capacity_ - size_; }
  void added(std::size_t bytes) { size_ += bytes; }

  // Drops the content, and forgets the account. Memory of up to `kept_bytes_max` stays for the next content and is no
  // longer counted.
  void clear(std::size_t kept_bytes_max = 0);

 private:
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char, Free> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
  MemoryHold hold_;
};

}  // namespace penstock::net
