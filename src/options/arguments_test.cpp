#include "options/arguments.h"

#include <gtest/gtest.h>

#include "options/values.h"

namespace penstock::options {
namespace {

Usage usage() {
  Usage made;
  made.command = "fly";
  made.operand = "FILE";
  made.many_operands = true;
  made.flags = {{"Flags", "--height", "METRES", "how high", "10", {}}, {"Flags", "--loop", {}, "turn over", {}}};
  return made;
}

std::string refusal(const std::vector<std::string>& words, const Usage& page = usage()) {
  const auto parsed = parse_words(page, words);
  return parsed ? "" : parsed.error().message();
}

TEST(Arguments, FlagsTakeTheNextWordOrTextAfterAnEqualsSign) {
  const auto parsed = parse_words(usage(), {"a", "--height", "-3", "--loop", "b", "--height=4=5"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->operands, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(parsed->flags.size(), 3U);
  EXPECT_EQ(parsed->flags[0].text, "-3");
  EXPECT_EQ(parsed->flags[1].text, "true");
  EXPECT_EQ(parsed->value_of("--height"), "4=5");
  EXPECT_FALSE(parsed->has("--depth"));
}

TEST(Arguments, ADoubleDashEndsTheFlags) {
  const auto parsed = parse_words(usage(), {"-", "--", "--loop", "--help"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->operands, (std::vector<std::string>{"-", "--loop", "--help"}));
  EXPECT_FALSE(parsed->wants_help);
}

TEST(Arguments, HelpComesBeforeErrors) {
  EXPECT_TRUE(parse_words(usage(), {"--colour", "--help"})->wants_help);
  EXPECT_TRUE(parse_words(usage(), {"-h"})->wants_help);
}

TEST(Arguments, WrongWordsAreRefused) {
  EXPECT_EQ(refusal({"--heigth", "3"}), "--heigth: unknown flag of `penstock fly`; did you mean --height?");
  EXPECT_EQ(refusal({"--hei=3"}), "--hei: unknown flag of `penstock fly`; did you mean --height?");
  EXPECT_EQ(refusal({"--colour"}), "--colour: unknown flag of `penstock fly`; `penstock fly --help` lists them");
  EXPECT_EQ(refusal({"--height"}), "--height: needs a value");
  EXPECT_EQ(refusal({"--height", "--loop"}), "--height: needs a value, is followed by --loop");
  EXPECT_EQ(refusal({"--loop=no"}), "--loop: takes no value, is given 'no'");
  Usage flags_only = usage();
  flags_only.operand.clear();
  EXPECT_EQ(refusal({"a"}, flags_only), "unexpected argument 'a'; `penstock fly` takes flags only");
  Usage one = usage();
  one.many_operands = false;
  EXPECT_EQ(refusal({"a", "b"}, one), "`penstock fly` takes one FILE, there are 2");
  one.operand = "PLANE FILE";
  EXPECT_TRUE(parse_words(one, {"a", "b"}));
  EXPECT_EQ(refusal({"a"}, one), "`penstock fly` takes PLANE FILE, there are 1");
  EXPECT_TRUE(help_page(one).starts_with("Usage: penstock fly PLANE FILE [FLAG…]\n"));
}

TEST(Arguments, ACommandLineRoundTrips) {
  const auto parsed = parse_words(usage(), {"it's", "--height", "3", "--loop"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(command_line(usage(), *parsed, {}), "penstock fly 'it'\\''s' --height 3 --loop");
  EXPECT_EQ(command_line(usage(), *parsed, {"--height"}), "penstock fly 'it'\\''s' --loop");
}

TEST(Arguments, FlagsOfATableSetTheSameInAnotherProcess) {
  struct Plane {
    std::uint32_t height = 10;
    bool lights = true;
    std::string name;
  };
  const auto table_of = [](Plane& plane) {
    Table table;
    table.add({"height", "--height", "metres"}, count(plane.height, 0, 100));
    table.add({"lights", "--no-lights", "fly with lights"}, boolean(plane.lights)).implies("false");
    table.add({"name", "--name", "name"}, text(plane.name));
    return table;
  };
  Plane plane{20, false, {}};
  EXPECT_EQ(as_flags(table_of(plane)), (std::vector<std::string>{"--height", "20", "--no-lights"}));
  const std::vector<Flag> flags = flags_of(table_of(plane));
  ASSERT_EQ(flags.size(), 3U);
  EXPECT_EQ(flags[0].fallback, "20");
  EXPECT_EQ(flags[1].help, "do not fly with lights");
}

}  // namespace
}  // namespace penstock::options
