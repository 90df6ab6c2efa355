// Lines over a common axis as an SVG file: what the simulator's reports draw. Values are shares, 0
// to 1, on an axis from 0 to 100 %.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::core {

struct PlotLine {
  std::string name;                               // in the legend
  std::vector<std::pair<double, double>> points;  // x and share, by rising x
};

struct PlotAxes {
  std::string title;
  std::string x_label;
  std::string y_label = "hit rate";
  double x_most = 1;       // at the right edge
  bool x_percent = false;  // x is a share as well
};

[[nodiscard]] std::string line_plot(const PlotAxes& axes, const std::vector<PlotLine>& lines);

}  // namespace strata::core
