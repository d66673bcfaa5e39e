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

// Starts from priors (four bytes per token, 256 output tokens) and learns from reported usage: bytes per token by
// model, output length by model, tenant and class. A new tenant starts with the values of its model and class. Answers
// that max_tokens truncated below the expected length are not learned, because they only give a lower bound. O(log
// keys). At most kKeysMax keys of each kind are stored; further keys and longer names share one entry. Not thread-safe.
class TokenEstimator {
 public:
  static constexpr std::size_t kKeysMax = 4096;
  static constexpr std::size_t kKeyBytesMax = 512;

  struct Request {
    std::string_view model, tenant, traffic_class;
    std::size_t text_bytes = 0;
    std::uint32_t prompt_tokens = 0;  // Number of token ids if the client sent ids; otherwise 0.
    std::optional<std::uint32_t> max_tokens;
  };
  [[nodiscard]] TokenEstimate estimate(const Request& request) const;
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
  [[nodiscard]] double bytes_per_token(std::string_view model) const;
  // Null stands for an entry that does not exist.
  [[nodiscard]] static double output_mean(const Length* of_class, const Length* of_tenant);

  Errors prompt_errors_, output_errors_;
};

}  // namespace penstock::admission
