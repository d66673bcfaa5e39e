#include "connect/kubernetes/label_selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "connect/kubernetes/pod_labels.h"

namespace penstock::connect {

class LabelSelectorReader {
 public:
  explicit LabelSelectorReader(std::string_view text) : text_{text} {}

  core::Result<LabelSelector> read() {
    LabelSelector made;
    skip_space();
    while (at_ < text_.size()) {
      auto requirement = read_requirement();
      if (!requirement) return tl::make_unexpected(requirement.error());
      made.requirements_.push_back(*std::move(requirement));
      if (at_ == text_.size()) break;
      if (!take(",")) return fault("a comma is expected");
      if (at_ == text_.size()) return fault("a label is expected");
    }
    return made;
  }

  static void complete(Labels& labels, const LabelSelector& selector, std::span<const std::string> preferred);

 private:
  using Requirement = LabelSelector::Requirement;
  using Kind = LabelSelector::Kind;

  tl::unexpected<core::Error> fault(std::string_view what) const {
    return core::invalid_input(fmt::format("column {}", at_ + 1),
                               fmt::format("{} in the label selector \"{}\"", what, text_));
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view mark) {
    if (!text_.substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    skip_space();
    return true;
  }
  // Reads a name, a value or a word, which may be empty.
  std::string read_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view{"-_./"}.find(text_[at_]) != std::string_view::npos))
      ++at_;
    std::string word{text_.substr(begin, at_ - begin)};
    skip_space();
    return word;
  }

  core::Result<Requirement> read_requirement() {
    Requirement made;
    const bool is_absent = take("!");
    made.key = read_word();
    if (made.key.empty()) return fault("a label is expected");
    if (is_absent) {
      made.kind = Kind::kAbsent;
      return made;
    }
    if (take("!=")) {
      made.kind = Kind::kNotIn;
      made.values.push_back(read_word());
    } else if (take("==") || take("=")) {
      made.kind = Kind::kIn;
      made.values.push_back(read_word());
    } else if (at_ < text_.size() && text_[at_] != ',') {
      return read_set(std::move(made));
    }
    return made;
  }

  core::Result<Requirement> read_set(Requirement made) {
    const std::size_t begin = at_;
    const std::string word = read_word();
    if (word != "in" && word != "notin") {
      at_ = begin;
      return fault("one of =, ==, !=, in and notin is expected");
    }
    made.kind = word == "in" ? Kind::kIn : Kind::kNotIn;
    if (!take("(")) return fault("( is expected");
    do made.values.push_back(read_word());
    while (take(","));
    if (!take(")")) return fault(") is expected");
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

core::Result<LabelSelector> LabelSelector::parse(std::string_view text) { return LabelSelectorReader{text}.read(); }

bool LabelSelector::selects(const Labels& labels) const {
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& each) {
    const auto label = labels.find(each.key);
    const bool exists = label != labels.end();
    const auto is_listed = [&] {
      return exists && std::find(each.values.begin(), each.values.end(), label->second) != each.values.end();
    };
    switch (each.kind) {
      case Kind::kIn: return is_listed();
      case Kind::kNotIn: return !is_listed();
      case Kind::kExists: return exists;
      case Kind::kAbsent: return !exists;
    }
    return false;
  });
}

void LabelSelectorReader::complete(Labels& labels, const LabelSelector& selector,
                                   std::span<const std::string> preferred) {
  for (const Requirement& each : selector.requirements_) {
    if (each.kind == Kind::kExists) labels.try_emplace(each.key, "true");
    if (each.kind != Kind::kIn) continue;
    const auto known = std::find_if(preferred.begin(), preferred.end(), [&](const std::string& value) {
      return std::find(each.values.begin(), each.values.end(), value) != each.values.end();
    });
    labels.try_emplace(each.key, known != preferred.end() ? *known : each.values.front());
  }
}

void complete_labels(Labels& labels, const LabelSelector& selector, std::span<const std::string> preferred) {
  LabelSelectorReader::complete(labels, selector, preferred);
}

}  // namespace penstock::connect
