#include "src/text/json_schema_numbers.hpp"

#include "src/text/json_schema_strings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace strata::text::schema {
namespace {

using grammar::Budget;
using grammar::Dfa;
using grammar::Nfa;
using grammar::State;

constexpr std::size_t kWholeDigits = 18;
constexpr std::size_t kMostWholeDigits = 20;  // of 64-bit integers
constexpr std::size_t kDecimals = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A whole number of units, which are 10^-decimals.
struct Units {
  bool negative = false;
  std::string digits;  // without leading zeros; "" is zero
};

bool below(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string without_leading_zeros(const std::string& digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? "" : digits.substr(first);
}

std::string plus_one(std::string digits) {
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '9') {
      ++*digit;
      return digits;
    }
    *digit = '0';
  }
  return "1" + digits;
}

std::string minus_one(std::string digits) {  // of at least 1
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '0') {
      --*digit;
      break;
    }
    *digit = '9';
  }
  return without_leading_zeros(digits);
}

// All digits: every binary fraction is a finite decimal one.
std::string exact_decimal(const Json& value) {
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  std::array<char, 1500> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value.get<double>(),
                                 std::chars_format::fixed, 1074)
                       .ptr;
  return {text.data(), end};
}

// Rounded up for lower bounds, down for upper ones, so that the bound itself is never passed.
Units units_of(const Json& value, std::size_t decimals, bool lower, bool exclusive) {
  std::string text = exact_decimal(value);
  Units units;
  units.negative = text.front() == '-';
  if (units.negative) text.erase(0, 1);
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string fraction = point < text.size() ? text.substr(point + 1) : "";
  fraction.resize(std::max(fraction.size(), decimals), '0');
  units.digits = without_leading_zeros(text.substr(0, point) + fraction.substr(0, decimals));
  const bool rest = fraction.find_first_not_of('0', decimals) != std::string::npos;
  // Cutting digits off leads towards zero.
  const bool away = rest ? units.negative != lower : exclusive && units.negative != lower;
  const bool towards = !rest && exclusive && units.negative == lower;
  if (units.digits.empty() && exclusive && !rest) {
    units = {!lower, "1"};
  } else if (away) {
    units.digits = plus_one(units.digits);
  } else if (towards) {
    units.digits = minus_one(units.digits);
  }
  if (units.digits.empty()) units.negative = false;
  return units;
}

// Readers hold fractions as doubles. What is at least the next double above an exclusive bound is
// above that bound for them, too.
double as_double(const NumberBound& bound, bool lower) {
  const auto value = bound.value.get<double>();
  const double beyond = std::nextafter(value, lower ? kInfinity : -kInfinity);
  if (bound.exclusive) return beyond;
  if (!bound.value.is_number_integer()) return value;
  const auto exact = bound.value.is_number_unsigned()
                         ? static_cast<long double>(bound.value.get<std::uint64_t>())
                         : static_cast<long double>(bound.value.get<std::int64_t>());
  const bool inside = lower ? value >= exact : value <= exact;
  return inside ? value : beyond;
}

// Texts of numbers whose magnitude lies between two numbers of units.
class MagnitudeWriter {
 public:
  MagnitudeWriter(Nfa& nfa, std::size_t decimals, State accept)
      : nfa_(nfa), decimals_(decimals), accept_(accept) {}

  void write(State from, const std::string& low, const std::string& high,
             std::size_t whole_digits) {
    for (std::size_t whole = 1; whole <= whole_digits; ++whole) {
      whole_ = whole;
      const std::size_t size = whole + decimals_;
      const std::string first = whole == 1 ? "" : "1" + std::string(size - 1, '0');
      const std::string last(size, '9');
      low_ = below(low, first) ? first : low;
      high_ = below(last, high) ? last : high;
      if (below(high_, low_)) continue;
      low_.insert(0, size - low_.size(), '0');
      high_.insert(0, size - high_.size(), '0');
      states_.clear();
      nfa_.empty(from, state(0, true, true));
    }
  }

 private:
  // After `read` digits. at_low: they are those of low_, so the rest may not be smaller.
  State state(std::size_t read, bool at_low, bool at_high) {
    at_low = at_low && low_.find_first_not_of('0', read) != std::string::npos;
    at_high = at_high && high_.find_first_not_of('9', read) != std::string::npos;
    // Where no bound is near, how many digits are still to come is all that matters.
    const bool free = !at_low && !at_high;
    const auto key = std::make_tuple(read, at_low, at_high);
    const auto free_key =
        std::make_pair(read < whole_ ? whole_ - read : 0, read > whole_ ? read - whole_ : 0);
    const auto known = free ? free_states_.find(free_key) : free_states_.end();
    if (known != free_states_.end()) return known->second;
    if (const auto found = states_.find(key); !free && found != states_.end()) {
      return found->second;
    }
    const State made = nfa_.add();
    if (free) {
      free_states_.emplace(free_key, made);
    } else {
      states_.emplace(key, made);
    }
    if (read >= whole_ && !at_low) nfa_.empty(made, accept_);  // zeros for what is not written
    if (read == whole_ && decimals_ > 0) {
      digit(nfa_.literal(made, "."), read, at_low, at_high);
    } else if (read < whole_ + decimals_) {
      digit(made, read, at_low, at_high);
    }
    return made;
  }

