// Templates and variables that mean harm: each must end soon, in an error that names the bound, and
// in no crash.
#include "tests/text/jinja_cases.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace strata::text::test {
namespace {

using nlohmann::ordered_json;

struct Case {
  const char* name;
  std::string source;
  const char* reason;             // part of the error's message
  const char* other_reason = "";  // or this, where another bound may come first
};

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// Small enough that even a debug build with sanitizers reaches every bound in moments.
JinjaLimits small_limits() {
  JinjaLimits limits;
  limits.max_steps = 1'000'000;
  limits.max_output_bytes = 1 << 20;
  limits.max_string_bytes = 4 << 20;
  limits.max_items = 100'000;
  limits.max_memory_bytes = 8 << 20;
  return limits;
}

class JinjaHostile : public ::testing::TestWithParam<Case> {};

TEST_P(JinjaHostile, IsStopped) {
  const Case& each = GetParam();
  for (const JinjaLimits& limits : {small_limits(), JinjaLimits{}}) {
    // With the default limits only what fails before long: the others would take seconds.
    const bool slow = std::string_view(each.reason) == "steps of work" ||
                      std::string_view(each.other_reason) == "steps of work";
    if (slow && limits.max_steps == JinjaLimits{}.max_steps) continue;
    const std::string error = render(each.source, ordered_json::object(), limits).error;
    const std::string_view other = each.other_reason;
    EXPECT_TRUE(error.find(each.reason) != std::string::npos ||
                (!other.empty() && error.find(other) != std::string::npos))
        << "error: " << error;
  }
}

void PrintTo(const Case& each, std::ostream* out) { *out << each.source.substr(0, 100); }

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Size, JinjaHostile,
    ::testing::Values(
        Case{"RepeatedString", "{{ 'a' * 10**9 }}", "the bound of"},
        Case{"RepeatedList", "{{ [1] * 10**9 }}", "the bound of"},
        Case{"RepeatedMax", "{{ 'ab' * (2**126) }}", "the bound of"},
        Case{"Range", "{{ range(10**12)|list }}", "Range too big"},
        Case{"RangeMax", "{{ range(-(2**126), 2**126) }}", "64 bits"},
        Case{"Power", "{{ 9**9**9 }}", "127 bits"},
        Case{"PercentWidth", "{{ '%1000000000d' % 1 }}", "the bound of"},
        Case{"PercentPrecision", "{{ '%.1000000000f' % 1 }}", "too big"},
        Case{"PercentDigits", "{{ '%.1000000000d' % 1 }}", "the bound of"},
        Case{"PercentHuge", "{{ '%99999999999999999999d' % 1 }}", "too big"},
        Case{"BraceWidth", "{{ '{:1000000000}'.format(1) }}", "wider"},
        Case{"BracePrecision", "{{ '{:.100000f}'.format(1.0) }}", "too big"},
        Case{"Center", "{{ 'a'|center(10**9) }}", "width"},
        Case{"Zfill", "{{ 'a'.zfill(2**100) }}", "above"},
        Case{"Indent", "{{ 'a'|indent(10**9, true) }}", "the bound of"},
        Case{"JsonIndent", "{{ [1]|tojson(indent=10**9) }}", "indent"},
        Case{"Batch", "{{ [1]|batch(10**9, 'x')|list }}", "out of range"},
        Case{"Slice", "{{ [1]|slice(10**9)|list }}", "out of range"},
        Case{"Replace", "{{ ('a' * 100000).replace('a', 'b' * 100000) }}", "the bound of"},
        Case{"Join", "{{ (['x' * 10000] * 10000)|join }}", "the bound of"},
        Case{"Doubling",
             "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
             "{% endfor %}",
             "the bound of"},
        Case{"DoublingList",
             "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
             "{% endfor %}",
             "the bound of"},
        Case{"Hoard",
             "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}"
             "{% set ns.l = ns.l + ['x' * 100000 ~ i] %}{% endfor %}",
             "bytes of memory", "steps of work"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Work, JinjaHostile,
    ::testing::Values(
        Case{"NestedLoops",
             "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
             "{% endfor %}{% endfor %}{% endfor %}",
             "steps of work"},
        Case{"Search",
             "{% set hay = 'a' * 1000000 %}{% set pin = 'a' * 500000 ~ 'b' %}"
             "{% for i in range(99999) %}{{ pin in hay }}{% endfor %}",
             "steps of work"},
        Case{"SearchBack",
             "{% set hay = 'a' * 1000000 %}{% set pin = 'b' ~ 'a' * 500000 %}"
             "{% for i in range(99999) %}{{ hay.rfind(pin) }}{{ hay.rsplit(pin)|length }}{% endfor "
             "%}",
             "steps of work"},
        Case{
            "Shared",  // a list of two lists of two lists ... that are all the same one
            "{% set ns = namespace(l=['x']) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
            "{% endfor %}{{ ns.l|length }}{{ ns.l }}",
            "the bound of", "steps of work"},
        Case{"SharedCompared",
             "{% set ns = namespace(l=['x'], m=['x']) %}{% for i in range(60) %}"
             "{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == "
             "ns.m }}",
             "steps of work"},
        Case{"Formatting",
             "{% for i in range(99999) %}{{ '%.1000f' % 1e300 }}{{ '{:9999,}'.format(1) }}{% "
             "endfor %}",
             "steps of work", "the output is above the bound of"},
        Case{"LoopForever", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"},
        Case{"MacroForever", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep"},
        Case{"MacroTwice", "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
             "deep"},
        Case{"CallerForever",
             "{% macro m() %}{{ caller() }}{% endmacro %}"
             "{% macro n() %}{% call m() %}{{ n() }}{% endcall %}{% endmacro %}{{ n() }}",
             "deep"},
        Case{"Output", "{% for i in range(99999) %}" + repeated("flood ", 1000) + "{% endfor %}",
             "the bound of"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Depth, JinjaHostile,
    ::testing::Values(
        Case{"Parentheses", "{{ " + repeated("(", 20000), "nest more than"},
        Case{"Brackets", "{{ " + repeated("[", 20000) + repeated("]", 20000) + " }}",
             "nest more than"},
        Case{"Braces", "{{ " + repeated("{1:", 20000), "nest more than"},
        Case{"Minus", "{{ " + repeated("-", 20000) + "1 }}", "nest more than"},
        Case{"Not", "{{ " + repeated("not ", 20000) + "1 }}", "nest more than"},
        Case{"Else", "{{ " + repeated("1 if 0 else ", 20000) + "1 }}", "nest more than"},
        Case{"Subscripts", "{{ a" + repeated("[a", 20000), "nest more than"},
        Case{"Tests", "{{ a" + repeated(" is divisibleby a", 20000) + " }}", "levels"},
        Case{"Calls", "{{ a" + repeated("(a", 20000), "nest more than"},
        Case{"IfBlocks", repeated("{% if 1 %}", 20000), "nest more than"},
        Case{"ForBlocks", repeated("{% for x in y %}", 20000), "nest more than"},
        Case{"SetBlocks", repeated("{% set x %}", 20000), "nest more than"},
        Case{"Sum", "{{ 1" + repeated(" + 1", 20000) + " }}", "levels"},
        Case{"And", "{{ 1" + repeated(" and 1", 20000) + " }}", "levels"},
        Case{"Filters", "{{ 1" + repeated("|abs", 20000) + " }}", "levels"},
        Case{"Attributes", "{{ a" + repeated(".b", 20000) + " }}", "levels"},
        Case{"Lists",
             "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = "
             "[ns.l] %}{% endfor %}",
             "nested more than"},
        Case{"Generators",
             "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}"
             "{% set ns.l = ns.l|map('abs') %}{% endfor %}{{ ns.l|list }}",
             "nested more than"},
        Case{"SelfNamespace", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
             "nested more than"},
        Case{"NamespaceChain",
             "{% set ns = namespace(x=none) %}{% for i in range(9999) %}{% set ns.x = "
             "namespace(x=ns.x) %}"
             "{% endfor %}",
             "nested more than"}),
    case_name);

TEST(JinjaHostileValues, CyclesAndLongChainsAreTakenApart) {
  // Leaks and overflows of the stack when values are destroyed: for the sanitizers to find.
  const char* const sources[] = {
      "{% set ns = namespace() %}{% set ns.x = ns %}{% set ns.y = [ns, {'a': ns}] %}ok",
      "{% macro m() %}{% endmacro %}{% set ns = namespace(m=m) %}{% macro n() %}{{ ns }}{% "
      "endmacro %}"
      "{% set ns.n = n %}ok",
      // Each namespace refers to the next one made: none is nested as far as anyone counted.
      "{% set top = namespace(next=none, last=none) %}{% set top.last = top %}"
      "{% for i in range(5000) %}{% set fresh = namespace(next=none) %}{% set last = top.last %}"
      "{% set last.next = fresh %}{% set top.last = fresh %}{% endfor %}ok",
      "{% for x in [1, 2] %}{% set ns = namespace(l=loop) %}{% set ns.s = ns %}{% endfor %}ok"};
  for (const char* source : sources) {
    const Outcome outcome = render(source, ordered_json::object());
    EXPECT_TRUE(outcome.text == "ok" || outcome.error.find("nested") != std::string::npos)
        << source << outcome.error;
  }
}

TEST(JinjaHostileValues, DeepJsonIsRefused) {
  ordered_json deep = "x";
  for (int i = 0; i < 5000; ++i) deep = ordered_json::array({std::move(deep)});
  const Outcome outcome = render("{{ v }}", {{"v", std::move(deep)}});
  EXPECT_NE(outcome.error.find("nested more than"), std::string::npos) << outcome.error;
}

TEST(JinjaHostileValues, VariablesAreCheckedForUtf8) {
  EXPECT_EQ(render("{{ v }}{{ v|length }}", {{"v", "a\xFFz\xE4\xB8"}}).text,
            "a\xEF\xBF\xBDz\xEF\xBF\xBD"
            "4");
  EXPECT_EQ(render("{{ v|tojson }}", {{"v", {{"k\x80", 1}}}}).text, "{\"k\xEF\xBF\xBD\": 1}");
  const std::string zeros("a\0b", 3);
  EXPECT_EQ(render("{{ v }}", {{"v", zeros}}).text, zeros);
}

TEST(JinjaHostileSource, BytesThatAreNoTemplateAreRefused) {
  EXPECT_NE(render("{{ 'a\xFF' }}", {}).error.find("UTF-8"), std::string::npos);
  JinjaLimits limits;
  limits.max_source_bytes = 10;
  EXPECT_NE(render("12345678901", {}, limits).error.find("above the bound"), std::string::npos);
  EXPECT_EQ(render("1234567890", {}, limits).text, "1234567890");
}

TEST(JinjaHostileSource, TruncatedAnywhereIsATextOrAnError) {
  const ordered_json context = load("context.json");
  const std::string source =
      "{%- macro m(a, b=[1, {'k': \"v\\n\\x41\"}]) -%}{{ a|default(b, true) ~ 1.5e3 }}{%- endmacro "
      "-%}"
      "{# c #}{% raw %}{{ x }}{% endraw %}{% for x, y in d.items() if x is string recursive %}"
      "{{ loop.index ~ m(x)[::-1] if not loop.last else '世界' }}{% else %}-{% endfor %}"
      "{% set ns = namespace(z=0) %}{% set ns.z = -n ** 2 // 3 %}{% call(q) m(1) %}{{ q }}{% "
      "endcall %}";
  for (std::size_t size = 0; size <= source.size(); ++size) {
    const Outcome outcome = render(std::string_view(source).substr(0, size), context);
    EXPECT_TRUE(outcome.error.empty() || outcome.text.empty());
  }
}

TEST(JinjaThreads, RenderTheSameTemplateAtOnce) {
  const JinjaTemplate parsed = JinjaTemplate::parse(
      "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m|upper ~ 'é' %}"
      "{% endfor %}{{ ns.t }}");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&parsed, &wrong, t] {
      const std::string name(1, static_cast<char>('a' + t));
      const ordered_json messages = ordered_json::array({name, name});
      const std::string upper(1, static_cast<char>('A' + t));
      const JinjaVariable variable{"messages", &messages};
      for (int i = 0; i < 50; ++i) {
        const std::string text = joined(parsed.render(std::span(&variable, 1), kNow));
        if (text != upper + "é" + upper + "é") ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace strata::text::test
