// How many tokens a request will take, before anybody has counted them.
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
  std::uint32_t output_tokens = 0;  // expected; never above max_tokens
  [[nodiscard]] std::uint64_t total() const { return std::uint64_t{prompt_tokens} + output_tokens; }
};

// Starts from priors (four bytes a token, 256 tokens of output) and learns from the answers' usage: bytes per token by
// model, output length by model, tenant and class; a tenant that is new begins with what is known of its model and class.
// An answer that max_tokens cut below the expected length says only that it would have been longer, and is not learnt.
// O(log keys); at most kKeysMax of each kind are kept, what is beyond them, or has a longer name, shares one.
// Not thread-safe.
class TokenEstimator {
 public:
  static constexpr std::size_t kKeysMax = 4096;
  static constexpr std::size_t kKeyBytesMax = 512;

  struct Request {
    std::string_view model, tenant, traffic_class;
    std::size_t text_bytes = 0;
    std::uint32_t prompt_tokens = 0;  // if the client sent token numbers: their count; else 0
    std::optional<std::uint32_t> max_tokens;
  };
  [[nodiscard]] TokenEstimate estimate(const Request& request) const;
  // An answer's usage, for the same request.
  void learn(const Request& request, std::uint32_t prompt_tokens, std::uint32_t output_tokens);

  // Mean absolute error over the mean of what was counted, of the latest estimates; none before there are ten.
  [[nodiscard]] std::optional<double> prompt_error() const;
  [[nodiscard]] std::optional<double> output_error() const;

 private:
  struct Ratio {  // exponentially forgetting
    double bytes = 0.0, tokens = 0.0;
  };
  struct Length {
    double mean = 0.0, weight = 0.0;
  };
  std::map<std::string, Ratio, std::less<>> ratios_;
  std::map<std::string, Length, std::less<>> lengths_;
  struct Errors {  // exponentially forgetting
    double missed = 0.0, counted = 0.0;
    std::uint64_t seen = 0;
    void add(double estimated, double was);
    [[nodiscard]] std::optional<double> relative() const;
  };
  [[nodiscard]] double bytes_per_token(std::string_view model) const;
  [[nodiscard]] double output_mean(const Request& request) const;
  void learn_length(std::string_view key, double tokens);

  Errors prompt_errors_, output_errors_;
};

}  // namespace penstock::admission
