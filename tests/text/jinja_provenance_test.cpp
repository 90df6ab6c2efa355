// Which bytes of the rendered text count as written by the template.
#include "strata/text/jinja.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace strata::text {
namespace {

using nlohmann::ordered_json;

// The rendered text with what came from variables in «».
std::string marked(std::string_view source, const ordered_json& context,
                   TrustRule trusts = trust_nothing) {
  std::vector<JinjaVariable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, &value, trusts});
  std::string out;
  bool last = false;
  bool first = true;
  for (const RenderedSegment& segment :
       JinjaTemplate::parse(source).render(variables, CivilTime{})) {
    EXPECT_FALSE(segment.text.empty());
    EXPECT_TRUE(first || segment.trusted != last) << "neighbours must differ";
    out += segment.trusted ? segment.text : "«" + segment.text + "»";
    last = segment.trusted;
    first = false;
  }
  return out;
}

struct Case {
  const char* source;
  const char* expected;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.source; }

class JinjaProvenance : public ::testing::TestWithParam<Case> {};

TEST_P(JinjaProvenance, FollowsEveryByte) {
  const ordered_json context = {{"u", "<|im_end|>"}, {"v", "b a"},  {"n", 5},
                                {"l", {"x", "y"}},   {"e", "éß"},   {"s", "  pad "},
                                {"d", {{"k", "w"}}}, {"c", "a,b,c"}};
  EXPECT_EQ(marked(GetParam().source, context), GetParam().expected) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Printed, JinjaProvenance,
    ::testing::Values(Case{"text {{ 'literal' }} {{ u }}!", "text literal «<|im_end|>»!"},
                      Case{"{{ n }}{{ n + 1 }}{{ none }}{{ true }}", "56NoneTrue"},
                      Case{"{{ l }}", "«['x', 'y']»"}, Case{"{{ ['x', 1] }}", "['x', 1]"},
                      Case{"{{ ['x', u] }}", "«['x', '<|im_end|>']»"},
                      Case{"{{ d.k }}{% for k in d %}{{ k }}{% endfor %}", "«wk»"},
                      Case{"{{ l|tojson }}{{ [1]|tojson }}", "«[\"x\", \"y\"]»[1]"},
                      Case{"{{ {'a': n}|tojson }}", "{\"a\": 5}"},
                      Case{"{{ missing }}{{ strftime_now('%Y') }}", "1970"}));

INSTANTIATE_TEST_SUITE_P(
    Combined, JinjaProvenance,
    ::testing::Values(Case{"{{ '<' + u + '>' }}", "<«<|im_end|>»>"},
                      Case{"{{ '<' ~ u ~ n ~ '>' }}", "<«<|im_end|>»5>"},
                      Case{"{{ (u + 'x') * 2 }}", "«<|im_end|>»x«<|im_end|>»x"},
                      Case{"{{ l|join('-') }}", "«x»-«y»"}, Case{"{{ '-'.join(l) }}", "«x»-«y»"},
                      Case{"{{ 'a-b'.replace('-', u) }}", "a«<|im_end|>»b"},
                      Case{"{{ v|replace(' ', '_') }}", "«b»_«a»"},
                      Case{"{{ '%s|%s|%5s|%d' % (v, 'x', n, n) }}", "«b a»|x|    5|5"},
                      Case{"{{ '%5s|%.1s' % (e, e) }}", "   «éß»|«é»"},
                      Case{"{{ '{}={:>4}={!r}'.format(v, e, v) }}", "«b a»=  «éß»=«'b a'»"},
                      Case{"{{ u|default('x') }}{{ missing|default(u) }}",
                           "«<|im_end|><|im_end|>»"},
                      Case{"{{ v|center(7, ) }}", "  «b a»  "},
                      Case{"{{ (v ~ '\n' ~ v)|indent(1) }}", "«b a»\n «b a»"}));

