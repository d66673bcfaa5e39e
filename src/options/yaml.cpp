#include "options/yaml.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <system_error>

#include "options/scalars.h"

namespace penstock::options {
namespace {

// Ends the parse from inside yaml-cpp; caught in parse_yaml.
struct Stop {};

std::string place(std::string_view file, std::size_t line, std::size_t column) {
  return fmt::format("{}:{}:{}", file, line, column);
}

// Builds the tree from yaml-cpp's events, which, unlike its nodes, show duplicate keys and aliases.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view file, const YamlLimits& limits, Problems& problems)
      : file_(file), limits_(limits), problems_(problems) {}

  [[nodiscard]] YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add_leaf(node_at(mark), anchor); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlNode node = node_at(mark);
    const bool plain = tag == "?" || tag.empty();
    if (!plain || (value != "~" && value != "null" && !value.empty())) node.kind = YamlNode::Kind::kScalar;
    node.text = value;
    add_leaf(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(mark, "an alias must not stand inside of what it names");
    YamlNode copy = found->second;
    nodes_ += size_of(copy);
    check_size(mark);
    if (open_.size() + depth_of(copy) > limits_.depth_max) fail(mark, too_deep());
    add(std::move(copy));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::set<std::string> seen;  // Keys of the map.
    bool expects_key = true;
    bool skip_value = false;  // The key of the next value was rejected.
  };

  static YamlNode node_at(const YAML::Mark& mark) {
    YamlNode node;
    node.line = static_cast<std::size_t>(mark.line) + 1;
    node.column = static_cast<std::size_t>(mark.column) + 1;
    return node;
  }

  void report(std::size_t line, std::size_t column, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, place(file_, line, column), std::move(what), std::move(hint)});
  }
  [[noreturn]] void fail(const YAML::Mark& mark, std::string what) {
    const YamlNode here = node_at(mark);
    report(here.line, here.column, std::move(what));
    throw Stop{};
  }
  [[nodiscard]] std::string too_deep() const { return fmt::format("nests deeper than {} levels", limits_.depth_max); }
  void check_size(const YAML::Mark& mark) {
    if (nodes_ > limits_.nodes_max)
      fail(mark, fmt::format("has more than {} values, aliases counted", limits_.nodes_max));
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag == "?" || tag == "!" || tag.empty()) return;
    const YamlNode here = node_at(mark);
    report(here.line, here.column, "tags are not supported, has " + quote(tag), "remove it");
  }

  static std::size_t size_of(const YamlNode& node) {
    std::size_t size = 1;
    for (const YamlNode& item : node.items) size += size_of(item);
    return size;
  }
  static std::size_t depth_of(const YamlNode& node) {
    std::size_t depth = 0;
    for (const YamlNode& item : node.items) depth = std::max(depth, depth_of(item));
    return depth + (node.kind == YamlNode::Kind::kMap || node.kind == YamlNode::Kind::kSequence ? 1 : 0);
  }

  void add_leaf(YamlNode node, YAML::anchor_t anchor) {
    ++nodes_;
    YAML::Mark mark;
    mark.line = static_cast<int>(node.line) - 1;
    mark.column = static_cast<int>(node.column) - 1;
    check_size(mark);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    add(std::move(node));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    check_tag(mark, tag);
    ++nodes_;
    check_size(mark);
    if (open_.size() >= limits_.depth_max) fail(mark, too_deep());
    open_.push_back({node_at(mark), anchor, {}, true, false});
    open_.back().node.kind = kind;
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != YAML::NullAnchor) anchors_[done.anchor] = done.node;
    add(std::move(done.node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.expects_key) {
      add_key(parent, node);
      parent.expects_key = false;
    } else {
      if (!parent.skip_value) add_value(parent.node, std::move(node));
      parent.expects_key = true;
    }
  }

  // yaml-cpp places a value that is left out where the next one begins, or behind the end of the document.
  static void add_value(YamlNode& map, YamlNode node) {
    const YamlNode::Key& key = map.keys.back();
    if (node.kind == YamlNode::Kind::kNull && node.line != key.line) {
      node.line = key.line;
      node.column = key.column;
    }
    map.items.push_back(std::move(node));
  }

  void add_key(Open& parent, const YamlNode& node) {
    parent.skip_value = true;
    if (node.kind != YamlNode::Kind::kScalar) {
      report(node.line, node.column, "a key must be plain text, is " + node.description());
    } else if (!parent.seen.insert(node.text).second) {
      const auto first = std::find_if(parent.node.keys.begin(), parent.node.keys.end(),
                                      [&](const YamlNode::Key& key) { return key.text == node.text; });
      report(node.line, node.column, fmt::format("duplicate key {}, first in line {}", quote(node.text), first->line));
    } else {
      parent.node.keys.push_back({node.text, node.line, node.column});
      parent.skip_value = false;
    }
  }

  std::string_view file_;
  const YamlLimits& limits_;
  Problems& problems_;
  YamlNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t nodes_ = 0;
};

