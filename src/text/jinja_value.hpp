// The values of a running template: Python's, as far as chat templates see them.
//
// Everything but namespaces, iterators and loops is immutable once made, as the sandbox forbids
// templates to change lists and dicts in place. Objects are shared by reference; only namespaces
// and scopes can form cycles, which the Runtime breaks when a render ends.
#pragma once

#include "src/text/jinja_text.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace strata::text::jinja {

// Python's integers are unbounded. These hold what JSON and templates use, 2**64 - 1 included;
// beyond 127 bits is an error, never a wrong number.
using Int = __int128;

struct Missing {
  bool operator==(const Missing&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};
struct UndefinedObject;
struct StringObject;
struct ListObject;
struct TupleObject;
struct DictObject;
struct ViewObject;
struct RangeObject;
struct IteratorObject;
struct NamespaceObject;
struct LoopObject;
struct CallableObject;

template <class T>
using Ref = std::shared_ptr<T>;

// In the order of Value::Storage.
enum class Kind : std::uint8_t {
  kMissing,  // no value: a parameter that was not given. Never seen by a template.
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  // dict.keys(), .values(), .items()
  kRange,
  kIterator,  // what Python calls a generator: may be run through once
  kNamespace,
  kLoop,
  kCallable,
};

class Value {
 public:
  using Storage = std::variant<Missing, Ref<const UndefinedObject>, None, bool, Int, double,
                               Ref<const StringObject>, Ref<const ListObject>,
                               Ref<const TupleObject>, Ref<const DictObject>, Ref<const ViewObject>,
                               Ref<const RangeObject>, Ref<IteratorObject>, Ref<NamespaceObject>,
                               Ref<LoopObject>, Ref<const CallableObject>>;

  Value() = default;
  // Only from exactly the types of Storage, so that a pointer or a size never turns into a bool or
  // an Int unseen. (Not asked of Value itself: clang 14 would have to complete it to answer.)
  template <class T>
  requires(!std::is_same_v<T, Value>) &&
      std::is_constructible_v<Storage, std::in_place_type_t<T>, T> Value(T value)
      : storage_(std::in_place_type<T>, std::move(value)) {}

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(storage_.index()); }
  [[nodiscard]] bool is(Kind kind) const { return this->kind() == kind; }
  [[nodiscard]] bool missing() const { return is(Kind::kMissing); }
  [[nodiscard]] bool undefined() const { return is(Kind::kUndefined); }
  [[nodiscard]] bool none() const { return is(Kind::kNone); }
  [[nodiscard]] bool number() const {
    return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat);
  }

  // The object of that kind, or null.
  [[nodiscard]] const StringObject* string() const { return object<const StringObject>(); }
  [[nodiscard]] const ListObject* list() const { return object<const ListObject>(); }
  [[nodiscard]] const TupleObject* tuple() const { return object<const TupleObject>(); }
  [[nodiscard]] const DictObject* dict() const { return object<const DictObject>(); }
  [[nodiscard]] const ViewObject* view() const { return object<const ViewObject>(); }
  [[nodiscard]] const RangeObject* range() const { return object<const RangeObject>(); }
  [[nodiscard]] IteratorObject* iterator() const { return object<IteratorObject>(); }
  [[nodiscard]] NamespaceObject* name_space() const { return object<NamespaceObject>(); }
  [[nodiscard]] LoopObject* loop() const { return object<LoopObject>(); }
  [[nodiscard]] const CallableObject* callable() const { return object<const CallableObject>(); }
  [[nodiscard]] const std::vector<Value>* sequence() const;  // of a list or a tuple

  template <class T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&storage_);
  }
  [[nodiscard]] const Storage& storage() const { return storage_; }

 private:
  template <class T>
  [[nodiscard]] T* object() const {
    const auto* ref = std::get_if<Ref<T>>(&storage_);
    return ref == nullptr ? nullptr : ref->get();
  }

  Storage storage_;
};

