// Estimates the tokens of a request before the engine has counted them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::admission {

struct TokenEstimate {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;  // Expected output tokens, at most max_tokens.
  [[nodiscard]] std::uint64_t total() const { return std::uint64_t{prompt_tokens} + output_tokens; }
};

// The bytes per token of a text depend on its script. A text of which a quarter of the bytes or more are not ASCII is
// kNonAscii.
enum class TextKind : std::uint8_t { kAscii, kNonAscii };
[[nodiscard]] const char* to_string(TextKind kind);  // Returns "ascii" or "non_ascii".

// No tokenizer makes more than one token of a byte, and none in use makes one token of more bytes than this.
inline constexpr std::uint32_t kBytesPerTokenMost = 16;
[[nodiscard]] constexpr std::uint64_t prompt_tokens_least(std::size_t text_bytes) {
  return text_bytes / kBytesPerTokenMost;
}

// Starts from priors (four bytes per token of ASCII, two of other text, 256 output tokens) and learns from reported
// usage: bytes per token by model, tenant and kind of text, output length by model, tenant and class. A tenant's
// traffic changes no other tenant's estimate. Answers that max_tokens truncated below the expected length are not
// learned, because they only give a lower bound. Prompts with media are not learned, because the tokens of their text
// are unknown. O(log keys). At most kKeysMax keys of each kind are stored; further keys and longer names keep the
// priors. Not thread-safe.
class TokenEstimator {
 public:
  static constexpr std::size_t kKeysMax = 16'384;
  static constexpr std::size_t kKeyBytesMax = 512;

  struct Request {
    std::string_view model, tenant, traffic_class;
    std::size_t text_bytes = 0;               // Of text alone.
    std::uint32_t prompt_tokens = 0;          // Number of token ids if the client sent ids; otherwise 0.
    std::optional<std::uint32_t> max_tokens;  // Of all answers together.
    TextKind text_kind = TextKind::kAscii;
    std::uint32_t media_tokens = 0;  // Tokens of images, audio and files, which are added to those of the text.
  };
  [[nodiscard]] TokenEstimate estimate(const Request& request) const;
  [[nodiscard]] std::uint32_t expected_output(const Request& request) const;  // Of estimate(), alone.
  // Updates the estimates with the reported usage of the same request.
  void learn(const Request& request, std::uint32_t prompt_tokens, std::uint32_t output_tokens);

  // Returns the mean absolute error relative to the mean of the counted tokens, over recent estimates; empty before ten
  // answers.
  [[nodiscard]] std::optional<double> prompt_error() const;
  [[nodiscard]] std::optional<double> output_error() const;

 private:
  struct Ratio {  // Sums with exponential decay.
    double bytes = 0.0, tokens = 0.0;
  };
  struct Length {
    double mean = 0.0, weight = 0.0;
    void add(double tokens);
  };
  std::map<std::string, Ratio, std::less<>> ratios_;
  std::map<std::string, Length, std::less<>> lengths_;
  struct Errors {  // Sums with exponential decay.
    double absolute_error = 0.0, counted = 0.0;
    std::uint64_t samples = 0;
    void add(double estimated, double actual);
    [[nodiscard]] std::optional<double> relative() const;
  };
  // Null stands for an entry that does not exist.
  [[nodiscard]] static std::uint32_t prompt_estimate(const Request& request, const Ratio* learned);
  [[nodiscard]] static double output_mean(const Length* learned);

  Errors prompt_errors_, output_errors_;
};

}  // namespace penstock::admission
