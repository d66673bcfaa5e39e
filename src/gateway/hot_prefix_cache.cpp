#include "gateway/hot_prefix_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "api/prefix_body.h"
#include "api/prompt_keys.h"

namespace penstock::gateway {
namespace {

// A longer prefix replaces its shorter beginnings only if it saves this many times more; otherwise a growing
// conversation would be stored at each turn.
constexpr std::uint64_t kMuchMore = 2;

std::uint64_t name_of(std::uint64_t model, std::uint64_t key) { return std::max<std::uint64_t>(model ^ key, 1); }
std::uint64_t saved(const HotPrefix& prefix) { return prefix.hits * prefix.text->keys.size(); }

}  // namespace

HotPrefixCache::HotPrefixCache(const HotPrefixCacheOptions& options) : options_(options) {}

HotPrefixCache::Counts::Place* HotPrefixCache::Counts::find(std::uint64_t key) {
  Place* const row = &places[key % (kPlaces / kRow) * kRow];
  Place* const end = row + kRow;
  Place* const found = std::find_if(row, end, [&](const Place& place) { return place.key == key; });
  return found == end ? nullptr : found;
}

std::uint64_t HotPrefixCache::Counts::add(std::uint64_t key) {
  if (Place* const known = find(key)) return ++known->count;
  Place* const row = &places[key % (kPlaces / kRow) * kRow];
  *std::min_element(row, row + kRow, [](const Place& a, const Place& b) { return a.count < b.count; }) = {key, 1};
  return 1;
}

std::uint64_t HotPrefixCache::Counts::of(std::uint64_t key) {
  const Place* const known = find(key);
  return known == nullptr ? 0 : known->count;
}

void HotPrefixCache::offer(const api::InferenceRequest& request, std::string_view body,
                           std::span<const std::uint64_t> keys, core::Instant now) {
  const std::size_t key_bytes = std::size_t{options_.key_tokens} * api::kBytesPerToken;
  keys = keys.first(std::min(keys.size(), options_.text_bytes_max / key_bytes));
  if (keys.empty() || body.size() > options_.body_bytes_max) return;
  const std::uint64_t model = XXH3_64bits(request.model.data(), request.model.size());
  const std::size_t wanted = saw(model, keys, now);
  if (wanted == 0) return;
  auto made = api::prefix_body(request.endpoint, body, wanted * key_bytes);
  if (!made || made->text_bytes < key_bytes || made->body.size() > options_.bytes_max) return;
  keys = keys.first(std::min(wanted, made->text_bytes / key_bytes));
  auto text = std::make_shared<PrefixText>();
  text->model = request.model;
  text->endpoint = request.endpoint;
  text->keys.assign(keys.begin(), keys.end());
  text->tokens = static_cast<std::uint32_t>(keys.size()) * options_.key_tokens;
  text->body = std::move(made->body);
  const std::uint64_t name = name_of(model, keys.back());
  const std::scoped_lock lock{mutex_};
  keep(name, {std::move(text), now_.of(name) + before_.of(name), now});
}

// Returns the number of keys whose text is stored; 0 means none.
std::size_t HotPrefixCache::saw(std::uint64_t model, std::span<const std::uint64_t> keys, core::Instant now) {
  const std::scoped_lock lock{mutex_};
  turn(now);
  std::uint64_t most = 0, kept_already = 0;
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t name = name_of(model, keys[i]);
    const std::uint64_t hits = now_.add(name) + before_.of(name);
    if (hits < options_.hits_min) continue;
    const std::uint64_t saves = hits * (i + 1);
    if (saves >= most) {
      most = saves;
      wanted = i + 1;
    }
    const auto known = kept_.find(name);
    if (known == kept_.end()) continue;
    known->second.hits = hits;
    known->second.used_at = now;
    kept_already = std::max(kept_already, saves);
  }
  if (wanted == 0 || most < kMuchMore * kept_already || now < next_text_) return 0;
  next_text_ = now + options_.between_texts;
  return wanted;
}

void HotPrefixCache::turn(core::Instant now) {
  if (now < turned_at_ + options_.window) return;
  const bool long_ago = now >= turned_at_ + 2 * options_.window;
  turned_at_ = now;
  std::swap(now_, before_);
  now_ = Counts{};
  if (long_ago) before_ = Counts{};
  std::erase_if(kept_, [&](const auto& each) {
    const bool cold = now - each.second.used_at > options_.hot;
    if (cold) bytes_ -= each.second.text->body.size();
    return cold;
  });
}

void HotPrefixCache::keep(std::uint64_t name, HotPrefix prefix) {
  const std::size_t added = prefix.text->body.size();
  HotPrefix& place = kept_[name];
  bytes_ += added;
  if (place.text) bytes_ -= place.text->body.size();
  place = std::move(prefix);
  while (kept_.size() > options_.prefixes_max || bytes_ > options_.bytes_max) {
    const auto least = std::min_element(kept_.begin(), kept_.end(),
                                        [](const auto& a, const auto& b) { return saved(a.second) < saved(b.second); });
    bytes_ -= least->second.text->body.size();
    kept_.erase(least);
  }
}

std::vector<HotPrefix> HotPrefixCache::hot(std::string_view model, core::Instant now) const {
  std::vector<HotPrefix> found;
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& [name, prefix] : kept_)
      if ((model.empty() || prefix.text->model == model) && now - prefix.used_at <= options_.hot)
        found.push_back(prefix);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const HotPrefix& a, const HotPrefix& b) { return saved(a) > saved(b); });
  return found;
}

}  // namespace penstock::gateway