// Memory alive in one render. It outlives every object that is counted in it.
struct MemoryBudget {
  std::size_t used = 0;
};

// The share of one object in a budget.
class MemoryShare {
 public:
  MemoryShare() = default;
  MemoryShare(MemoryBudget& budget, std::size_t bytes) : budget_(&budget), bytes_(bytes) {
    budget.used += bytes;
  }
  MemoryShare(MemoryShare&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  MemoryShare& operator=(MemoryShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryShare() {
    if (budget_ != nullptr) budget_->used -= bytes_;
  }
  void resize(std::size_t bytes) {
    budget_->used += bytes - bytes_;
    bytes_ = bytes;
  }

 private:
  MemoryBudget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

// The result of looking up what is not there. It may be printed, tested and run through; any other
// use fails with the message.
struct UndefinedObject {
  std::string message;
  MemoryShare share;
};

struct StringObject {
  Text text;
  std::size_t length = 0;  // code points
  bool markup = false;     // came out of `safe` or `escape`: escapes what is added to it
  MemoryShare share;

  [[nodiscard]] std::string_view bytes() const { return text.bytes(); }
  [[nodiscard]] bool ascii() const { return length == text.size(); }
  // The byte offset of code point number `index`.
  [[nodiscard]] std::size_t offset(std::size_t index) const;
};

// `depth` of a container: 1 + that of its deepest element. Bounded, so that recursion over values
// is.
struct ListObject {
  std::vector<Value> items;
  int depth = 1;
  MemoryShare share;
};

struct TupleObject {
  std::vector<Value> items;
  int depth = 1;
  bool group = false;  // of the groupby filter: the items are also attributes, .grouper and .list
  MemoryShare share;
};

// A total order over hashable values in which exactly the values that Python holds for the same key
// are equal.
struct KeyOrder {
  using is_transparent = void;
  bool operator()(const Value& left, const Value& right) const;
  bool operator()(const Value& left, std::string_view right) const;
  bool operator()(std::string_view left, const Value& right) const;
};

// Keeps the order of insertion, as Python's.
struct DictObject {
  std::vector<std::pair<Value, Value>> entries;
  std::map<Value, std::uint32_t, KeyOrder> index;  // of entries by key; empty while there are few
  int depth = 1;
  MemoryShare share;

  [[nodiscard]] const Value* find(const Value& key) const;  // null when absent
  [[nodiscard]] const Value* find(std::string_view key) const;
  void insert(Value key, Value value);  // replaces the value of a key that is there
};

struct ViewObject {
  enum class Part : std::uint8_t { kKeys, kValues, kItems };
  Value dict;
  Part part;
  MemoryShare share;
};

struct RangeObject {
  Int start, stop, step;
  std::size_t length;
  MemoryShare share;
  [[nodiscard]] Int at(std::size_t index) const { return start + static_cast<Int>(index) * step; }
};

struct IteratorObject {
  std::function<bool(Value&)> next;  // false at the end; to be called through Runtime::advance
  int depth = 1;                     // 1 + that of the deepest value it holds
  bool running = false;
  MemoryShare share;
};

struct NamespaceObject {
  std::vector<std::pair<std::string, Value>> attributes;
  int depth = 1;
  MemoryShare share;

  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

[[nodiscard]] bool truthy(const Value& value);
[[nodiscard]] int depth_of(const Value& value);
[[nodiscard]] bool hashable(const Value& value);
[[nodiscard]] bool identical(const Value& left, const Value& right);  // Python's `is`
[[nodiscard]] std::string_view type_name(const Value& value);  // Python's type(value).__name__

// -1, 0, 1, or 2 when either is not a number (NaN). Exact also between Int and double.
[[nodiscard]] int compare_numbers(const Value& left, const Value& right);
[[nodiscard]] double to_double(const Value& number);
// The value of a bool or an Int; null for any other kind.
[[nodiscard]] const Int* as_integer(const Value& value, Int& storage);

}  // namespace strata::text::jinja
