#include "src/text/json_schema_strings.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::text::schema {
namespace {

using grammar::CharSet;
using grammar::Dfa;
using grammar::Nfa;
using grammar::State;

State add_range(Nfa& nfa, State from, std::string_view ranges) {
  const State to = nfa.add();
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    nfa.bytes(from, static_cast<std::uint8_t>(ranges[i]), static_cast<std::uint8_t>(ranges[i + 1]),
              to);
  }
  return to;
}

}  // namespace

void add_string_characters(Nfa& nfa, State from, const CharSet& set, State to) {
  add_characters(nfa, from, set.without(CharSet::all().without(grammar::plain_set())), to);
  for (const char32_t special : {U'"', U'\\'}) {
    if (!set.contains(special)) continue;
    const State end = nfa.literal(from, escaped_string(std::string(1, static_cast<char>(special))));
    nfa.empty(end, to);
  }
  for (char control = 0; control < ' '; ++control) {
    if (!set.contains(static_cast<char32_t>(control))) continue;
    nfa.empty(nfa.literal(from, escaped_string(std::string(1, control))), to);
  }
}

void add_any_character(Nfa& nfa, State from, State to) {
  constexpr std::string_view kHex = "09afAF";
  add_characters(nfa, from, grammar::plain_set(), to);
  const State escape = nfa.literal(from, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) {
    nfa.bytes(escape, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
  }
  const auto last_digits = [&](State at, int count) {
    for (int i = 0; i < count; ++i) at = add_range(nfa, at, kHex);
    return at;
  };
  const State unicode = nfa.literal(escape, "u");
  nfa.empty(last_digits(add_range(nfa, unicode, "09acACefEF"), 3), to);
  const State d = add_range(nfa, unicode, "ddDD");
  nfa.empty(last_digits(add_range(nfa, d, "07"), 2), to);
  // Surrogates in pairs only.
  const State high = last_digits(add_range(nfa, d, "89abAB"), 2);
  const State low = add_range(nfa, nfa.literal(high, "\\u"), "ddDD");
  nfa.empty(last_digits(add_range(nfa, low, "cfCF"), 2), to);
}

std::string escaped_string(const std::string& text) {
  if (valid_utf8_prefix(text) != text.size()) {
    fail(ErrorKind::kUsage, "schema: a string is not valid UTF-8");
  }
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

std::string format_pattern(std::string_view format) {
  constexpr std::string_view kYear = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
  constexpr std::string_view kDay =
      "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
      "02-(?:0[1-9]|1[0-9]|2[0-8]))";
  constexpr std::string_view kFours = "(?:0[48]|[2468][048]|[13579][26])";
  const std::string date =
      fmt::format("(?:{}-{}|(?:[0-9]{{2}}{}|{}00)-02-29)", kYear, kDay, kFours, kFours);
  const std::string hour_and_minute = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  const std::string time = fmt::format("{}:[0-5][0-9](?:\\.[0-9]{{1,9}})?(?:Z|[+-]{})",
                                       hour_and_minute, hour_and_minute);
  const std::string hex4 = "[0-9a-fA-F]{4}";
  // Labels of at most 31 characters without double hyphens; 8 of them stay below 255.
  const std::string label = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,15}";
  const std::string host = fmt::format("{}(?:\\.{}){{0,7}}", label, label);
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string path = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})";
  std::string pattern;
  if (format == "date") {
    pattern = date;
  } else if (format == "time") {
    pattern = time;
  } else if (format == "date-time") {
    pattern = date + "T" + time;
  } else if (format == "duration") {
    constexpr std::string_view kN = "[0-9]{1,4}";
    const std::string days = fmt::format("(?:{0}Y(?:{0}M(?:{0}D)?)?|{0}M(?:{0}D)?|{0}D)", kN);
    const std::string hours = fmt::format("T(?:{0}H(?:{0}M(?:{0}S)?)?|{0}M(?:{0}S)?|{0}S)", kN);
    pattern = fmt::format("P(?:{}W|{}(?:{})?|{})", kN, days, hours, hours);
  } else if (format == "uuid") {
    pattern = fmt::format("{0}{0}-(?:{0}-){{3}}{0}{0}{0}", hex4);
  } else if (format == "email") {
    pattern = fmt::format(
        "[A-Za-z0-9_%+-]{{1,16}}(?:\\.[A-Za-z0-9_%+-]{{1,15}}){{0,3}}@(?:{}\\.){{1,5}}[A-Za-z]{{2,"
        "20}}",
        label);
  } else if (format == "hostname") {
    pattern = host;
  } else if (format == "ipv4") {
    pattern = fmt::format("{0}(?:\\.{0}){{3}}", octet);
  } else if (format == "ipv6") {
    const std::string group = "[0-9a-fA-F]{1,4}";
    pattern = fmt::format("(?:(?:{0}:){{7}}{0}", group);
    // "::" stands for two groups or more: some of the other six are in front of it, some behind.
    std::string front;
    for (int behind = 6; behind >= 0; --behind) {
      pattern += "|" + front + "::";
      if (behind > 0) pattern += fmt::format("(?:{0}(?::{0}){{0,{1}}})?", group, behind - 1);
      front += (front.empty() ? "" : ":") + group;
    }
    pattern += ")";
  } else if (format == "uri") {
    pattern = fmt::format(
        "(?:(?:https?|ftp)://{0}(?::[1-9][0-9]{{0,3}})?(?:/{1}*)*(?:\\?{1}*)?(?:#{1}*)?|"
        "urn:[a-z0-9][a-z0-9-]{{1,30}}:{1}+)",
        host, path);
  } else {
    return pattern;
  }
  return "^" + pattern + "$";
}

