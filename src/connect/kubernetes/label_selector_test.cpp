#include "connect/kubernetes/label_selector.h"

#include <gtest/gtest.h>

#include "connect/kubernetes/pod_labels.h"

namespace penstock::connect {
namespace {

const Labels kDecode{{"pool", "decode"}, {"zone", "a"}};

bool selects(std::string_view text, const Labels& labels = kDecode) {
  const auto selector = LabelSelector::parse(text);
  EXPECT_TRUE(selector) << text;
  return selector && selector->selects(labels);
}

TEST(LabelSelector, SelectsByEqualityAndSet) {
  for (const char* text :
       {"", "pool=decode", "pool==decode", "pool!=prefill", "pool in (prefill,decode)", "pool", "!model", "model!=x",
        "model notin (x, y)", "pool=decode,zone notin (b,c)", " pool = decode , zone in ( a ) "})
    EXPECT_TRUE(selects(text)) << text;
  for (const char* text : {"pool=prefill", "pool!=decode", "pool in (prefill)", "model", "!pool", "model=x",
                           "pool notin (decode)", "pool=decode,zone=b", "pool="})
    EXPECT_FALSE(selects(text)) << text;
  EXPECT_TRUE(selects("pool=", {{"pool", ""}}));
  EXPECT_TRUE(selects("llm-d.ai/model=a", {{"llm-d.ai/model", "a"}}));
}

TEST(LabelSelector, CompletesLabelsThatItThenSelects) {
  const std::vector<std::string> preferred = {"decode", "b"};
  const auto completed = [&](const char* text, Labels labels) {
    const auto selector = LabelSelector::parse(text);
    EXPECT_TRUE(selector) << text;
    complete_labels(labels, *selector, preferred);
    return std::pair{labels, selector->selects(labels)};
  };
  EXPECT_EQ(completed("app=chat,tier", {{"pool", "a"}}),
            std::pair(Labels{{"app", "chat"}, {"pool", "a"}, {"tier", "true"}}, true));
  EXPECT_EQ(completed("app in (prefill, decode),zone in (x, y)", {}),
            std::pair(Labels{{"app", "decode"}, {"zone", "x"}}, true));
  EXPECT_EQ(completed("pool=b", {{"pool", "a"}}), std::pair(Labels{{"pool", "a"}}, false));
  EXPECT_EQ(completed("pool notin (a),!app", {{"pool", "a"}}), std::pair(Labels{{"pool", "a"}}, false));
}

TEST(LabelSelector, ErrorsNameTheColumn) {
  const auto fault = [](std::string_view text) { return LabelSelector::parse(text).error().message(); };
  EXPECT_EQ(fault("pool=a,"), "column 8: a label is expected in the label selector \"pool=a,\"");
  EXPECT_EQ(fault("=a"), "column 1: a label is expected in the label selector \"=a\"");
  EXPECT_EQ(fault("pool within (a)"),
            "column 6: one of =, ==, !=, in and notin is expected in the label selector \"pool within (a)\"");
  EXPECT_EQ(fault("pool in a"), "column 9: ( is expected in the label selector \"pool in a\"");
  EXPECT_EQ(fault("pool in (a"), "column 11: ) is expected in the label selector \"pool in (a\"");
  EXPECT_EQ(fault("a=b c=d"), "column 5: a comma is expected in the label selector \"a=b c=d\"");
  EXPECT_FALSE(LabelSelector::parse("replicas>3"));
}

}  // namespace
}  // namespace penstock::connect
