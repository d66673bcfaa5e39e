// Prompt beginnings that many requests share, which are sent to engines that do not hold them yet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "core/time.h"

namespace penstock::gateway {

struct PrefixText {
  std::string model;
  api::Endpoint endpoint = api::Endpoint::kChatCompletions;
  std::vector<std::uint64_t> keys;  // See api/prompt_keys.h.
  std::uint32_t tokens = 0;         // Approximate.
  std::string body;                 // A request with max_tokens 1 that makes an engine compute the prefix.
};

struct HotPrefix {
  std::shared_ptr<const PrefixText> text;
  std::uint64_t hits = 0;  // Requests that began with it in the five to ten minutes before its last use.
  core::Instant used_at;   // Last use by a user's request.
};

struct HotPrefixCacheOptions {
  std::uint32_t key_tokens = 256;
  std::uint64_t hits_min = 3;            // Hits after which a text is stored.
  std::size_t text_bytes_max = 1 << 17;  // Limit of one prefix; a longer one is cut.
  std::size_t bytes_max = 1 << 22;       // Limit of all bodies together.
  std::size_t prefixes_max = 64;
  std::size_t body_bytes_max = 1 << 18;             // Limit of a request whose text is stored.
  core::Duration window = std::chrono::minutes{5};  // Hits are counted over the current window and the previous one.
  core::Duration hot = std::chrono::minutes{30};    // A prefix is hot for this time after its last use.
  // Minimum time between two texts, because storing one takes milliseconds.
  core::Duration between_texts = std::chrono::seconds{1};
};

// Counts have a fixed size and drop rare keys, so that prompts without a shared prefix cost nothing. Of the prefixes of
// one prompt, the one with the highest hits · tokens is kept; when the cache is full, those with the lowest are removed
// first. Any thread may call it; its lock is held for some microseconds.
class HotPrefixCache {
 public:
  explicit HotPrefixCache(const HotPrefixCacheOptions& options);

  // Counts an accepted request with the keys of its text. Occasionally stores the text, which requires parsing the
  // body.
  void offer(const api::InferenceRequest& request, std::string_view body, std::span<const std::uint64_t> keys,
             core::Instant now);

  // Returns the prefixes of one model, or of all models if `model` is empty, ordered by hits · tokens, highest first.
  [[nodiscard]] std::vector<HotPrefix> hot(std::string_view model, core::Instant now) const;

 private:
  // Counts of keys; the lowest count of a row is replaced by a new key.
  struct Counts {
    struct Place {
      std::uint64_t key = 0;
      std::uint64_t count = 0;
    };
    static constexpr std::size_t kPlaces = 1 << 15, kRow = 8;
    std::vector<Place> places = std::vector<Place>(kPlaces);
    [[nodiscard]] Place* find(std::uint64_t key);
    std::uint64_t add(std::uint64_t key);
    [[nodiscard]] std::uint64_t of(std::uint64_t key);
  };

  [[nodiscard]] std::size_t saw(std::uint64_t model, std::span<const std::uint64_t> keys, core::Instant now);
  void turn(core::Instant now);
  void keep(std::uint64_t name, HotPrefix prefix);

  const HotPrefixCacheOptions options_;
  mutable std::mutex mutex_;
  Counts now_, before_;
  core::Instant turned_at_;
  core::Instant next_text_;
  std::map<std::uint64_t, HotPrefix> kept_;  // By the model and the last key.
  std::size_t bytes_ = 0;
};

}  // namespace penstock::gateway
