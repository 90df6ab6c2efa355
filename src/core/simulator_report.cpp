#include "strata/core/simulator_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

std::int64_t slots_of(const SimulationResult& result) {
  return std::accumulate(result.layers.begin(), result.layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerResult& l) { return sum + l.slots; });
}

double per(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string_view mode_of(const SimulationResult& result) {
  return result.instant ? "instant" : "passes";
}

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

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // capacity, hit rate; by capacity
};

std::vector<Series> series_of(std::span<const SimulationResult> results) {
  std::vector<Series> all;
  for (const SimulationResult& r : results) {
    std::string name(policy_name(r.policy));
    if (r.policy != PolicyKind::kOptimum) name += fmt::format(", {}", mode_of(r));
    if (r.quota != QuotaKind::kEqual) name += fmt::format(", {} quotas", quota_name(r.quota));
    auto found = std::find_if(all.begin(), all.end(), [&](auto& s) { return s.name == name; });
    if (found == all.end()) found = all.insert(all.end(), {name, {}});
    found->points.emplace_back(r.capacity, r.hit_rate());
  }
  for (Series& series : all) std::sort(series.points.begin(), series.points.end());
  return all;
}

// The plot's geometry, in the units of its view box.
constexpr double kWidth = 860;
constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 590;  // the legend stands right of it
constexpr double kTop = 50;
constexpr double kBottom = 420;
constexpr int kTicks = 5;
// Told apart also by those who do not see red or green well (Okabe and Ito's colours).
constexpr std::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                         "#e69f00", "#56b4e9", "#000000", "#7f7f7f"};

// Axes of equal steps; `most` is the capacity at the right edge.
std::string axes(double most) {
  std::string svg;
  const auto out = std::back_inserter(svg);
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double x = kLeft + share * (kRight - kLeft);
    const double y = kBottom - share * (kBottom - kTop);
    fmt::format_to(out, "<path d=\"M{:.1f} {} V{}\" stroke=\"#ddd\"/>\n", x, kTop, kBottom);
    fmt::format_to(out, "<path d=\"M{} {:.1f} H{}\" stroke=\"#ddd\"/>\n", kLeft, y, kRight);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f} %</text>\n", x,
                   kBottom + 20, 100 * share * most);
    fmt::format_to(out, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f} %</text>\n",
                   kLeft - 8, y + 4, 100 * share);
  }
  fmt::format_to(out, "<path d=\"M{} {} V{} H{}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft, kTop,
                 kBottom, kRight);
  fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">", (kLeft + kRight) / 2,
                 kBottom + 45);
  svg += "cache, share of all experts&#39; bytes</text>\n";
  fmt::format_to(out, "<text transform=\"translate(20 {}) rotate(-90)\" ", (kTop + kBottom) / 2);
  svg += "text-anchor=\"middle\">hit rate</text>\n";
  return svg;
}

std::string line(const Series& series, double most, std::string_view colour, double legend_y) {
  std::string svg = "<path d=\"";
  const auto out = std::back_inserter(svg);
  std::string marks;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const double x = kLeft + series.points[i].first / most * (kRight - kLeft);
    const double y = kBottom - series.points[i].second * (kBottom - kTop);
    fmt::format_to(out, "{}{:.1f} {:.1f} ", i == 0 ? 'M' : 'L', x, y);
    fmt::format_to(std::back_inserter(marks),
                   "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\">"
                   "<title>{}: {:.1f} %</title></circle>\n",
                   x, y, colour, escaped(series.name), 100 * series.points[i].second);
  }
  fmt::format_to(out, "\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", colour);
  svg += marks;
  fmt::format_to(out, "<path d=\"M{} {} h24\" stroke=\"{}\" stroke-width=\"2\"/>\n", kRight + 20,
                 legend_y - 4, colour);
  fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>\n", kRight + 52, legend_y,
                 escaped(series.name));
  return svg;
}

}  // namespace

std::string format_table(std::span<const SimulationResult> results) {
  std::string text = fmt::format("{:<8} {:<10} {:<7} {:>6} {:>6} {:>6} {:>7} {:>9} {:>6} {:>9}\n",
                                 "policy", "quota", "mode", "cache", "slots", "hits", "copies",
                                 "MB moved", "useful", "MB missed");
  text += fmt::format("{:<8} {:<10} {:<7} {:>6} {:>6} {:>6} {:>7} {:>9} {:>6} {:>9}\n", "", "", "",
                      "%", "", "%", "/token", "/token", "%", "/token");
  for (const SimulationResult& r : results) {
    const auto mb_a_token = [&](std::int64_t bytes) { return per(bytes, r.tokens) / 1e6; };
    text += fmt::format(
        "{:<8} {:<10} {:<7} {:>6.1f} {:>6} {:>6.2f} {:>7.2f} {:>9.1f} {:>6.1f} {:>9.1f}\n",
        policy_name(r.policy), quota_name(r.quota), mode_of(r), 100 * r.capacity, slots_of(r),
        100 * r.hit_rate(), per(r.copies, r.tokens), mb_a_token(r.bytes_moved),
        100 * per(r.copies_used, r.copies), mb_a_token(r.bytes_missed));
  }
  return text;
}

std::string format_json(std::span<const SimulationResult> results) {
  std::string json = "{\"results\": [";
  const auto out = std::back_inserter(json);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const SimulationResult& r = results[i];
    fmt::format_to(out,
                   "{}\n{{\"policy\": \"{}\", \"quota\": \"{}\", \"mode\": \"{}\", "
                   "\"capacity\": {:.6f}, \"slots\": {}, \"tokens\": {}, \"picks\": {}, "
                   "\"hits\": {}, \"hit_rate\": {:.6f}, \"copies\": {}, \"copies_used\": {}, "
                   "\"copies_wasted\": {}, \"copied_hits\": {}, \"bytes_moved\": {}, "
                   "\"bytes_missed\": {}, \"layers\": [",
                   i == 0 ? "" : ",", policy_name(r.policy), quota_name(r.quota), mode_of(r),
                   r.capacity, slots_of(r), r.tokens, r.picks, r.hits, r.hit_rate(), r.copies,
                   r.copies_used, r.copies_wasted, r.copied_hits, r.bytes_moved, r.bytes_missed);
    for (std::size_t l = 0; l < r.layers.size(); ++l) {
      fmt::format_to(out, "{}{{\"slots\": {}, \"picks\": {}, \"hits\": {}}}", l == 0 ? "" : ", ",
                     r.layers[l].slots, r.layers[l].picks, r.layers[l].hits);
    }
    json += "]}";
  }
  json += "\n]}\n";
  return json;
}

std::string format_svg(std::span<const SimulationResult> results, std::string_view title) {
  double most = 0;
  for (const SimulationResult& r : results) most = std::max(most, r.capacity);
  most = std::max(std::ceil(most * 10) / 10, 0.1);  // whole tens of per cent
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      "<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n"
      "<text x=\"{}\" y=\"28\" font-size=\"17\">{}</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft, escaped(title));
  svg += axes(most);
  std::size_t number = 0;
  for (const Series& series : series_of(results)) {
    svg += line(series, most, kColours[number % std::size(kColours)],
                kTop + 12 + 22 * static_cast<double>(number));
    ++number;
  }
  return svg + "</svg>\n";
}

}  // namespace strata::core
