#include "strata/text/jinja.hpp"

#include "src/text/jinja_builtins.hpp"

#include <locale.h>
#include <time.h>

#include <array>
#include <chrono>

namespace strata::text {

CivilTime current_civil_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return CivilTime(std::chrono::seconds(now + local.tm_gmtoff));
}

namespace jinja {
namespace {

std::tm broken_down(CivilTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const std::chrono::local_days new_year(date.year() / std::chrono::January / 1);
  std::tm out{};
  out.tm_year = static_cast<int>(date.year()) - 1900;
  out.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  out.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  out.tm_hour = static_cast<int>(clock.hours().count());
  out.tm_min = static_cast<int>(clock.minutes().count());
  out.tm_sec = static_cast<int>(clock.seconds().count());
  out.tm_wday = static_cast<int>(std::chrono::weekday(day).c_encoding());
  out.tm_yday = static_cast<int>((day - new_year).count());
  return out;
}

// The format without what Python answers by itself for a time without a zone: microseconds and the
// zone.
std::string resolve_directives(std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char next = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (next == 'f') {
      out += "000000";
    } else if (next != 'z' && next != 'Z') {
      out += format[i];
      if (next == '%') out += next;
    }
    if (next == 'f' || next == 'z' || next == 'Z' || next == '%') ++i;
  }
  return out;
}

}  // namespace

std::string format_time(const Runtime& runtime, std::string_view format) {
  constexpr std::size_t kMaxFormat = 1024;
  if (format.size() > kMaxFormat)
    runtime.fail("strftime_now(): a format above {} bytes", kMaxFormat);
  // A character in front tells an empty result from a buffer that is too small.
  const std::string resolved = "." + resolve_directives(format);
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::tm now = broken_down(runtime.now());
  std::array<char, 16 * kMaxFormat> buffer;
  const std::size_t size =
      ::strftime_l(buffer.data(), buffer.size(), resolved.c_str(), &now, kPlain);
  if (size == 0) runtime.fail("strftime_now(): the text is too long");
  return {buffer.data() + 1, size - 1};
}

}  // namespace jinja
}  // namespace strata::text
