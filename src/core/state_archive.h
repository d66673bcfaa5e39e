// Saves values as text, and reads them back. One function of a class serves both ways:
//
//   void archive(core::StateArchive& state) { state("burn_rate", spans_, now_, judged_to_, held_since_); }
//
// Read back are the same bits, doubles included. The order of the values is the format, so that a change of it needs a
// new version in the file that keeps the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/time.h"

namespace penstock::core {

class StateArchive {
 public:
  StateArchive() = default;                                                      // writes
  explicit StateArchive(std::string_view text) : reading_(true), rest_(text) {}  // reads `text`, which must outlive it

  [[nodiscard]] bool reading() const { return reading_; }
  [[nodiscard]] const std::string& text() const { return text_; }  // what was written so far
  // Of reading: an error where a value did not fit, or text is left. What was read is then not to be used.
  [[nodiscard]] Result<void> finish() const;

  // A part of the state by its name, without blanks, which must be the same when it is read.
  template <class... Values>
  void operator()(std::string_view name, Values&... values) {
    label(name);
    values_of(values...);
  }
  template <class... Values>
  void values_of(Values&... values) {
    (value(values), ...);
  }
  // Elements that are there already, so many as there are; another number is an error.
  template <class Container>
  void elements(Container& container) {
    std::uint64_t count = container.size();
    value(count);
    if (count != container.size()) return fail("has another number of elements");
    for (auto& element : container) value(element);
  }
  void fail(std::string_view why);
  [[nodiscard]] bool failed() const { return !error_.empty(); }

 private:
  template <class T>
  void value(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      auto number = static_cast<double>(value);
      real(number);
      if (reading_) value = static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      auto number = static_cast<std::int64_t>(value);
      whole(number);
      if (reading_) value = static_cast<T>(number);
    } else if constexpr (requires { value.archive(*this); }) {
      value.archive(*this);
    } else {
      archive(*this, value);  // a function beside the type, or one of those below
    }
  }

  friend void archive(StateArchive& state, Duration& duration) {
    std::int64_t count = duration.count();
    state.whole(count);
    duration = Duration{count};
  }
  friend void archive(StateArchive& state, Instant& instant) {
    Duration since_start = instant.time_since_epoch();
    archive(state, since_start);
    instant = Instant{since_start};
  }
  template <class T>
  friend void archive(StateArchive& state, std::optional<T>& optional) {
    bool known = optional.has_value();
    state.value(known);
    if (state.reading_) optional = known ? std::optional<T>{T{}} : std::nullopt;
    if (known) state.value(*optional);
  }
  template <class First, class Second>
  friend void archive(StateArchive& state, std::pair<First, Second>& pair) {
    state.values_of(pair.first, pair.second);
  }
  template <class T, std::size_t size>
  friend void archive(StateArchive& state, std::array<T, size>& array) {
    for (T& element : array) state.value(element);
  }
  template <class T>
  friend void archive(StateArchive& state, std::vector<T>& vector) {
    state.list(vector);
  }
  template <class T>
  friend void archive(StateArchive& state, std::deque<T>& deque) {
    state.list(deque);
  }
  template <class Key, class T>
  friend void archive(StateArchive& state, std::map<Key, T>& map) {
    std::uint64_t size = state.size_of(map.size());
    if (!state.reading_) {
      for (auto& [key, element] : map) {
        Key copy = key;
        state.values_of(copy, element);
      }
      return;
    }
    map.clear();
    for (; size > 0 && !state.failed(); --size) {
      std::pair<Key, T> entry{};
      state.values_of(entry.first, entry.second);
      map.insert(std::move(entry));
    }
  }

  template <class Container>
  void list(Container& container) {
    std::uint64_t size = size_of(container.size());
    if (reading_) {
      container.clear();
      for (; size > 0 && !failed(); --size) value(container.emplace_back());
    } else {
      for (auto& element : container) value(element);
    }
  }
  // Of a container; no more than there is text for.
  std::uint64_t size_of(std::size_t size);
  void label(std::string_view name);
  void whole(std::int64_t& number);
  void real(double& number);
  void write(std::string_view token);
  std::string_view read();

  bool reading_ = false;
  std::string text_;
  std::string_view rest_;
  std::string last_label_, error_;
};

}  // namespace penstock::core