// The scanner of yaml-cpp accepts tabs in some places and fails in others; YAML forbids them for indentation.
void find_tabs(std::string_view file, std::string_view text, Problems& problems) {
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t first = text.find_first_not_of(' ', begin);
    if (first < end && text[first] == '\t')
      problems.push_back({core::ErrorCode::kInvalidInput, place(file, line, first - begin + 1), "indented with a tab",
                          "indent with blanks"});
    begin = end + 1;
  }
}

// yaml-cpp accepts a quote that is never closed, but rejects a document that ends inside of one.
constexpr std::string_view kEndOfDocument = "\n...\n";

// Messages of yaml-cpp begin in lower case and have no full stop; some end in a colon or go over several lines.
std::string one_line(std::string text) {
  if (text == YAML::ErrorMsg::DOC_IN_SCALAR) return "a quote is opened and not closed";
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == '.' || text.back() == ':' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

std::string YamlNode::description() const {
  switch (kind) {
    case Kind::kNull: return "nothing";
    case Kind::kScalar: return quote(text);
    case Kind::kSequence: return "a list";
    case Kind::kMap: return "a section";
  }
  return {};
}

tl::expected<YamlNode, Problems> parse_yaml(std::string_view file, std::string_view text, const YamlLimits& limits) {
  Problems problems;
  const auto report = [&](std::size_t line, std::size_t column, std::string what) {
    problems.push_back({core::ErrorCode::kInvalidInput, place(file, line, column), std::move(what), {}});
  };
  if (text.size() > limits.bytes_max)
    report(1, 1, fmt::format("has {} bytes; at most {} are read", text.size(), limits.bytes_max));
  else if (text.find('\0') != std::string_view::npos)
    report(1, 1, "has a zero byte; it is no text");
  else
    find_tabs(file, text, problems);
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));

  TreeBuilder builder{file, limits, problems};
  try {
    std::istringstream stream{std::string{text} + std::string{kEndOfDocument}};
    YAML::Parser parser{stream};
    parser.HandleNextDocument(builder);
    if (parser) report(1, 1, "has more than one document");
  } catch (const Stop&) {  // The error was reported where this was thrown.
  } catch (const YAML::Exception& error) {
    const bool known = !error.mark.is_null();
    report(known ? static_cast<std::size_t>(error.mark.line) + 1 : 1,
           known ? static_cast<std::size_t>(error.mark.column) + 1 : 1, "is not valid YAML: " + one_line(error.msg));
  } catch (const std::exception& error) {
    report(1, 1, "is not valid YAML: " + one_line(error.what()));
  }
  if (!problems.empty()) return tl::make_unexpected(std::move(problems));
  YamlNode root = builder.take_root();
  if (root.kind == YamlNode::Kind::kNull) {
    root = {};  // Not at the end of the document.
    root.kind = YamlNode::Kind::kMap;
  }
  return root;
}

core::Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max) {
  const auto reason = [](const char* what) {
    return fmt::format("{}: {}", what, std::system_category().message(errno == 0 ? EIO : errno));
  };
  std::string text(bytes_max + 1, '\0');
  std::ifstream file;
  errno = 0;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return core::invalid_input(path, reason("cannot be opened"), "is the name right?");
  }
  std::istream& stream = path == "-" ? std::cin : file;
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || (stream.gcount() == 0 && !stream.eof()))
    return core::environment_error(path, reason("cannot be read"));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > bytes_max) return core::invalid_input(path, fmt::format("is larger than {} bytes", bytes_max));
  return text;
}

std::string yaml_place(std::string_view file, const YamlNode& node, std::string_view path) {
  return place(file, node.line, node.column) + (path.empty() ? "" : ": ") + std::string{path};
}

}  // namespace penstock::options
