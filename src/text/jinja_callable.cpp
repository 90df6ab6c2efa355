#include "src/text/jinja_callable.hpp"

#include "src/text/jinja_operators.hpp"

#include <algorithm>

namespace strata::text::jinja {

// ---- arguments ----

Value CallArguments::optional(std::string_view name) {
  Value keyword = take_keyword(name);
  if (next_ < positional.size()) {
    if (!keyword.missing()) {
      runtime_.fail("{}() got multiple values for argument '{}'", function_, name);
    }
    return positional[next_++];
  }
  return keyword;
}

Value CallArguments::take_keyword(std::string_view name) {
  const auto found = std::find_if(keywords.begin(), keywords.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  if (found == keywords.end()) return {};
  Value value = std::move(found->second);
  keywords.erase(found);
  return value;
}

Value CallArguments::optional(std::string_view name, Value fallback) {
  Value value = optional(name);
  return value.missing() ? std::move(fallback) : value;
}

Value CallArguments::required(std::string_view name) {
  Value value = optional(name);
  if (value.missing()) runtime_.fail("{}() missing the argument '{}'", function_, name);
  return value;
}

bool CallArguments::flag(std::string_view name, bool fallback) {
  const Value value = optional(name);
  return value.missing() ? fallback : truthy(value);
}

Int CallArguments::to_integer(std::string_view name, const Value& value) const {
  Int storage = 0;
  const Int* integer = as_integer(value, storage);
  if (integer == nullptr) {
    runtime_.fail("{}(): '{}' must be an integer, not {}", function_, name, type_name(value));
  }
  return *integer;
}

Int CallArguments::integer(std::string_view name) { return to_integer(name, required(name)); }

Int CallArguments::integer(std::string_view name, Int fallback) {
  const Value value = optional(name);
  return value.missing() ? fallback : to_integer(name, value);
}

Value CallArguments::string(std::string_view name) {
  Value value = required(name);
  if (!value.is(Kind::kString)) {
    runtime_.fail("{}(): '{}' must be a str, not {}", function_, name, type_name(value));
  }
  return value;
}

void CallArguments::finish() const {
  if (next_ < positional.size()) {
    runtime_.fail("{}() takes at most {} arguments ({} given)", function_, next_,
                  positional.size());
  }
  if (!keywords.empty()) {
    runtime_.fail("{}() got an unexpected keyword argument '{}'", function_,
                  keywords.front().first);
  }
}

void CallArguments::positional_only() const {
  if (!keywords.empty()) runtime_.fail("{}() takes no keyword arguments", function_);
}

std::vector<Value> CallArguments::take_rest() {
  std::vector<Value> rest(positional.begin() + static_cast<std::ptrdiff_t>(next_),
                          positional.end());
  next_ = positional.size();
  return rest;
}

// ---- callables ----

Value make_builtin(Runtime& runtime, std::string_view name, BuiltinFunction function,
                   const Value& self) {
  auto object = std::make_shared<CallableObject>();
  object->name = name;
  object->builtin = function;
  object->self = self;
  object->depth = 1 + depth_of(self);
  runtime.check_depth(object->depth);
  object->share = runtime.share(sizeof(CallableObject));
  return Ref<const CallableObject>(std::move(object));
}

std::string describe(const CallableObject& callable) {
  if (callable.macro != nullptr) return fmt::format("<Macro '{}'>", callable.macro->text_name);
  if (callable.self.missing()) return fmt::format("<function {}>", callable.name);
  return fmt::format("<built-in method {} of {} object>", callable.name, type_name(callable.self));
}

// ---- loops ----

const Value& LoopObject::peek(Runtime& runtime) {
  if (!peeked) {
    peeked = true;
    if (!cursor.next(runtime, ahead)) ahead = Value();
  }
  return ahead;
}

bool LoopObject::next(Runtime& runtime) {
  Value item;
  if (peeked && !ahead.missing()) {
    item = std::move(ahead);
    ahead = Value();
    peeked = false;
  } else if (!cursor.next(runtime, item)) {
    return false;
  }
  ++index0;
  previous = std::move(current);
  current = std::move(item);
  return true;
}

void LoopObject::clear() {
  cursor = Cursor();
  previous = current = ahead = last_changed = Value();
  scope.reset();
}

std::size_t LoopObject::length(Runtime& runtime) {
  if (const auto size = cursor.size()) return *size;
  // Only the end of an iterator tells its length: run to it, and go on from what it gave.
  std::vector<Value> rest;
  Value item;
  while (cursor.next(runtime, item)) {
    runtime.check_items(rest.size() + 1);
    rest.push_back(std::move(item));
  }
  const std::size_t seen = index0 + 1 + (peeked && !ahead.missing() ? 1 : 0);
  const std::size_t total = seen + rest.size();
  cursor = Cursor(runtime, runtime.list(std::move(rest)), total);
  return total;
}

namespace {

Value cycle(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const std::vector<Value> items = arguments.take_rest();
  if (items.empty()) runtime.fail("no items for cycling given");
  return items[self.loop()->index0 % items.size()];
}

Value changed(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value now = runtime.tuple(arguments.take_rest());
  Value& last = self.loop()->last_changed;
  const bool differs = last.missing() || !equals(runtime, last, now);
  if (differs) last = now;
  return differs;
}

Value count(std::size_t number) { return static_cast<Int>(number); }

}  // namespace

Value loop_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  LoopObject& loop = *value.loop();
  if (name == "index0") return count(loop.index0);
  if (name == "index") return count(loop.index0 + 1);
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return loop.peek(runtime).missing();
  if (name == "length") return count(loop.length(runtime));
  if (name == "revindex") return count(loop.length(runtime) - loop.index0);
  if (name == "revindex0") return count(loop.length(runtime) - loop.index0 - 1);
  if (name == "depth0") return count(loop.depth0);
  if (name == "depth") return count(loop.depth0 + 1);
  if (name == "cycle") return make_builtin(runtime, "cycle", cycle, value);
  if (name == "changed") return make_builtin(runtime, "changed", changed, value);
  if (name == "previtem") {
    return loop.index0 == 0 ? runtime.undefined("there is no previous item") : loop.previous;
  }
  if (name == "nextitem") {
    const Value& next = loop.peek(runtime);
    return next.missing() ? runtime.undefined("there is no next item") : next;
  }
  return {};
}

}  // namespace strata::text::jinja
