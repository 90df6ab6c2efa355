#include "strata/text/pretokenizer.hpp"

#include "strata/base/error.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <string>
#include <utility>

namespace strata::text {
namespace {

// Unicode's White_Space, which is what \s means to the engines the expressions were written for.
// PCRE2's own \s has U+180E too.
constexpr std::string_view kSpaces =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string expand_spaces(std::string_view pattern) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        result += in_class ? std::string(kSpaces) : '[' + std::string(kSpaces) + ']';
      } else if (next == 'S') {
        result += "[^" + std::string(kSpaces) + ']';
      } else {
        result += c;
        result += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    result += c;
  }
  return result;
}

struct CodeDeleter {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* match) const noexcept { pcre2_match_data_free(match); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const noexcept {
    pcre2_match_context_free(context);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, MatchDeleter>;

std::string error_text(int code) {
  PCRE2_UCHAR text[128];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct Expression {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
  bool jit;  // compiled to machine code; false where the system forbids that (no writable and
             // executable pages)
};

Expression compile(std::string_view pattern) {
  const std::string expanded = expand_spaces(pattern);
  int error = 0;
  std::size_t offset = 0;
  Expression expression;
  expression.code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (expression.code == nullptr) {
    fail(ErrorKind::kInternal, "pre-tokenizer expression '{}': {} at {}", expanded,
         error_text(error), offset);
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(expression.code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    fail(ErrorKind::kInternal, "pre-tokenizer expression '{}' matches the empty text", expanded);
  }
  expression.jit = pcre2_jit_compile(expression.code.get(), PCRE2_JIT_COMPLETE) == 0;
  return expression;
}

}  // namespace

struct PreTokenizer::Impl {
  std::vector<Expression> expressions;
  std::unique_ptr<pcre2_match_context, ContextDeleter> context;
};

namespace {

struct Match {
  std::size_t begin, end;
};

// One split: what the passes share. Match data are this call's own, so that calls can run in
// parallel.
class Splitter {
 public:
  using Sink = void (*)(void*, std::string_view);

  Splitter(std::span<const Expression> expressions, pcre2_match_context* context, Sink sink,
           void* object)
      : expressions_(expressions),
        context_(context),
        match_(pcre2_match_data_create(1, nullptr)),
        sink_(sink),
        object_(object) {
    if (match_ == nullptr) fail(ErrorKind::kResource, "no memory for matching text");
  }

  // Each piece is a subject of its own: look-aheads see the piece's end as the text's end.
  void pass(std::size_t index, std::string_view text) const {
    if (index == expressions_.size()) {
      sink_(object_, text);
      return;
    }
    std::size_t done = 0;
    Match match{};
    while (done < text.size() && next(expressions_[index], text, done, match)) {
      if (match.begin > done) pass(index + 1, text.substr(done, match.begin - done));
      pass(index + 1, text.substr(match.begin, match.end - match.begin));
      done = match.end;
    }
    if (done < text.size()) pass(index + 1, text.substr(done));
  }

 private:
  bool next(const Expression& expression, std::string_view text, std::size_t from,
            Match& match) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (expression.jit) {
      result = pcre2_jit_match(expression.code.get(), subject, text.size(), from,
                               PCRE2_NO_UTF_CHECK, match_.get(), context_);
    }
    if (result ==
        PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its backtracking points on the heap
      result = pcre2_match(expression.code.get(), subject, text.size(), from,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match_.get(), context_);
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      fail(ErrorKind::kResource, "cannot cut {} bytes of text: {}", text.size(),
           error_text(result));
    const std::size_t* bounds = pcre2_get_ovector_pointer(match_.get());
    match = {bounds[0], bounds[1]};
    return true;
  }

  std::span<const Expression> expressions_;
  pcre2_match_context* context_;
  MatchData match_;
  Sink sink_;
  void* object_;
};

}  // namespace

PreTokenizer::PreTokenizer(std::span<const std::string_view> patterns) {
  auto impl = std::make_unique<Impl>();
  for (const std::string_view pattern : patterns) impl->expressions.push_back(compile(pattern));
  impl->context.reset(pcre2_match_context_create(nullptr));
  if (impl->context == nullptr) fail(ErrorKind::kResource, "no memory for matching text");
  // The default of 10 million steps would refuse a long run of spaces; the expressions are linear
  // by construction.
  pcre2_set_match_limit(impl->context.get(), ~std::uint32_t{0});
  impl_ = std::move(impl);
}

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::run(std::string_view text, Sink sink, void* object) const {
  if (text.empty()) return;
  Splitter(impl_->expressions, impl_->context.get(), sink, object).pass(0, text);
}

}  // namespace strata::text
