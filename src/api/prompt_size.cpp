#include "api/prompt_size.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/byte_words.h"

namespace penstock::api {
namespace {

constexpr std::array<std::pair<std::string_view, Medium>, 16> kMedia{{{"image_url", Medium::kImage},
                                                                      {"input_image", Medium::kImage},
                                                                      {"image", Medium::kImage},
                                                                      {"image_pil", Medium::kImage},
                                                                      {"image_embeds", Medium::kImage},
                                                                      {"input_audio", Medium::kAudio},
                                                                      {"audio_url", Medium::kAudio},
                                                                      {"audio", Medium::kAudio},
                                                                      {"audio_embeds", Medium::kAudio},
                                                                      {"video_embeds", Medium::kFile},
                                                                      {"video_url", Medium::kFile},
                                                                      {"video", Medium::kFile},
                                                                      {"input_file", Medium::kFile},
                                                                      {"file", Medium::kFile},
                                                                      {"document", Medium::kFile},
                                                                      {"prompt_embeds", Medium::kEmbeds}}};

std::size_t count_non_ascii(std::string_view text) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const char* at = text.data();
  const char* const end = at + text.size();
  std::size_t count = 0;
  const auto count_word = [&] {
    // The product has the sum of the bytes in its top byte.
    count +=
        static_cast<std::size_t>(((core::load_word(at) & core::kTopBitOfEachByte) >> 7) * core::kOneOfEachByte >> 56);
    at += kWord;
  };
  while (end - at >= static_cast<std::ptrdiff_t>(4 * kWord)) {
    const std::uint64_t any = core::load_word(at) | core::load_word(at + kWord) | core::load_word(at + 2 * kWord) |
                              core::load_word(at + 3 * kWord);
    if ((any & core::kTopBitOfEachByte) == 0) {
      at += 4 * kWord;
    } else {
      for (int i = 0; i < 4; ++i) count_word();
    }
  }
  while (end - at >= static_cast<std::ptrdiff_t>(kWord)) count_word();
  for (; at < end; ++at) count += static_cast<unsigned char>(*at) >> 7;
  return count;
}

}  // namespace

Medium medium_of(std::string_view part_type) {
  const auto found =
      std::find_if(kMedia.begin(), kMedia.end(), [&](const auto& row) { return row.first == part_type; });
  return found == kMedia.end() ? Medium::kText : found->second;
}

void PromptSize::add(const MediaOfPart& media, std::size_t bytes) {
  images += media.has(Medium::kImage) ? 1 : 0;
  audios += media.has(Medium::kAudio) ? 1 : 0;
  files += media.has(Medium::kFile) ? 1 : 0;
  has_embeds = has_embeds || media.has(Medium::kEmbeds);
  // The bytes of tensors bound their tokens, and count as text.
  if (media.any() && !media.has(Medium::kEmbeds)) media_bytes += bytes;
}

void PromptSize::note_field(std::string_view key, std::string_view quoted) {
  if (key == "type") {
    MediaOfPart media;
    media.note_type(quoted);
    return add(media, 0);
  }
  if (key == "data" || key == "file_data" || quoted.starts_with("data:")) media_bytes += quoted.size();
}

void PromptSize::note_texts(std::uint64_t values, std::size_t bytes) {
  if (values <= 1) shared_bytes += bytes;
  prompts = std::max(prompts, values);
}

void PromptSize::finish(std::string_view text) {
  non_ascii_bytes = count_non_ascii(text);
  text_bytes = text.size() - std::min(text.size(), media_bytes) + shared_bytes * (prompts - 1);
}

}  // namespace penstock::api
