// The texts of prompt beginnings that many requests share, to be sent to engines that do not hold them yet.
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
  std::vector<std::uint64_t> keys;  // api/prompt_keys.h
  std::uint32_t tokens = 0;         // about
  std::string body;                 // a request that makes an engine compute it; max_tokens 1
};

struct HotPrefix {
  std::shared_ptr<const PrefixText> text;
  std::uint64_t hits = 0;  // requests that began with it, in the last five to ten minutes before its last use
  core::Instant used_at;   // by a user
};

struct HotPrefixCacheOptions {
  std::uint32_t key_tokens = 256;
  std::uint64_t hits_min = 3;            // before any text is kept
  std::size_t text_bytes_max = 1 << 17;  // of one prefix; of a longer one, the beginning
  std::size_t bytes_max = 1 << 22;       // of all bodies
  std::size_t prefixes_max = 64;
  std::size_t body_bytes_max = 1 << 18;                    // of a request whose text is taken
  core::Duration window = std::chrono::minutes{5};         // hits are counted over this one and the last
  core::Duration hot = std::chrono::minutes{30};           // since the last use
  core::Duration between_texts = std::chrono::seconds{1};  // taking one keeps a thread for milliseconds
};

// Counts are of a fixed size and forget what is seen seldom, so that prompts that nobody shares cost nothing. Of the
// prefixes of one prompt, the one with the most hits · tokens is kept; on a full hot_prefix_cache, those with the least go first.
// Any thread; its lock is held for some microseconds.
class HotPrefixCache {
 public:
  explicit HotPrefixCache(const HotPrefixCacheOptions& options);

  // A request that was accepted. `keys` are those of its text. Now and then takes the text, which parses the body.
  void offer(const api::InferenceRequest& request, std::string_view body, std::span<const std::uint64_t> keys,
             core::Instant now);

  // Those of one model, or of all where it is empty; most hits · tokens first.
  [[nodiscard]] std::vector<HotPrefix> hot(std::string_view model, core::Instant now) const;

 private:
  // Counts of keys; in each row, the least is given up for a new one.
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
  std::map<std::uint64_t, HotPrefix> kept_;  // by the model and the last key
  std::size_t bytes_ = 0;
};

}  // namespace penstock::gateway
