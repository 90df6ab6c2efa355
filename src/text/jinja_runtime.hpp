// What every part of a running template shares: the bounds, the memory, the line for messages, and
// makers of values.
#pragma once

#include "strata/text/jinja.hpp"

#include "src/text/jinja_value.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text::jinja {

// The number of a name in a Program's table of names.
using NameId = std::uint32_t;

// The variables of one block of the template.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;
  MemoryShare share;

  [[nodiscard]] const Value* find(NameId name) const;  // here or in a parent; null when absent
  void set(NameId name, Value value);                  // here
};

class Runtime {
 public:
  Runtime(const JinjaLimits& limits, CivilTime now) : limits_(limits), now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const JinjaLimits& limits() const { return limits_; }
  [[nodiscard]] CivilTime now() const { return now_; }
  [[nodiscard]] std::uint32_t line() const { return line_; }
  void set_line(std::uint32_t line) { line_ = line; }

  // Counts work; fails when the template has done too much.
  void step(std::size_t cost = 1) {
    if (cost > limits_.max_steps - steps_) fail_steps();
    steps_ += cost;
  }
  void touch_bytes(std::size_t bytes) { step(1 + bytes / 64); }

  // Fails with the line the template is at.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(fmt::format(format, std::forward<Args>(args)...));
  }

  // Makers. Each counts the memory of what it makes and fails beyond the bounds.
  [[nodiscard]] Value text(Text text, bool markup = false);
  [[nodiscard]] Value text(std::string bytes, bool trusted) {
    return this->text(Text(std::move(bytes), trusted));
  }
  [[nodiscard]] Value list(std::vector<Value> items);
  [[nodiscard]] Value tuple(std::vector<Value> items, bool group = false);
  [[nodiscard]] Value dict(DictObject dict);
  [[nodiscard]] Value view(const Value& dict, ViewObject::Part part);
  [[nodiscard]] Value range(Int start, Int stop, Int step);
  // `depth` is that of the deepest value that `next` holds.
  [[nodiscard]] Value iterator(int depth, std::function<bool(Value&)> next);
  [[nodiscard]] Value name_space(DictObject attributes);
  [[nodiscard]] Value undefined(std::string message);
  [[nodiscard]] std::shared_ptr<Scope> scope(std::shared_ptr<Scope> parent);

  void check_text_size(std::size_t bytes) const;
  void check_items(std::size_t count) const;
  void check_depth(int depth) const;
  void check_memory() const;
  // Draws the next item; false at the end. Fails when the iterator is being drawn from already, or
  // too many are.
  bool advance(IteratorObject& iterator, Value& item);
  void set_attribute(NamespaceObject& object, std::string_view name, Value value);
  [[nodiscard]] MemoryShare share(std::size_t bytes);

  // Scopes that macros refer to and loops that live on after their end may form cycles: they are
  // kept, and taken apart when the render ends.
  void keep(const std::shared_ptr<Scope>& scope);
  void keep(const Ref<LoopObject>& loop) { loops_.push_back(loop); }

 private:
  [[noreturn]] void fail_with(const std::string& message) const;
  [[noreturn]] void fail_steps() const;

  const JinjaLimits& limits_;
  CivilTime now_;
  std::size_t steps_ = 0;
  std::uint32_t line_ = 1;
  MemoryBudget memory_;  // above everything that is counted in it, so destroyed last
  std::vector<Ref<NamespaceObject>> namespaces_;
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<Ref<LoopObject>> loops_;
  int advancing_ = 0;  // iterators being drawn from, each by the one before
};

// Text under construction, kept below the bounds on strings, memory and work.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), share_(runtime.share(0)) {}

  void append(std::string_view bytes, bool trusted) {
    prepare(bytes.size());
    text_.append(bytes, trusted);
    account();
  }
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, std::size_t begin, std::size_t end) {
    prepare(end - begin);
    text_.append(text, begin, end);
    account();
  }
  void repeat(char c, std::size_t count, bool trusted) {
    prepare(count);
    text_.append(std::string(count, c), trusted);
    account();
  }
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] Text take() {
    share_.resize(0);
    return std::move(text_);
  }
  [[nodiscard]] Value value(bool markup = false) { return runtime_.text(take(), markup); }

 private:
  void prepare(std::size_t bytes) {
    runtime_.check_text_size(text_.size() + bytes);
    if (bytes >= 64) runtime_.step(bytes / 64);
  }
  void account() {
    share_.resize(text_.footprint());
    runtime_.check_memory();
  }

  Runtime& runtime_;
  Text text_;
  MemoryShare share_;
};

}  // namespace strata::text::jinja