  void digit(State from, std::size_t read, bool at_low, bool at_high) {
    const char first = at_low ? low_[read] : '0';
    const char last = at_high ? high_[read] : '9';
    for (char c = first; c <= last; ++c) {
      const State to = state(read + 1, at_low && c == first, at_high && c == last);
      nfa_.bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    }
  }

  Nfa& nfa_;
  std::size_t decimals_;
  State accept_;
  std::size_t whole_ = 0;
  std::string low_, high_;  // of numbers with whole_ digits in front of the point
  std::map<std::tuple<std::size_t, bool, bool>, State> states_;
  std::map<std::pair<std::size_t, std::size_t>, State> free_states_;
};

Dfa bounded_numbers(const Shape& shape, std::size_t decimals, Budget& budget) {
  const auto units = [&](const std::optional<NumberBound>& bound,
                         bool lower) -> std::optional<Units> {
    if (!bound) return std::nullopt;
    if (decimals == 0) return units_of(bound->value, 0, lower, bound->exclusive);
    const double value = as_double(*bound, lower);
    // Beyond the largest double there is nothing; a number that large is not written either.
    const double finite = std::clamp(value, std::numeric_limits<double>::lowest(),
                                     std::numeric_limits<double>::max());
    return units_of(Json(finite), decimals, lower, false);
  };
  const std::optional<Units> lower = units(shape.lower, true);
  const std::optional<Units> upper = units(shape.upper, false);
  // Enough digits to reach a bound; a distant one is not worth more than 64-bit integers have.
  std::size_t whole = kWholeDigits;
  const auto reach = [&](const std::optional<Units>& bound, bool must) {
    if (!bound || bound->digits.size() <= decimals) return;
    const std::size_t digits = bound->digits.size() - decimals;
    if (must || digits <= kMostWholeDigits) whole = std::max(whole, digits);
  };
  reach(lower, lower && !lower->negative);
  reach(upper, upper && upper->negative);
  const std::string largest(whole + decimals, '9');

  Nfa nfa(budget);
  const State start = nfa.add();
  const State accept = nfa.add();
  if (!upper || !upper->negative) {
    const std::string low = lower && !lower->negative ? lower->digits : "";
    MagnitudeWriter(nfa, decimals, accept)
        .write(start, low, upper ? upper->digits : largest, whole);
  }
  if (!lower || lower->negative) {
    const std::string low = upper && upper->negative ? upper->digits : "1";
    MagnitudeWriter(nfa, decimals, accept)
        .write(nfa.literal(start, "-"), low, lower ? lower->digits : largest, whole);
  }
  return determinize(nfa, start, accept, budget);
}

// Whole numbers that `divisor` divides: a state for each remainder.
Dfa multiples_of(std::uint32_t divisor, Budget& budget) {
  Nfa nfa(budget);
  const State start = nfa.add();
  const State accept = nfa.add();
  std::vector<State> remainders(divisor);
  for (State& state : remainders) state = nfa.add();
  const auto digits = [&](State from, std::uint32_t remainder) {
    for (std::uint32_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<std::uint8_t>('0' + digit);
      nfa.bytes(from, byte, byte, remainders[(remainder * 10 + digit) % divisor]);
    }
  };
  for (std::uint32_t i = 0; i < divisor; ++i) digits(remainders[i], i);
  digits(start, 0);
  digits(nfa.literal(start, "-"), 0);
  nfa.empty(remainders[0], accept);
  return determinize(nfa, start, accept, budget);
}

}  // namespace

Dfa number_language(const Shape& shape, SchemaDocument& document) {
  Budget& budget = document.budget();
  const bool integer = shape.integer || !shape.multiples.empty();
  Dfa language;
  if (shape.lower || shape.upper) {
    language = bounded_numbers(shape, integer ? 0 : kDecimals, budget);
  } else if (integer) {
    language = whole_text_language("0|-?[1-9][0-9]{0,17}", budget);
  } else {
    language = whole_text_language(
        "-?(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?", budget);
  }
  for (const Json* multiple : shape.multiples) {
    constexpr double kLargest = 10'000;
    const auto divisor = multiple->get<double>();
    if (divisor != std::floor(divisor) || divisor > kLargest) {
      document.fail_at(shape.schemas, "multipleOf",
                       fmt::format("only whole numbers up to {} can be enforced", kLargest));
    }
    language =
        intersect(language, multiples_of(static_cast<std::uint32_t>(divisor), budget), budget);
  }
  return language;
}

bool number_holds(const Json& value, const Shape& shape) {
  const auto number = value.get<double>();
  if (shape.integer && number != std::floor(number)) return false;
  const auto inside = [&](const std::optional<NumberBound>& bound, bool lower) {
    if (!bound) return true;
    const bool beyond = lower ? value < bound->value : bound->value < value;
    return !beyond && !(bound->exclusive && value == bound->value);
  };
  return inside(shape.lower, true) && inside(shape.upper, false) &&
         std::all_of(shape.multiples.begin(), shape.multiples.end(), [&](const Json* multiple) {
           return std::fmod(number, multiple->get<double>()) == 0;
         });
}

bool numbers_apart(const Shape& a, const Shape& b) {
  const auto above = [](const Shape& low, const Shape& high) {
    if (!low.upper || !high.lower) return false;
    return low.upper->value < high.lower->value ||
           (low.upper->value == high.lower->value &&
            (low.upper->exclusive || high.lower->exclusive));
  };
  return above(a, b) || above(b, a);
}

}  // namespace strata::text::schema
