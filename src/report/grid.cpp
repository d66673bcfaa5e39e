#include "report/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "report/format.h"

namespace penstock::report {
namespace {

constexpr std::size_t kGap = 2;              // blanks between columns
constexpr std::size_t kFirstWidthMin = 8;    // Width of the first column if the others need the rest of the line.
constexpr std::size_t kFirstWidthGood = 21;  // Columns are left out before a name such as dynamo-sla-throughput is cut.

using Cells = std::vector<std::string>;

void widen(std::vector<std::size_t>& widths, const Cells& cells) {
  widths.resize(std::max(widths.size(), cells.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
}

void append_cell(std::string& line, const std::string& cell, std::size_t width, bool left) {
  const std::string blanks(width - display_width(cell), ' ');
  line += left ? cell + blanks : blanks + cell;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string cut_to_width(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::size_t end = 0, columns = 0;
  for (; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && ++columns == width) break;
  return text.substr(0, end) + "…";
}

std::string wrapped(const std::string& text, std::size_t width, std::size_t first, std::size_t rest) {
  std::string lines(first, ' ');
  std::size_t column = first;
  bool begins = true;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = cut_to_width(text.substr(begin, end - begin), width - std::max(first, rest));
    begin = end + 1;
    const std::size_t columns = display_width(word);
    if (!begins && column + 1 + columns > width) {
      lines += "\n" + std::string(rest, ' ');
      column = rest;
    } else if (!begins) {
      lines += ' ';
      ++column;
    }
    begins = false;
    lines += word;
    column += columns;
  }
  return lines + "\n";
}

std::string aligned(const std::vector<Cells>& rows, std::size_t indent) {
  std::vector<Cells> clean = rows;
  std::vector<std::size_t> widths;
  for (Cells& cells : clean) {
    for (std::string& cell : cells) cell = printable(cell);
    widen(widths, cells);
  }
  std::string text;
  for (const Cells& cells : clean) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      append_cell(line, cells[i], widths[i], i == 0);
    }
    text += trimmed(std::move(line)) + "\n";
  }
  return text;
}

Grid::Grid(std::vector<Column> columns, GridStyle style) : columns_(std::move(columns)), style_(style) {
  Cells upper, lower;
  for (const Column& column : columns_) {
    const std::size_t cut = column.name.find('\n');
    upper.push_back(cut == std::string::npos ? std::string{} : printable(column.name.substr(0, cut)));
    lower.push_back(printable(cut == std::string::npos ? column.name : column.name.substr(cut + 1)));
  }
  const auto empty = [](const std::string& cell) { return cell.empty(); };
  if (!std::all_of(upper.begin(), upper.end(), empty)) headings_.push_back(std::move(upper));
  headings_.push_back(std::move(lower));
}

void Grid::add(Cells cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::size_t Grid::width(const std::vector<std::size_t>& widths) const {
  return std::accumulate(widths.begin(), widths.end(), kGap * (columns_.size() - 1));
}

// A heading over several columns moves to the next one of them.
void Grid::drop(std::size_t column) {
  if (columns_[column].spans && column + 1 < columns_.size()) {
    headings_[0][column + 1] = headings_[0][column];
    columns_[column + 1].spans = true;
  }
  const auto erase = [column](Cells& cells) {
    if (column < cells.size()) cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(column));
  };
  columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(column));
  std::for_each(headings_.begin(), headings_.end(), erase);
  std::for_each(rows_.begin(), rows_.end(), erase);
}

std::string Grid::text() const {
  Grid narrow = *this;
  const auto is_too_wide = [&] {
    std::vector<std::size_t> widths;
    for (const Cells& cells : narrow.headings_) widen(widths, cells);
    for (const Cells& cells : narrow.rows_) widen(widths, cells);
    const std::size_t spare = widths[0] - std::min(widths[0], kFirstWidthGood);
    return narrow.width(widths) > style_.width_max + spare;
  };
  while (is_too_wide()) {
    const auto least = std::max_element(narrow.columns_.begin(), narrow.columns_.end(),
                                        [](const Column& a, const Column& b) { return a.rank < b.rank; });
    if (least->rank == 0) break;
    narrow.drop(static_cast<std::size_t>(least - narrow.columns_.begin()));
  }
  const std::size_t dropped = columns_.size() - narrow.columns_.size();
  if (dropped == 0) return whole_text();
  return narrow.whole_text() +
         fmt::format("({} more {} in a wider terminal, or in files)\n", dropped, dropped == 1 ? "column" : "columns");
}

std::string Grid::whole_text() const {
  std::vector<std::size_t> widths;
  for (const Cells& cells : headings_) widen(widths, cells);
  for (const Cells& cells : rows_) widen(widths, cells);
  if (width(widths) > style_.width_max) {
    const std::size_t excess = width(widths) - style_.width_max;
    widths[0] = std::max(kFirstWidthMin, widths[0] - std::min(widths[0], excess));
  }
  std::string text;
  for (const Cells& cells : headings_) text += painted(line(cells, widths), "\033[2m");
  for (std::size_t row = 0; row < rows_.size(); ++row)
    text += painted(line(rows_[row], widths), row == 0 && style_.best_first ? "\033[1m" : "");
  return text;
}

std::string Grid::line(const Cells& cells, const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    append_cell(line, i == 0 ? cut_to_width(cells[i], widths[i]) : cells[i], widths[i], columns_[i].left);
  }
  return trimmed(std::move(line));
}

std::string Grid::painted(const std::string& text, const char* code) const {
  return style_.colour && *code != '\0' ? code + text + "\033[0m\n" : text + "\n";
}

}  // namespace penstock::report