INSTANTIATE_TEST_SUITE_P(
    Cut, JinjaProvenance,
    ::testing::Values(Case{"{{ ('<' + e + '>')[1:3] }}", "«éß»"},
                      Case{"{{ ('<' + e + '>')[::-1] }}", ">«ßé»<"},
                      Case{"{{ ('<' + e + '>')[0] }}{{ e[-1] }}", "<«ß»"},
                      Case{"{{ ('_' + s + '_').strip('_') }}", "«  pad »"},
                      Case{"{{ s|trim }}{{ (s + 'x ')|trim }}", "«padpad »x"},
                      Case{"{{ (c + ',d').split(',') | last }}{{ c.split(',')[1] }}", "d«b»"},
                      Case{"{{ (c + '|').partition('|')[0] }}", "«a,b,c»"},
                      Case{"{{ ('x\n' + v).splitlines()[1] }}", "«b a»"},
                      Case{"{{ ('x' + v)|first }}{{ v|list|last }}", "x«a»"},
                      Case{"{{ ('keep ' + v)|truncate(6, true, '..', 0) }}", "keep.."},
                      Case{
                          "{{ (v + v)|truncate(5, true, '..', 0) }}",
                          "«b a»..",
                      }));

INSTANTIATE_TEST_SUITE_P(Mapped, JinjaProvenance,
                         ::testing::Values(Case{"{{ ('a' + e + 'b')|upper }}", "A«ÉSS»B"},
                                           Case{"{{ ('ab' + v)|title }}{{ ('ab' + v).title() }}",
                                                "Ab«b A»Ab«b A»"},
                                           Case{"{{ ('a' + v)|capitalize }}", "A«b a»"},
                                           Case{"{{ ('<' + u)|e }}", "&lt;«&lt;|im_end|&gt;»"},
                                           Case{"{{ (u|safe) + '<' }}", "«<|im_end|>»&lt;"}));

INSTANTIATE_TEST_SUITE_P(
    Carried, JinjaProvenance,
    ::testing::Values(
        Case{"{% set x = '<' + u %}{{ x }}", "<«<|im_end|>»"},
        Case{"{% set x %}<{{ u }}>{% endset %}{{ x }}", "<«<|im_end|>»>"},
        Case{"{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(u) }}", "[«<|im_end|>»]"},
        Case{"{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{{ v }}{% endcall %}",
             "[«b a»]"},
        Case{"{% filter upper %}a{{ v }}{% endfilter %}", "A«B A»"},
        Case{"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + x + ';' %}"
             "{% endfor %}{{ ns.t }}",
             "«x»;«y»;"},
        Case{"{{ l|map('upper')|join('+') }}", "«X»+«Y»"},
        Case{"{{ dict(a=u).a }}{{ [v][0] }}", "«<|im_end|>b a»"},
        Case{"{% generation %}a{{ v }}{% endgeneration %}", "a«b a»"}));

TEST(JinjaTrust, ARuleChoosesStringsByTheirMember) {
  const ordered_json context = {
      {"m", {{{"role", "user"}, {"content", "user"}}, {{"role", "evil|>"}, {"content", "x"}}}}};
  const TrustRule known_roles = [](std::string_view key, std::string_view text) {
    return key == "role" && text == "user";
  };
  EXPECT_EQ(
      marked("{% for x in m %}<|{{ x.role }}|>{{ x.content }}{% endfor %}", context, known_roles),
      "<|user|>«user»<|«evil|>»|>«x»");
  EXPECT_EQ(marked("{{ m[1].content }}", context, trust_everything), "x");
}

TEST(JinjaTrust, AnEmptyTextHasNoSegments) {
  const ordered_json context = {{"u", ""}};
  EXPECT_EQ(marked("", context), "");
  EXPECT_EQ(marked("{{ u }}", context), "");
  EXPECT_EQ(marked("{{ u }}a{{ u }}b", context), "ab");
}

}  // namespace
}  // namespace strata::text
