#include "strata/core/line_plot.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <iterator>

namespace strata::core {
namespace {

// The plot's geometry, in the units of its view box.
constexpr double kWidth = 860;
constexpr double kLeft = 70;
constexpr double kRight = 590;  // the legend stands right of it
constexpr double kTop = 50;
constexpr double kBottom = 420;
constexpr double kLegendStep = 22;
constexpr int kTicks = 5;
constexpr std::size_t kMostMarks = 16;  // more points than that are a line alone
// Told apart also by those who do not see red or green well (Okabe and Ito's colours); from the
// second round on the lines are dashed.
constexpr std::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                         "#e69f00", "#56b4e9", "#000000", "#7f7f7f"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

// A round number, 1, 2 or 5 times a power of ten, of which `most` has at most kTicks.
double round_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / kTicks)));
  for (const double step : {power, 2 * power, 5 * power}) {
    if (step * kTicks >= most * (1 - 1e-9)) return step;
  }
  return 10 * power;
}

std::string axes_svg(const PlotAxes& axes) {
  std::string svg;
  const auto out = std::back_inserter(svg);
  const double step = round_step(axes.x_most);
  for (int i = 0; i * step <= axes.x_most * (1 + 1e-9); ++i) {
    const double x = kLeft + i * step / axes.x_most * (kRight - kLeft);
    const std::string tick =
        axes.x_percent ? fmt::format("{:.4g} %", 100 * i * step) : fmt::format("{:.4g}", i * step);
    fmt::format_to(out, "<path d=\"M{:.1f} {} V{}\" stroke=\"#ddd\"/>\n", x, kTop, kBottom);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x,
                   kBottom + 20, tick);
  }
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double y = kBottom - share * (kBottom - kTop);
    fmt::format_to(out, "<path d=\"M{} {:.1f} H{}\" stroke=\"#ddd\"/>\n", kLeft, y, kRight);
    fmt::format_to(out, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f} %</text>\n",
                   kLeft - 8, y + 4, 100 * share);
  }
  fmt::format_to(out, "<path d=\"M{} {} V{} H{}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft, kTop,
                 kBottom, kRight);
  fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                 (kLeft + kRight) / 2, kBottom + 45, escaped(axes.x_label));
  fmt::format_to(out, "<text transform=\"translate(20 {}) rotate(-90)\" ", (kTop + kBottom) / 2);
  fmt::format_to(out, "text-anchor=\"middle\">{}</text>\n", escaped(axes.y_label));
  return svg;
}

std::string line_svg(const PlotLine& line, double x_most, std::size_t number) {
  const std::string_view colour = kColours[number % std::size(kColours)];
  const std::string stroke =
      fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", colour,
                  number < std::size(kColours) ? "" : " stroke-dasharray=\"6 3\"");
  std::string svg = "<path d=\"";
  const auto out = std::back_inserter(svg);
  std::string marks;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto [at, share] = line.points[i];
    const double x = kLeft + at / x_most * (kRight - kLeft);
    const double y = kBottom - share * (kBottom - kTop);
    fmt::format_to(out, "{}{:.1f} {:.1f} ", i == 0 ? 'M' : 'L', x, y);
    if (line.points.size() > kMostMarks) continue;
    fmt::format_to(std::back_inserter(marks),
                   "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\">"
                   "<title>{}: {:.1f} %</title></circle>\n",
                   x, y, colour, escaped(line.name), 100 * share);
  }
  const double y = kTop + 12 + kLegendStep * static_cast<double>(number);
  fmt::format_to(out, "\" {}{}", stroke, marks);
  fmt::format_to(out, "<path d=\"M{} {} h24\" {}", kRight + 20, y - 4, stroke);
  fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>\n", kRight + 52, y, escaped(line.name));
  return svg;
}

}  // namespace

std::string line_plot(const PlotAxes& axes, const std::vector<PlotLine>& lines) {
  const double legend = kTop + kLegendStep * static_cast<double>(lines.size() + 1);
  const double height = legend > kBottom + 60 ? legend : kBottom + 60;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n"
      "<text x=\"{}\" y=\"28\" font-size=\"17\">{}</text>\n",
      kWidth, height, kWidth, height, kLeft, escaped(axes.title));
  svg += axes_svg(axes);
  for (std::size_t i = 0; i < lines.size(); ++i) svg += line_svg(lines[i], axes.x_most, i);
  return svg + "</svg>\n";
}

}  // namespace strata::core
