#include "options/reading.h"

#include <gtest/gtest.h>

#include <optional>

#include "options/values.h"

namespace penstock::options {
namespace {

struct Wheel {
  std::string name;
  std::uint32_t spokes = 20;
};

struct Bicycle {
  core::Duration ttft = std::chrono::seconds{2};
  double share = 0.5;
  std::vector<std::string> files;
  std::vector<std::string> tags;
  std::string key;
  std::optional<std::uint64_t> budget;
  std::uint32_t spokes = 20;
  double demand = 0.0;
  std::string demand_trace;
  std::vector<Wheel> wheels;
};

Table table_of(Bicycle& made) {
  Table table;
  table.group("All");
  table.section_flag("--slo", "slo", "the SLO");
  table.add({"slo.ttft", "", "time"}, duration_above_zero(made.ttft));
  table.add({"slo.share", "", "share"}, share(made.share));
  table.add({"files", "--files", "files"}, texts(made.files));
  table.add({"tags", "--tags", "tags"}, names(made.tags));
  table.add({"key", "", "a secret"}, names(made.tags)).secret();
  table.add({"budget", "--budget", "0 is none"}, limit(made.budget, 100));
  table.add({"spokes", "--spokes", "of all wheels"}, count(made.spokes, 1, 40));
  table.add({"demand", "", "a figure"}, number(made.demand, 0.0, 10.0));
  table.add({"demand.trace", "", "or a trace"}, text(made.demand_trace));
  table.list<Wheel>(
      {"wheels", "--wheel", "wheels"}, made.wheels, 3,
      [](Table& rows, Wheel& wheel) {
        rows.add({"name", "", "name"}, text(wheel.name)).required();
        rows.add({"spokes", "--spokes", "spokes"}, count(wheel.spokes, 1, 40));
      },
      [&made] {
        return Wheel{{}, made.spokes};
      });
  table.renamed("rays", "spokes");
  table.renamed("slo.tpot", "write ttft, which is nearly the same");
  return table;
}

Bicycle loaded(std::string yaml, std::vector<FlagValue> flags = {}) {
  Bicycle made;
  const Table table = table_of(made);
  const Reading reading = read(table, {"p.yaml", std::move(yaml), std::move(flags)});
  for (const core::Error& error : reading.problems()) ADD_FAILURE() << error.message();
  return made;
}

std::string problems(std::string yaml, std::vector<FlagValue> flags = {}) {
  Bicycle made;
  const Table table = table_of(made);
  std::string text;
  const Reading reading = read(table, {"p.yaml", std::move(yaml), std::move(flags)});
  for (const core::Error& error : reading.problems()) text += error.message() + "\n";
  return text;
}

TEST(Reading, SetsOnlyTheFieldsInTheFile) {
  const Bicycle made = loaded("slo: {ttft: 3s}\nbudget: 7\n");
  EXPECT_EQ(made.ttft, std::chrono::seconds{3});
  EXPECT_EQ(made.share, 0.5);
  EXPECT_EQ(made.budget, 7U);
  EXPECT_TRUE(made.wheels.empty());
}

TEST(Reading, FlagsCountAfterTheFileAndTheLastOneWins) {
  const Bicycle made =
      loaded("slo: {ttft: 3s, share: 0.1}\nbudget: 7\n", {{"--slo", "ttft=4s"}, {"--budget", "8"}, {"--budget", "0"}});
  EXPECT_EQ(made.ttft, std::chrono::seconds{4});
  EXPECT_EQ(made.share, 0.1);
  EXPECT_FALSE(made.budget);
}

TEST(Reading, ListsAreSequencesOrTextWithCommas) {
  EXPECT_EQ(loaded("files: [a, 'b,c']\n").files, (std::vector<std::string>{"a", "b,c"}));
  EXPECT_EQ(loaded("files: a,b\n").files, (std::vector<std::string>{"a,b"}));
  EXPECT_EQ(loaded("tags: a,b\n").tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loaded("", {{"--files", "a,b"}}).files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(problems("tags: ['a,b']\n"), "p.yaml:1:7: tags: must be a list of texts without commas\n");
}

TEST(Reading, ItemsBeginAsWhatAllShareAndFlagsSetEachOfThem) {
  const Bicycle made = loaded("wheels: [{name: front}, {name: rear, spokes: 30}]\nspokes: 24\n");
  ASSERT_EQ(made.wheels.size(), 2U);
  EXPECT_EQ(made.wheels[0].spokes, 24U);
  EXPECT_EQ(made.wheels[1].spokes, 30U);
  const Bicycle flagged = loaded("wheels: [{name: front}, {name: rear, spokes: 30}]\n", {{"--spokes", "28"}});
  EXPECT_EQ(flagged.wheels[1].spokes, 28U);
}

TEST(Reading, FlagsThatAddItemsReplaceThoseOfTheFile) {
  const Bicycle made = loaded("wheels: [{name: front}]\n", {{"--wheel", "name=a,spokes=3"}, {"--wheel", "name=b"}});
  ASSERT_EQ(made.wheels.size(), 2U);
  EXPECT_EQ(made.wheels[0].spokes, 3U);
  EXPECT_EQ(made.wheels[1].name, "b");
}

TEST(Reading, AKeyMayBeAValueOrASection) {
  EXPECT_EQ(loaded("demand: 3\n").demand, 3.0);
  EXPECT_EQ(loaded("demand: {trace: t.csv}\n").demand_trace, "t.csv");
}

TEST(Reading, ReportsEverythingThatIsWrongInTheOrderOfTheFileAndThenOfTheFlags) {
  EXPECT_EQ(problems("wheels: [{spokes: 50}]\nbudgit: 3\nslo: {tfft: 1s}\nrays: 3\nshare: 1\nshare_slo: 1\n",
                     {{"--budget", "x"}}),
            "p.yaml:1:10: wheels[0]: needs the key name\n"
            "p.yaml:1:19: wheels[0].spokes: must be from 1 to 40, is '50'\n"
            "p.yaml:2:1: budgit: unknown key; did you mean budget?\n"
            "p.yaml:3:7: slo.tfft: unknown key; did you mean ttft?\n"
            "p.yaml:4:1: rays: was renamed; write spokes\n"
            "p.yaml:5:1: share: unknown key; did you mean slo.share?\n"
            "p.yaml:6:1: share_slo: unknown key; did you mean slo.share?\n"
            "--budget: must be a whole number from 0 to 100, is 'x'\n");
}

TEST(Reading, NamesOfOtherProgramsLeadToAHint) {
  EXPECT_EQ(problems("slo: {tpot: 1s}\n"), "p.yaml:1:7: slo.tpot: unknown key; write ttft, which is nearly the same\n");
  EXPECT_EQ(problems("", {{"--slo", "tpot=1s"}}), "--slo: unknown key 'tpot'; write ttft, which is nearly the same\n");
  EXPECT_EQ(problems("", {{"--slo", "tftt=1s"}}), "--slo: unknown key 'tftt'; did you mean ttft?\n");
}

TEST(Reading, RefusesAValueWhereASectionIsMeantAndTheReverse) {
  EXPECT_EQ(problems("slo: 2s\n"), "p.yaml:1:6: slo: must be a section, is '2s'; its keys are ttft or share\n");
  EXPECT_EQ(problems("budget: {a: 1}\n"), "p.yaml:1:9: budget: must be a count, is a section\n");
  EXPECT_EQ(problems("wheels: 3\n"),
            "p.yaml:1:9: wheels: must be a list of sections, is '3'; begin each with a dash\n");
  EXPECT_EQ(problems("wheels: [{name: a}, {name: b}, {name: c}, {name: d}]\n"),
            "p.yaml:1:9: wheels: must have at most 3 items, has 4\n");
}

TEST(Reading, KnowsWhichValuesCouldNotBeRead) {
  Bicycle made;
  const Table table = table_of(made);
  Reading reading = read(table, {"p.yaml", "slo: {tftt: 1s}\nwheels: [{name: a, spokes: 50}, {name: b}]\n", {}});
  EXPECT_FALSE(reading.is_read(""));
  EXPECT_TRUE(reading.is_read("budget"));
  EXPECT_FALSE(reading.is_read("slo"));
  EXPECT_FALSE(reading.is_read("slo.ttft")) << "the unknown key may have been meant to give it";
  EXPECT_FALSE(reading.is_read("wheels[0].spokes"));
  EXPECT_FALSE(reading.is_read("wheels[0]"));
  EXPECT_FALSE(reading.is_read("wheels"));
  EXPECT_TRUE(reading.are_read({"wheels[0].name", "wheels[1]", "wheels[1].spokes"}));
  EXPECT_TRUE(reading.are_read_in_items("wheels", 2, {"name"}));
  EXPECT_FALSE(reading.are_read_in_items("wheels", 2, {"name", "spokes"}));
  const std::size_t before = reading.problems().size();
  reading.report("wheels[0].spokes", "is below another");
  EXPECT_EQ(reading.problems().size(), before);
  EXPECT_TRUE(reading.is_valid("wheels[1]"));
  reading.report("wheels[1].spokes", "is below another");
  EXPECT_EQ(reading.problems().size(), before + 1);
  EXPECT_FALSE(reading.is_valid("wheels[1]"));
  EXPECT_TRUE(reading.is_read("wheels[1]"));
}

TEST(Reading, OfFlagsKnowsWhichValuesCouldNotBeRead) {
  Bicycle made;
  const Table table = table_of(made);
  const Reading reading = read(table, {"", "", {{"--slo", "tftt=1s"}, {"--budget", "x"}}});
  EXPECT_FALSE(reading.is_read("budget"));
  EXPECT_FALSE(reading.is_read("slo.ttft"));
  EXPECT_TRUE(reading.is_read("wheels"));
}

TEST(Reading, SecretsStayOutOfMessages) {
  EXPECT_EQ(problems("key: ',sk-1'\n"), "p.yaml:1:6: key: is not a valid list\n");
  EXPECT_EQ(problems("key: []\n"), "p.yaml:1:6: key: must have at least one item\n");
}

TEST(Reading, KnowsWhereAValueCameFrom) {
  Bicycle made;
  const Table table = table_of(made);
  const Reading reading = read(table, {"p.yaml", "wheels: [{name: a}]\n", {{"--slo", "ttft=1s"}}});
  EXPECT_TRUE(reading.given("slo.ttft"));
  EXPECT_FALSE(reading.given("budget"));
  EXPECT_EQ(reading.location("slo.ttft"), "--slo ttft");
  EXPECT_EQ(reading.location("wheels[0].name"), "p.yaml:1:17: wheels[0].name");
  EXPECT_EQ(reading.location("budget"), "--budget");
  EXPECT_EQ(reading.first_given({"budget", "wheels[0]"}), "wheels[0]");
}

std::string changes_between(const std::string& before, const std::string& after, bool reloadable_list = false) {
  Bicycle first, second;
  std::string text;
  const auto table_with_marks = [&](Bicycle& made) {
    Table table;
    table.add({"demand", "", "a figure"}, number(made.demand, 0.0, 10.0)).reloadable();
    table.add({"key", "", "a secret"}, names(made.tags)).secret();
    auto& wheels = table.list<Wheel>({"wheels", "", "wheels"}, made.wheels, 3, [](Table& rows, Wheel& wheel) {
      rows.add({"name", "", "name"}, options::text(wheel.name));
      rows.add({"spokes", "", "spokes"}, count(wheel.spokes, 1, 40)).reloadable();
    });
    if (reloadable_list) wheels.reloadable();
    return table;
  };
  const Table of_first = table_with_marks(first), of_second = table_with_marks(second);
  EXPECT_TRUE(read(of_first, {"a.yaml", before, {}}).good());
  EXPECT_TRUE(read(of_second, {"b.yaml", after, {}}).good());
  for (const Change& change : changes(of_first, of_second))
    text += change.key + (change.is_reloadable ? "+ " : " ") + change.before + ">" + change.after + " ";
  return text;
}

TEST(Changes, NameTheKeysWhoseValuesDiffer) {
  EXPECT_EQ(changes_between("demand: 2", "{demand: 2.0}"), "");
  EXPECT_EQ(changes_between("demand: 2", "demand: 3"), "demand+ 2>3 ");
  EXPECT_EQ(changes_between("", "{demand: 1, key: k}"), "demand+ 0>1 key >*** ");
}

TEST(Changes, NameTheItemsOfAListUnlessTheirNumberDiffers) {
  const std::string two = "wheels: [{name: front}, {name: rear}]";
  EXPECT_EQ(changes_between(two, "wheels: [{name: front}, {name: rear, spokes: 9}]"), "wheels[1].spokes+ 20>9 ");
  EXPECT_EQ(changes_between(two, "wheels: [{name: left}, {name: rear}]"), "wheels[0].name front>left ");
  EXPECT_EQ(changes_between(two, "wheels: [{name: front}]"), "wheels front,rear>front ");
  EXPECT_EQ(changes_between(two, "wheels: [{name: front}]", true), "wheels+ front,rear>front ");
  EXPECT_EQ(changes_between(two, "wheels: [{name: left}, {name: rear}]", true), "wheels[0].name+ front>left ");
}

TEST(Reading, AValueThatIsNotGivenHasThePlaceOfItsSectionOrItem) {
  Bicycle made;
  const Table table = table_of(made);
  const Reading reading = read(table, {"p.yaml", "slo:\n  share: 0.5\nwheels:\n  - name: front\n", {}});
  ASSERT_TRUE(reading.good());
  EXPECT_EQ(reading.location("slo.ttft"), "p.yaml:2:3: slo.ttft");
  EXPECT_EQ(reading.location("slo"), "p.yaml:2:3: slo");
  EXPECT_EQ(reading.location("wheels[0].spokes"), "p.yaml:4:5: wheels[0].spokes");
  EXPECT_EQ(reading.location("budget"), "--budget");
  EXPECT_FALSE(reading.given("slo"));
}

}  // namespace
}  // namespace penstock::options
