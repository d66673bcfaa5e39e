#include "connect/kubernetes/watch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock::connect {
namespace {

constexpr std::string_view kEvents =
    "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"}}}\n"
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"9\"}}}\n"
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"message\":\"too old resource version: 305 (306)\","
    "\"reason\":\"Expired\",\"code\":410}}\n";

struct Read {
  std::vector<std::string> events;
  bool is_good = true;
  std::string problem;
};
Read read(std::string_view bytes, std::size_t piece) {
  Read read;
  WatchStream stream;
  for (; !bytes.empty() && read.is_good; bytes.remove_prefix(std::min(piece, bytes.size())))
    read.is_good = stream.take(bytes.substr(0, piece), [&](WatchEventType type, const nlohmann::json& object) {
      read.events.push_back(std::to_string(static_cast<int>(type)) + object.dump());
      return true;
    });
  read.problem = stream.problem();
  return read;
}

TEST(WatchStream, IsTheSameInPiecesOfAnySize) {
  const Read whole = read(kEvents, kEvents.size());
  ASSERT_EQ(whole.events.size(), 3U);
  EXPECT_EQ(whole.events[1], R"(3{"kind":"Pod","metadata":{"resourceVersion":"9"}})");
  for (std::size_t piece = 1; piece < 200; ++piece) EXPECT_EQ(read(kEvents, piece).events, whole.events) << piece;
}

TEST(WatchStream, DropsALineThatWasCut) {
  for (std::size_t size = 0; size < kEvents.size(); ++size) {
    const Read cut = read(kEvents.substr(0, size), 7);
    EXPECT_TRUE(cut.is_good);
    const auto lines = kEvents.substr(0, size);
    EXPECT_EQ(cut.events.size(), static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')));
  }
}

TEST(WatchStream, RefusesWhatIsNoEvent) {
  for (const char* text : {"{}\n", "[]\n", "null\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"ADDED\",\"object\":[]}\n",
                           "{\"type\":1,\"object\":{}}\n", "{\"type\":\"MOVED\",\"object\":{}}\n", "<html>\n"}) {
    const Read refused = read(text, 3);
    EXPECT_FALSE(refused.is_good) << text;
    EXPECT_FALSE(refused.problem.empty());
  }
  EXPECT_TRUE(read("\n\r\n", 1).is_good);
}

TEST(WatchStream, LimitsTheLengthOfALine) {
  const std::string line(WatchStream::kLineBytesMax + 1, ' ');
  EXPECT_FALSE(read(line, 64 * 1024).is_good);
  EXPECT_TRUE(read(line.substr(1) + "\n", 64 * 1024).is_good);
}

TEST(WatchStream, StopsWhenTheCallerWants) {
  WatchStream stream;
  int events = 0;
  EXPECT_FALSE(stream.take(kEvents, [&](WatchEventType, const nlohmann::json&) { return ++events < 2; }));
  EXPECT_EQ(events, 2);
  EXPECT_TRUE(stream.problem().empty());
}

}  // namespace
}  // namespace penstock::connect
