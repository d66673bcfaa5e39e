#include "net/body.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace penstock::net {
namespace {

constexpr std::size_t kGrowthBytesMax = 4 * 1024 * 1024;

}  // namespace

void Body::Free::operator()(char* bytes) const { std::free(bytes); }

bool Body::charge_to(MemoryAccount& account) {
  if (hold_.account() == &account) return true;
  MemoryHold hold{account};
  if (!hold.resize(hold_.bytes())) return false;
  hold_ = std::move(hold);
  return true;
}

bool Body::reserve(std::size_t bytes) {
  const std::size_t wanted = std::max(bytes, capacity_);
  if (wanted == 0) return true;
  const std::size_t held = hold_.bytes();
  if (wanted > held && !hold_.resize(counted_bytes(wanted))) return false;
  if (bytes <= capacity_) return true;
  auto* const grown = static_cast<char*>(std::realloc(bytes_.get(), bytes + kPadding));
  if (grown == nullptr) {
    static_cast<void>(hold_.resize(held));
    return false;
  }
  static_cast<void>(bytes_.release());
  bytes_.reset(grown);
  capacity_ = bytes;
  return true;
}

bool Body::append(std::string_view bytes, std::size_t whole_max) {
  if (bytes.empty()) return true;
  const std::size_t needed = size_ + bytes.size();
  const std::size_t grown = std::min(capacity_ + std::min(capacity_, kGrowthBytesMax), whole_max);
  if (!reserve(needed > capacity_ ? std::max(needed, grown) : needed)) return false;
  std::memcpy(end(), bytes.data(), bytes.size());
  size_ = needed;
  return true;
}

void Body::pad() {
  if (bytes_ != nullptr) std::memset(end(), ' ', kPadding);
}

void Body::clear(std::size_t kept_bytes_max) {
  size_ = 0;
  hold_ = {};
  if (capacity_ <= kept_bytes_max) return;
  bytes_.reset();
  capacity_ = 0;
}

}  // namespace penstock::net
