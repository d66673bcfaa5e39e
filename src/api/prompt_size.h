// What the reader of a request counts for the estimate of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::api {

enum class Medium : std::uint8_t { kText, kImage, kAudio, kFile, kEmbeds };
// By the `type` of a part of a message: "image_url" is an image, "video_url" and "input_file" count as files,
// "prompt_embeds" are the tensors of a prompt. Types that are not known are text.
[[nodiscard]] Medium medium_of(std::string_view part_type);

// The media of a part of a message. vLLM goes by the fields of a part with a uuid, and by the type of any other.
class MediaOfPart {
 public:
  void note_type(std::string_view type) { of_type_ |= bit(medium_of(type)); }
  void note_field(std::string_view name, bool is_null) {
    of_fields_ |= bit(medium_of(name));
    has_uuid_ = has_uuid_ || (name == "uuid" && !is_null);
  }
  [[nodiscard]] bool has(Medium medium) const { return (all() & bit(medium)) != 0; }
  [[nodiscard]] bool any() const { return (all() & ~bit(Medium::kText)) != 0; }

 private:
  static constexpr unsigned bit(Medium medium) { return 1U << static_cast<unsigned>(medium); }
  [[nodiscard]] unsigned all() const { return of_type_ | (has_uuid_ ? of_fields_ : 0U); }

  unsigned of_type_ = 0, of_fields_ = 0;  // One bit for each Medium.
  bool has_uuid_ = false;
};

struct PromptSize {
  std::size_t text_bytes = 0;       // Bytes of text, without media. Text that goes into several prompts counts in each.
  std::size_t non_ascii_bytes = 0;  // Bytes above 127 in the prompt.
  std::uint32_t images = 0, audios = 0, files = 0;
  bool has_embeds = false;         // A part holds the tensors of a prompt.
  std::size_t media_bytes = 0;     // Bytes of InferenceRequest::text that are no text.
  std::uint64_t prompts = 1;       // Prompts in a list, or pairs of texts.
  std::uint64_t choices = 1;       // Answers to each prompt that an engine computes.
  std::size_t rendered_bytes = 0;  // Bytes of other fields that the template of a chat may render into the prompt.
  std::size_t shared_bytes = 0;    // Bytes that each pair of texts contains.

  void add(const MediaOfPart& media, std::size_t bytes);
  // Looks for media in a field of a part; `quoted` is the text between the quotes of a string.
  void note_field(std::string_view key, std::string_view quoted);
  // A field of a reranking or scoring request has `values` texts in `bytes` bytes. One text is paired with each of the
  // others.
  void note_texts(std::uint64_t values, std::size_t bytes);
  void finish(std::string_view text);
};

}  // namespace penstock::api
