// The main function of a fuzz target where libFuzzer is not: replays a corpus, then mutations of it that depend on
// their number alone, so that any of them can be repeated.
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using penstock::core::RandomStream;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMutatedBytesMax = 1 << 16;  // longer files are replayed, but cut before they are mutated
constexpr std::uint64_t kSeed = 1;

struct Options {
  std::uint64_t mutations = 0;
  std::uint64_t only = UINT64_MAX;  // this mutation and no other
  std::string write_to;             // where to leave the mutation of --only instead of running it
  std::vector<std::string> folders;
};

// What runs now, for the handler of a crash; written before each input, since a handler may not allocate.
char current_input[512];

void tell_input(int signal) {
  const auto written = write(STDERR_FILENO, current_input, std::strlen(current_input));
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run_input(const Bytes& bytes) {
  // A copy of exactly this size lets AddressSanitizer see a read past the end.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<std::string> files_of(const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const auto& folder : folders) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator{folder, error})
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    if (error) std::fprintf(stderr, "%s: cannot be read: %s\n", folder.c_str(), error.message().c_str());
    if (error) return {};
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes read(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return Bytes{std::istreambuf_iterator<char>{file}, {}};
}

// Bytes that parsers of numbers, JSON, CSV and YAML tend to trip over.
constexpr std::string_view kTokens[] = {"-1",         "0",     "1e999",   "18446744073709551616",
                                        "4294967296", "nan",   "\"",      "{",
                                        "[",          "}",     "]",       ",",
                                        ":",          "\n",    "\r",      "\t",
                                        "- ",         "&a *a", "\\u0000", "#",
                                        "''",         "é",     "~",       "null",
                                        "\xff\xfe",   ";"};

void mutate_once(Bytes& bytes, const std::vector<Bytes>& corpus, RandomStream& random) {
  const auto position = [&] { return static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1)); };
  const auto range = [&] {
    const auto [low, high] = std::minmax({position(), position()});
    return std::pair{bytes.begin() + low, bytes.begin() + high};
  };
  switch (random.below(6)) {
    case 0:  // flip a bit
      if (!bytes.empty()) bytes[random.below(bytes.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
      break;
    case 1:  // set a byte
      if (!bytes.empty()) bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.below(256));
      break;
    case 2: {  // insert a token
      const auto& token = kTokens[random.below(std::size(kTokens))];
      bytes.insert(bytes.begin() + position(), token.begin(), token.end());
      break;
    }
    case 3: {  // remove a range
      const auto [begin, end] = range();
      bytes.erase(begin, end);
      break;
    }
    case 4: {  // repeat a range elsewhere
      const auto [begin, end] = range();
      const Bytes copy(begin, end);
      bytes.insert(bytes.begin() + position(), copy.begin(), copy.end());
      break;
    }
    default: {  // go on with the end of another input
      const Bytes& other = corpus[random.below(corpus.size())];
      bytes.erase(bytes.begin() + position(), bytes.end());
      bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(random.below(other.size() + 1)),
                   other.end());
    }
  }
  if (bytes.size() > kMutatedBytesMax) bytes.resize(kMutatedBytesMax);
}

Bytes mutation(std::uint64_t number, const std::vector<Bytes>& corpus) {
  RandomStream random = RandomStream{kSeed}.fork(number);
  Bytes bytes = corpus[random.below(corpus.size())];
  const std::uint64_t changes = 1 + random.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) mutate_once(bytes, corpus, random);
  return bytes;
}

bool parse(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const bool is_number = argument == "--mutations" || argument == "--only";
    if (!is_number && argument != "--write") {
      if (argument.starts_with("--")) return false;
      options.folders.emplace_back(argument);
      continue;
    }
    if (++i == count) return false;
    const std::string_view value = arguments[i];
    if (!is_number) {
      options.write_to = value;
      continue;
    }
    std::uint64_t& number = argument == "--only" ? options.only : options.mutations;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size()) return false;
  }
  return !options.folders.empty();
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) {
    std::fprintf(stderr, "usage: %s [--mutations N] [--only NUMBER [--write FILE]] FOLDER...\n", arguments[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, tell_input);

  std::vector<Bytes> corpus;
  const bool all = options.only == UINT64_MAX;
  const auto files = files_of(options.folders);
  if (files.empty()) {
    std::fprintf(stderr, "%s: no inputs; a fuzz target starts from a corpus\n", options.folders.front().c_str());
    return 2;
  }
  for (const auto& file : files) {
    corpus.push_back(read(file));
    std::snprintf(current_input, sizeof current_input, "\nfailed on the input %s\n", file.c_str());
    if (all) run_input(corpus.back());
  }
  for (auto& bytes : corpus) bytes.resize(std::min(bytes.size(), kMutatedBytesMax));

  const std::uint64_t first = all ? 0 : options.only;
  const std::uint64_t last = all ? options.mutations : options.only + 1;
  for (std::uint64_t number = first; number < last; ++number) {
    const Bytes bytes = mutation(number, corpus);
    if (!all && !options.write_to.empty()) {
      std::ofstream{options.write_to, std::ios::binary}.write(reinterpret_cast<const char*>(bytes.data()),
                                                              static_cast<std::streamsize>(bytes.size()));
      return 0;
    }
    std::snprintf(current_input, sizeof current_input,
                  "\nfailed on mutation %llu; repeat it with: %s --only %llu %s (--write FILE keeps the input)\n",
                  static_cast<unsigned long long>(number), arguments[0], static_cast<unsigned long long>(number),
                  options.folders.front().c_str());
    run_input(bytes);
  }
  std::printf("%zu inputs and %llu mutations\n", files.size(), static_cast<unsigned long long>(last - first));
}
