// The choice of a replica by the live gateway: percentiles of single calls, by number of replicas and kind of prompt,
// with a million keys held in all. Prints its own table, because a mean would hide what p99 is about.
#include <malloc.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "core/random.h"
#include "core/sketch.h"
#include "routing/endpoint_picker.h"

namespace {

using namespace penstock;

constexpr std::uint32_t kKeysHeld = 1'000'000;
constexpr std::uint32_t kCalls = 20'000;
constexpr std::uint32_t kKeyTokens = 256;

struct Shape {
  const char* name;
  std::uint32_t system;            // keys that all prompts of all families share
  std::uint32_t shared;            // keys that a family shares
  std::uint32_t own_min, own_max;  // keys of one prompt alone
};
constexpr Shape kShapes[] = {{"nothing shared", 0, 0, 8, 220},
                             {"short, shared prefix", 2, 4, 2, 6},
                             {"system prompt held by all", 40, 24, 4, 60},
                             {"long shared prefix", 8, 160, 20, 52}};

class Prompts {
 public:
  Prompts(const Shape& shape, std::uint32_t families) : shape_(shape), families_(families) {}

  void next(core::RandomStream& random, std::vector<std::uint64_t>& keys) {
    const std::uint64_t family = random.below(families_);
    const auto own = shape_.own_min + static_cast<std::uint32_t>(random.below(shape_.own_max - shape_.own_min + 1));
    keys.clear();
    for (std::uint32_t i = 0; i < shape_.system; ++i) keys.push_back(core::mix64(i + 1));
    for (std::uint32_t i = 0; i < shape_.shared; ++i) keys.push_back(core::mix64((family + 1) << 32 | i));
    for (std::uint32_t i = 0; i < own; ++i) keys.push_back(core::mix64(fresh_++));
  }

 private:
  const Shape& shape_;
  std::uint64_t families_;
  std::uint64_t fresh_ = std::uint64_t{1} << 60;
};

double used_mb() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / 1e6;
}

void measure(std::uint32_t replicas, const Shape& shape) {
  const double before_mb = used_mb();
  core::RandomStream random{1};
  routing::EndpointPickerOptions options;
  options.keys_per_replica = kKeysHeld / replicas;
  routing::EndpointPicker picker{options, random.fork("picker")};
  Prompts prompts{shape, replicas * 4};
  core::Instant now = core::kStart;
  for (std::uint32_t slot = 0; slot < replicas; ++slot) picker.add(slot, now);
  now += std::chrono::minutes{1};

  std::vector<std::uint64_t> keys;
  struct Open {
    routing::Selection selection;
    std::uint32_t input_tokens;
  };
  std::vector<Open> open;
  core::QuantileSketch choose_us, dispatch_us;
  const auto serve = [&](bool timed) {
    prompts.next(random, keys);
    now += std::chrono::microseconds{200};
    const routing::PickRequest ask{.keys = keys,
                                   .input_tokens = static_cast<std::uint32_t>(keys.size()) * kKeyTokens + 100,
                                   .key_tokens = kKeyTokens,
                                   .output_tokens = 200};
    const auto began = std::chrono::steady_clock::now();
    const auto selection = picker.choose(ask, now);
    const auto chosen = std::chrono::steady_clock::now();
    picker.dispatched(ask, *selection, now);
    const auto dispatched = std::chrono::steady_clock::now();
    if (timed) {
      choose_us.add(std::chrono::duration<double, std::micro>(chosen - began).count());
      dispatch_us.add(std::chrono::duration<double, std::micro>(dispatched - chosen).count());
    }
    open.push_back({*selection, ask.input_tokens});
    // About ten requests per replica are in flight; the older half of them has its first token.
    if (open.size() < std::size_t{10} * replicas) return;
    const auto at = static_cast<std::size_t>(random.below(open.size()));
    const Open ended = open[at];
    open[at] = open.back();
    open.pop_back();
    picker.first_token(ended.selection.slot, ended.selection.uncached_tokens,
                       std::chrono::milliseconds{50 + random.below(400)}, now);
    picker.finished(ended.selection.slot, ended.selection.uncached_tokens, ended.input_tokens, 200, true);
  };

  const auto held = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < replicas; ++slot) sum += picker.load(slot, now).keys;
    return sum;
  };
  for (std::uint32_t i = 0; i < 200'000 && (i % 1024 != 0 || held() < kKeysHeld * 99ULL / 100); ++i) serve(false);
  for (std::uint32_t i = 0; i < kCalls; ++i) serve(true);
  const double keys_held = static_cast<double>(held());
  std::printf("%8u  %-26s %9.0f %10.2f %8.2f %8.2f %8.1f %12.1f %8.1f %8.0f\n", replicas, shape.name, keys_held,
              choose_us.quantile(0.5), choose_us.quantile(0.99), choose_us.quantile(0.999), choose_us.max(),
              dispatch_us.quantile(0.5), dispatch_us.quantile(0.99), used_mb() - before_mb);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::puts(
      "replicas  prompts                    keys held choose p50      p99    p99.9      max dispatch p50      p99"
      "       MB   (microseconds; single calls)");
  for (const Shape& shape : kShapes)
    for (const std::uint32_t replicas : {2U, 64U, 256U}) measure(replicas, shape);
  std::puts("peer: Dynamo's scheduling, mean by its own metrics in another run: 123 us with 2 workers, 188 us with 64");
}
