// What the gateway does with a request before it is routed, and with each event of its answer.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "api/answer_watch.h"
#include "api/prompt_keys.h"
#include "api/request.h"

namespace {

using namespace penstock;

constexpr std::uint32_t kBlockBytes = 256 * api::kBytesPerToken;

// Prose with a line end in every 80 characters, as JSON has it.
std::string chat(std::size_t bytes) {
  std::string content;
  while (content.size() < bytes)
    content += "The quick brown fox jumps over the lazy dog, \\\"twice\\\", and then it goes back home.\\n";
  return R"({"model":"meta-llama/Llama-3.1-8B-Instruct","messages":[{"role":"system","content":"You are brief."},)"
         R"({"role":"user","content":")" +
         content + R"("}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":256,"temperature":0.7})";
}

void count(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}

void read(benchmark::State& state) {
  const std::string body = chat(static_cast<std::size_t>(state.range(0)));
  api::RequestReader reader;
  api::InferenceRequest request;
  for (auto _ : state) benchmark::DoNotOptimize(reader.read(api::Endpoint::kChatCompletions, body, request));
  count(state, body.size());
}
BENCHMARK(read)->Arg(700)->Arg(220'000)->ArgName("bytes")->Unit(benchmark::kMicrosecond);

void read_and_keys(benchmark::State& state) {
  const std::string body = chat(static_cast<std::size_t>(state.range(0)));
  api::RequestReader reader;
  api::InferenceRequest request;
  std::vector<std::uint64_t> keys;
  for (auto _ : state) {
    benchmark::DoNotOptimize(reader.read(api::Endpoint::kChatCompletions, body, request));
    api::prompt_keys(request.text, kBlockBytes, keys);
    benchmark::DoNotOptimize(keys.data());
  }
  count(state, body.size());
}
BENCHMARK(read_and_keys)->Arg(700)->Arg(220'000)->ArgName("bytes")->Unit(benchmark::kMicrosecond);

void prompt_keys(benchmark::State& state) {
  const std::string text(220'000, 'x');
  std::vector<std::uint64_t> keys;
  for (auto _ : state) {
    api::prompt_keys(text, static_cast<std::uint32_t>(state.range(0)), keys);
    benchmark::DoNotOptimize(keys.data());
  }
  count(state, text.size());
}
BENCHMARK(prompt_keys)->Arg(64)->Arg(kBlockBytes)->ArgName("block_bytes")->Unit(benchmark::kMicrosecond);

void prefill_body(benchmark::State& state) {
  const std::string body = chat(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(api::prefill_body(body));
  count(state, body.size());
}
BENCHMARK(prefill_body)->Arg(700)->Arg(220'000)->ArgName("bytes")->Unit(benchmark::kMicrosecond);

const api::AnswerFrame kFrame{"chatcmpl-0123456789abcdef0123456789abcdef", "meta-llama/Llama-3.1-8B-Instruct",
                              1'700'000'000, true};

void text_event(benchmark::State& state) {
  std::string out;
  for (auto _ : state) {
    out.clear();
    api::append_text_event(out, kFrame, " quick");
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(text_event);

// One event a piece, as engines send them; in chunks, whole or cut in two.
void watch_event(benchmark::State& state) {
  std::string event;
  api::append_text_event(event, kFrame, " quick");
  char size[20];
  const int digits = std::snprintf(size, sizeof size, "%zx", event.size());
  const std::string framed = std::string(size, static_cast<std::size_t>(digits)) + "\r\n" + event + "\r\n";
  const auto pieces = static_cast<std::size_t>(state.range(0));
  api::AnswerWatch watch;
  watch.reset(true);
  for (auto _ : state)
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t begin = framed.size() * piece / pieces, end = framed.size() * (piece + 1) / pieces;
      benchmark::DoNotOptimize(watch.take(std::string_view{framed}.substr(begin, end - begin)));
    }
  if (watch.text_events() != state.iterations()) state.SkipWithError("it does not count");
  count(state, framed.size());
}
BENCHMARK(watch_event)->Arg(1)->Arg(2)->ArgName("pieces");

}  // namespace
