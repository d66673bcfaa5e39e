// Columns of text, aligned for a terminal. Cells are made safe to print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock::report {

// `text` cut to `width` columns, with an ellipsis at its end where it is longer. The text must be printable.
[[nodiscard]] std::string cut_to_width(const std::string& text, std::size_t width);

// Rows without headings: the first column is aligned to the left, all others to the right. A row may lack cells at its
// end. `indent` is the number of blanks before each line.
[[nodiscard]] std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent = 0);

// One line of prose as lines of at most `width` columns that end with a line feed; the first begins after `first`
// blanks, the others after `rest`. A word that is too long is cut.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width, std::size_t first, std::size_t rest);

struct GridStyle {
  bool colour = false;  // ANSI colours: dimmed headings, and the first row bold if `best_first`
  bool best_first = false;
  std::size_t width_max = SIZE_MAX;  // Width of a line; texts in the first column are cut to fit.
};

class Grid {
 public:
  struct Column {
    std::string name;    // a heading of two lines contains a line feed
    bool left = false;   // aligned to the left
    int rank = 0;        // Where a line is too long, columns of the highest rank are left out first; 0: never.
    bool spans = false;  // Its first heading line is that of the next columns, too.
  };

  explicit Grid(std::vector<Column> columns, GridStyle style = {});
  void add(std::vector<std::string> cells);  // one for each column
  // Headings and rows; each line ends with a line feed. Afterwards a line, if columns were left out.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string whole_text() const;
  [[nodiscard]] std::size_t width(const std::vector<std::size_t>& widths) const;
  void drop(std::size_t column);
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;
  [[nodiscard]] std::string painted(const std::string& text, const char* code) const;

  std::vector<Column> columns_;
  GridStyle style_;
  std::vector<std::vector<std::string>> headings_;  // lines, the last of them next to the rows
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::report
