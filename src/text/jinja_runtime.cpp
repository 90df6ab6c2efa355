#include "src/text/jinja_runtime.hpp"

#include "strata/base/error.hpp"

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

// What one element of each container takes, with the overhead of its allocation.
constexpr std::size_t kObjectBytes = 96;
constexpr std::size_t kVariableBytes = sizeof(std::pair<NameId, Value>);
constexpr std::size_t kDictEntryBytes = sizeof(std::pair<Value, Value>);
constexpr std::size_t kIndexEntryBytes = 96;

// jinja2's own bound in the sandbox; part of its behaviour, so not one of the limits.
constexpr std::size_t kMaxRange = 100'000;

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

}  // namespace

const Value* Scope::find(NameId name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [candidate, value] : scope->variables) {
      if (candidate == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(NameId name, Value value) {
  for (auto& [candidate, present] : variables) {
    if (candidate == name) {
      present = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
  share.resize(kObjectBytes + kVariableBytes * variables.capacity());
}

Runtime::~Runtime() {
  // Emptied one by one while all are still alive, so that neither cycles nor long chains remain.
  for (const auto& object : namespaces_) object->attributes.clear();
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& loop : loops_) loop->clear();
}

void Runtime::fail_with(const std::string& message) const {
  strata::fail(ErrorKind::kInput, "chat template, line {}: {}", line_, message);
}

void Runtime::fail_steps() const {
  fail("stopped after {} steps of work; a template that needs more is broken or hostile",
       limits_.max_steps);
}

void Runtime::check_text_size(std::size_t bytes) const {
  if (bytes > limits_.max_string_bytes) {
    fail("a text of {} bytes is above the bound of {}", bytes, limits_.max_string_bytes);
  }
}

void Runtime::check_items(std::size_t count) const {
  if (count > limits_.max_items) {
    fail("a container of {} items is above the bound of {}", count, limits_.max_items);
  }
}

void Runtime::check_depth(int depth) const {
  constexpr int kMaxValueDepth = 200;
  if (depth > kMaxValueDepth) fail("values are nested more than {} deep", kMaxValueDepth);
}

void Runtime::check_memory() const {
  if (memory_.used > limits_.max_memory_bytes) {
    fail("its values take more than the bound of {} bytes of memory", limits_.max_memory_bytes);
  }
}

MemoryShare Runtime::share(std::size_t bytes) {
  MemoryShare share(memory_, bytes);
  check_memory();
  return share;
}

Value Runtime::text(Text text, bool markup) {
  check_text_size(text.size());
  touch_bytes(text.size());
  auto object = std::make_shared<StringObject>();
  object->length = count_code_points(text.bytes());
  object->markup = markup;
  object->share = share(kObjectBytes + text.footprint());
  object->text = std::move(text);
  return Ref<const StringObject>(std::move(object));
}

Value Runtime::list(std::vector<Value> items) {
  check_items(items.size());
  step(1 + items.size());
  auto object = std::make_shared<ListObject>();
  object->depth = 1 + deepest(items);
  check_depth(object->depth);
  object->share = share(kObjectBytes + items.capacity() * sizeof(Value));
  object->items = std::move(items);
  return Ref<const ListObject>(std::move(object));
}

Value Runtime::tuple(std::vector<Value> items, bool group) {
  check_items(items.size());
  step(1 + items.size());
  auto object = std::make_shared<TupleObject>();
  object->depth = 1 + deepest(items);
  check_depth(object->depth);
  object->group = group;
  object->share = share(kObjectBytes + items.capacity() * sizeof(Value));
  object->items = std::move(items);
  return Ref<const TupleObject>(std::move(object));
}

Value Runtime::dict(DictObject dict) {
  check_items(dict.entries.size());
  check_depth(dict.depth);
  step(1 + dict.entries.size());
  dict.share = share(kObjectBytes + dict.entries.capacity() * kDictEntryBytes +
                     dict.index.size() * kIndexEntryBytes);
  return Ref<const DictObject>(std::make_shared<DictObject>(std::move(dict)));
}

Value Runtime::view(const Value& dict, ViewObject::Part part) {
  return Ref<const ViewObject>(
      std::make_shared<ViewObject>(ViewObject{dict, part, share(kObjectBytes)}));
}

Value Runtime::range(Int start, Int stop, Int step) {
  if (step == 0) fail("range() arg 3 must not be zero");
  constexpr Int kBound = Int{1} << 63;  // far from where sums and differences overflow
  for (const Int part : {start, stop, step}) {
    if (part > kBound || part < -kBound) fail("range() takes integers of 64 bits");
  }
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const Int span = empty ? 0 : step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int length = empty ? 0 : (span - 1) / stride + 1;
  if (length > static_cast<Int>(kMaxRange)) {
    fail("Range too big. The sandbox blocks ranges larger than {}.", kMaxRange);
  }
  return Ref<const RangeObject>(std::make_shared<RangeObject>(
      RangeObject{start, stop, step, static_cast<std::size_t>(length), share(kObjectBytes)}));
}

Value Runtime::iterator(int depth, std::function<bool(Value&)> next) {
  auto object = std::make_shared<IteratorObject>();
  object->depth = 1 + depth;
  check_depth(object->depth);
  object->share = share(2 * kObjectBytes);
  object->next = std::move(next);
  return Ref<IteratorObject>(std::move(object));
}

Value Runtime::name_space(DictObject attributes) {
  auto object = std::make_shared<NamespaceObject>();
  object->share = share(kObjectBytes);
  namespaces_.push_back(object);
  for (auto& [key, value] : attributes.entries) {
    const auto* name = key.string();
    if (name == nullptr) fail("a namespace's attributes have names, not {} keys", type_name(key));
    set_attribute(*object, name->bytes(), std::move(value));
  }
  return object;
}

void Runtime::set_attribute(NamespaceObject& object, std::string_view name, Value value) {
  if (name.starts_with('_')) {
    fail("a namespace cannot have the attribute '{}': its name starts with an underscore", name);
  }
  step(1 + object.attributes.size() / 8);
  object.set(name, std::move(value));
  check_depth(object.depth);
  object.share.resize(kObjectBytes + object.attributes.size() * kDictEntryBytes);
  check_memory();
}

Value Runtime::undefined(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  object->share = share(kObjectBytes + message.capacity());
  object->message = std::move(message);
  return Ref<const UndefinedObject>(std::move(object));
}

std::shared_ptr<Scope> Runtime::scope(std::shared_ptr<Scope> parent) {
  return std::make_shared<Scope>(Scope{std::move(parent), {}, share(kObjectBytes)});
}

bool Runtime::advance(IteratorObject& iterator, Value& item) {
  constexpr int kMaxAdvancing = 200;
  if (iterator.running) fail("generator already executing");
  if (advancing_ >= kMaxAdvancing)
    fail("more than {} generators draw from one another", kMaxAdvancing);
  struct Guard {
    Guard(bool& flag, int& count) : running(flag), advancing(count) {
      flag = true;
      ++count;
    }
    ~Guard() {
      running = false;
      --advancing;
    }
    bool& running;
    int& advancing;
  };
  const Guard guard(iterator.running, advancing_);
  return iterator.next(item);
}

void Runtime::keep(const std::shared_ptr<Scope>& scope) {
  if (scopes_.empty() || scopes_.back() != scope) scopes_.push_back(scope);
}

}  // namespace strata::text::jinja