std::string known_formats() {
  return "date-time, date, time, duration, uuid, email, hostname, ipv4, ipv6 and uri";
}

Dfa StringLanguages::of(const Shape& shape) {
  grammar::Budget& budget = document_.budget();
  if (shape.values) {
    Nfa nfa(budget);
    const State start = nfa.add();
    const State accept = nfa.add();
    for (const Json* value : *shape.values) {
      if (!value->is_string() || !holds(value->get_ref<const std::string&>(), shape)) continue;
      nfa.empty(nfa.literal(start, escaped_string(value->get_ref<const std::string&>())), accept);
    }
    return determinize(nfa, start, accept, budget);
  }
  std::optional<Dfa> language;
  const auto restrict = [&](const Dfa& other) {
    language = language ? intersect(*language, other, budget) : other;
  };
  for (const std::string* pattern : shape.patterns) restrict(of_pattern(*pattern, shape));
  for (const std::string* format : shape.formats) restrict(of_format(*format, shape));
  if (!language || shape.characters.min > 0 || shape.characters.max != kMany) {
    restrict(of_length(shape.characters));
  }
  return *std::move(language);
}

Dfa StringLanguages::of(const SchemaSet& set) {
  Nfa nfa(document_.budget());
  const State start = nfa.add();
  const State accept = nfa.add();
  for (const Shape& shape : document_.expand(set)) {
    if ((shape.types & kString) != 0) nfa.embed(start, of(shape), accept);
  }
  return determinize(nfa, start, accept, document_.budget());
}

const Dfa& StringLanguages::of_pattern(const std::string& pattern, const Json& schema,
                                       std::string_view keyword) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  try {
    return patterns_.emplace(pattern, pattern_language(pattern, document_.budget())).first->second;
  } catch (const Error& error) {
    document_.fail_at(schema, keyword, fmt::format("pattern \"{}\": {}", pattern, error.what()));
  }
}

const Dfa& StringLanguages::of_pattern(const std::string& pattern, const Shape& shape) {
  for (const Json* schema : shape.schemas) {
    const auto found = schema->find("pattern");
    if (found != schema->end() && &found->get_ref<const std::string&>() == &pattern) {
      return of_pattern(pattern, *schema, "pattern");
    }
  }
  return of_pattern(pattern, *shape.schemas.front(), "pattern");
}

const Dfa& StringLanguages::of_format(const std::string& format, const Shape& shape) {
  const auto known = formats_.find(format);
  if (known != formats_.end()) return known->second;
  const std::string pattern = format_pattern(format);
  if (pattern.empty()) {
    document_.fail_at(
        shape.schemas, "format",
        fmt::format("format \"{}\" cannot be enforced; {} can", format, known_formats()));
  }
  return formats_.emplace(format, pattern_language(pattern, document_.budget())).first->second;
}

Dfa StringLanguages::of_length(const CountRange& characters) {
  Nfa nfa(document_.budget());
  const State start = nfa.add();
  const State accept = nfa.add();
  State at = start;
  for (std::uint32_t i = 0; i < characters.min; ++i) {
    const State next = nfa.add();
    add_string_characters(nfa, at, CharSet::all(), next);
    at = next;
  }
  if (characters.max == kMany) {
    const State loop = nfa.add();
    nfa.empty(at, loop);
    add_string_characters(nfa, loop, CharSet::all(), loop);
    at = loop;
  }
  for (std::uint32_t i = characters.min; characters.max != kMany && i < characters.max; ++i) {
    nfa.empty(at, accept);
    const State next = nfa.add();
    add_string_characters(nfa, at, CharSet::all(), next);
    at = next;
  }
  if (characters.min <= characters.max) nfa.empty(at, accept);
  return determinize(nfa, start, accept, document_.budget());
}

bool StringLanguages::holds(const std::string& text, const Shape& shape) {
  const auto is_begin = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto length = std::count_if(text.begin(), text.end(), is_begin);
  if (!shape.characters.contains(static_cast<std::size_t>(length))) return false;
  if (shape.patterns.empty() && shape.formats.empty()) return true;
  const std::string escaped = escaped_string(text);
  return std::all_of(
             shape.patterns.begin(), shape.patterns.end(),
             [&](const auto* pattern) { return of_pattern(*pattern, shape).accepts(escaped); }) &&
         std::all_of(shape.formats.begin(), shape.formats.end(), [&](const auto* format) {
           return of_format(*format, shape).accepts(escaped);
         });
}

}  // namespace strata::text::schema
