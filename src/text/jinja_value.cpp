#include "src/text/jinja_value.hpp"

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <cmath>

namespace strata::text::jinja {
namespace {

// Dicts up to this size are searched entry by entry.
constexpr std::size_t kSmallDict = 8;

// The groups into which KeyOrder sorts keys that are never equal to each other.
int key_rank(const Value& value) {
  if (value.number()) return 0;
  switch (value.kind()) {
    case Kind::kString:
      return 1;
    case Kind::kTuple:
      return 2;
    default:
      return 3;
  }
}

template <class T>
int compare_three_way(const T& left, const T& right) {
  return left < right ? -1 : right < left ? 1 : 0;
}

// Where the object of a value lives; equal for equal None, Undefined and the like.
const void* address(const Value& value) {
  return std::visit(
      [](const auto& alternative) -> const void* {
        using T = std::decay_t<decltype(alternative)>;
        if constexpr (std::is_same_v<T, Ref<const UndefinedObject>>) {
          return nullptr;  // jinja2 holds any two undefined values for equal
        } else if constexpr (requires { alternative.get(); }) {
          return alternative.get();
        } else {
          return nullptr;
        }
      },
      value.storage());
}

int compare_keys(const Value& left, const Value& right) {
  const int rank = key_rank(left);
  if (rank != key_rank(right)) return compare_three_way(rank, key_rank(right));
  if (rank == 0) {
    const int order = compare_numbers(left, right);
    if (order != 2) return order;
    // NaN sorts before every number and is one key.
    return compare_three_way(!std::isnan(to_double(left)), !std::isnan(to_double(right)));
  }
  if (rank == 1) return left.string()->bytes().compare(right.string()->bytes());
  if (rank == 2) {
    const auto& a = left.tuple()->items;
    const auto& b = right.tuple()->items;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (const int order = compare_keys(a[i], b[i]); order != 0) return order;
    }
    return compare_three_way(a.size(), b.size());
  }
  if (left.kind() != right.kind()) return compare_three_way(left.kind(), right.kind());
  const std::less<> before;
  return before(address(left), address(right)) ? -1 : before(address(right), address(left)) ? 1 : 0;
}

// Compares an integer with a finite or infinite double without rounding either.
int compare_exactly(Int integer, double real) {
  constexpr double kLimit = 0x1p127;
  if (real >= kLimit) return -1;
  if (real < -kLimit) return 1;
  const double floor = std::floor(real);
  const auto whole = static_cast<Int>(floor);
  if (integer != whole) return integer < whole ? -1 : 1;
  return real > floor ? -1 : 0;
}

}  // namespace

const std::vector<Value>* Value::sequence() const {
  if (const auto* object = list()) return &object->items;
  if (const auto* object = tuple()) return &object->items;
  return nullptr;
}

std::size_t StringObject::offset(std::size_t index) const {
  return ascii() ? std::min(index, text.size()) : offset_of(bytes(), index);
}

bool KeyOrder::operator()(const Value& left, const Value& right) const {
  return compare_keys(left, right) < 0;
}
bool KeyOrder::operator()(const Value& left, std::string_view right) const {
  const auto* text = left.string();
  return text == nullptr ? key_rank(left) < 1 : text->bytes() < right;
}
bool KeyOrder::operator()(std::string_view left, const Value& right) const {
  const auto* text = right.string();
  return text == nullptr ? key_rank(right) > 1 : left < text->bytes();
}

const Value* DictObject::find(const Value& key) const {
  if (const auto* text = key.string()) return find(text->bytes());
  if (!index.empty()) {
    const auto found = index.find(key);
    return found == index.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [candidate, value] : entries) {
    if (compare_keys(candidate, key) == 0) return &value;
  }
  return nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (!index.empty()) {
    const auto found = index.find(key);
    return found == index.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [candidate, value] : entries) {
    const auto* text = candidate.string();
    if (text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

void DictObject::insert(Value key, Value value) {
  depth = std::max({depth, 1 + depth_of(key), 1 + depth_of(value)});
  if (const Value* present = find(key)) {
    *const_cast<Value*>(present) = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (!index.empty()) {
    index.emplace(entries.back().first, static_cast<std::uint32_t>(entries.size() - 1));
  } else if (entries.size() > kSmallDict) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      index.emplace(entries[i].first, static_cast<std::uint32_t>(i));
    }
  }
}

const Value* NamespaceObject::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void NamespaceObject::set(std::string_view name, Value value) {
  depth = std::max(depth, 1 + depth_of(value));
  for (auto& [key, present] : attributes) {
    if (key == name) {
      present = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return *value.get<bool>();
    case Kind::kInt:
      return *value.get<Int>() != 0;
    case Kind::kFloat:
      return *value.get<double>() != 0;
    case Kind::kString:
      return !value.string()->text.empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.sequence()->empty();
    case Kind::kDict:
      return !value.dict()->entries.empty();
    case Kind::kView:
      return truthy(value.view()->dict);
    case Kind::kRange:
      return value.range()->length != 0;
    default:
      return true;
  }
}

int depth_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
      return value.list()->depth;
    case Kind::kTuple:
      return value.tuple()->depth;
    case Kind::kDict:
      return value.dict()->depth;
    case Kind::kView:
      return depth_of(value.view()->dict);
    case Kind::kIterator:
      return value.iterator()->depth;
    case Kind::kNamespace:
      return value.name_space()->depth;
    case Kind::kCallable:
      return value.callable()->depth;
    default:
      return 0;
  }
}

bool hashable(const Value& value) {
  if (const auto* tuple = value.tuple()) {
    return std::all_of(tuple->items.begin(), tuple->items.end(), hashable);
  }
  return !value.is(Kind::kList) && !value.is(Kind::kDict) && !value.is(Kind::kView);
}

bool identical(const Value& left, const Value& right) {
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kBool:
      return *left.get<bool>() == *right.get<bool>();
    case Kind::kInt:
      return *left.get<Int>() == *right.get<Int>();
    case Kind::kFloat:
      return false;
    case Kind::kUndefined:
      return left.get<Ref<const UndefinedObject>>()->get() ==
             right.get<Ref<const UndefinedObject>>()->get();
    default:
      return address(left) == address(right);
  }
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {
      "missing",   "Undefined", "NoneType",    "bool",    "int",       "float",
      "str",       "list",      "tuple",       "dict",    "dict_view", "range",
      "generator", "Namespace", "LoopContext", "function"};
  return kNames[static_cast<std::size_t>(value.kind())];
}

int compare_numbers(const Value& left, const Value& right) {
  Int left_int = 0;
  Int right_int = 0;
  const Int* a = as_integer(left, left_int);
  const Int* b = as_integer(right, right_int);
  if (a != nullptr && b != nullptr) return compare_three_way(*a, *b);
  const double x = a == nullptr ? *left.get<double>() : 0;
  const double y = b == nullptr ? *right.get<double>() : 0;
  if (std::isnan(x) || std::isnan(y)) return 2;
  if (a != nullptr) return compare_exactly(*a, y);
  if (b != nullptr) return -compare_exactly(*b, x);
  return compare_three_way(x, y);
}

double to_double(const Value& number) {
  if (const auto* real = number.get<double>()) return *real;
  Int storage = 0;
  return static_cast<double>(*as_integer(number, storage));
}

const Int* as_integer(const Value& value, Int& storage) {
  if (const auto* integer = value.get<Int>()) return integer;
  if (const auto* boolean = value.get<bool>()) {
    storage = *boolean ? 1 : 0;
    return &storage;
  }
  return nullptr;
}

}  // namespace strata::text::jinja
