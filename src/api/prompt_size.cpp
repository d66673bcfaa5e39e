#include "api/prompt_size.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace penstock::api {
namespace {

constexpr std::array<std::pair<std::string_view, Medium>, 13> kMedia{{{"image_url", Medium::kImage},
                                                                      {"input_image", Medium::kImage},
                                                                      {"image", Medium::kImage},
                                                                      {"image_pil", Medium::kImage},
                                                                      {"image_embeds", Medium::kImage},
                                                                      {"input_audio", Medium::kAudio},
                                                                      {"audio_url", Medium::kAudio},
                                                                      {"audio", Medium::kAudio},
                                                                      {"video_url", Medium::kFile},
                                                                      {"video", Medium::kFile},
                                                                      {"input_file", Medium::kFile},
                                                                      {"file", Medium::kFile},
                                                                      {"document", Medium::kFile}}};

std::size_t count_non_ascii(std::string_view text) {
  constexpr std::uint64_t kTopBitOfEachByte = 0x8080'8080'8080'8080;
  std::size_t count = 0, at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    count += static_cast<std::size_t>(std::popcount(word & kTopBitOfEachByte));
  }
  for (; at < text.size(); ++at) count += static_cast<unsigned char>(text[at]) >> 7;
  return count;
}

}  // namespace

Medium medium_of(std::string_view part_type) {
  const auto found =
      std::find_if(kMedia.begin(), kMedia.end(), [&](const auto& row) { return row.first == part_type; });
  return found == kMedia.end() ? Medium::kText : found->second;
}

void PromptSize::add(Medium medium, std::size_t bytes) {
  switch (medium) {
    case Medium::kText: return;
    case Medium::kImage: ++images; break;
    case Medium::kAudio: ++audios; break;
    case Medium::kFile: ++files; break;
  }
  media_bytes += bytes;
}

void PromptSize::note_field(std::string_view key, std::string_view quoted) {
  if (key == "type") return add(medium_of(quoted), 0);
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
