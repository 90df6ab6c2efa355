// Filters that arrange the items of sequences and mappings.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"

#include <algorithm>
#include <memory>
#include <set>

namespace strata::text::jinja {
namespace {

Value without_case(Runtime& runtime, const Value& value) {
  return value.is(Kind::kString) ? lower(runtime, *value.string()) : value;
}

// An iterator over items that are known.
Value iterate(Runtime& runtime, std::vector<Value> items) {
  const Value list = runtime.list(std::move(items));
  Cursor cursor(runtime, list);
  return runtime.iterator(depth_of(list), [&runtime, cursor](Value& item) mutable {
    return cursor.next(runtime, item);
  });
}

Value length(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  if (auto* loop = input.loop()) return static_cast<Int>(loop->length(runtime));
  const auto size = length_of(input);
  if (!size) runtime.fail("object of type '{}' has no len()", type_name(input));
  return static_cast<Int>(*size);
}

Value first(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  Cursor cursor(runtime, input);
  Value item;
  if (cursor.next(runtime, item)) return item;
  return runtime.undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  if (!length_of(input)) {
    runtime.fail("'{}' object is not reversible", type_name(input));
  }
  std::vector<Value> items = collect(runtime, input);
  if (!items.empty()) return items.back();
  return runtime.undefined("No last item, sequence was empty.");
}

Value list(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  return runtime.list(collect(runtime, input));
}

Value reverse(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  if (input.is(Kind::kString)) {
    return get_slice(runtime, input, {Value(), Value(), Value(Int{-1})});
  }
  std::vector<Value> items = collect(runtime, input);
  std::reverse(items.begin(), items.end());
  if (input.is(Kind::kIterator)) return runtime.list(std::move(items));
  return iterate(runtime, std::move(items));
}

// (key, value) pairs, one by one; nothing for an undefined value.
Value items(Runtime& runtime, const Value& input, CallArguments& arguments) {
  arguments.finish();
  std::size_t at = 0;
  return runtime.iterator(depth_of(input), [&runtime, input, at](Value& item) mutable {
    if (input.undefined()) return false;
    const auto* dict = input.dict();
    if (dict == nullptr) runtime.fail("Can only get item pairs from a mapping.");
    if (at >= dict->entries.size()) return false;
    const auto& [key, value] = dict->entries[at++];
    item = runtime.tuple({key, value});
    return true;
  });
}

// Items with the keys they are sorted by.
using Keyed = std::vector<std::pair<Value, Value>>;

void sort_by_key(Runtime& runtime, Keyed& items, bool reverse) {
  // Python keeps equal items in their order even when it sorts in reverse.
  std::stable_sort(items.begin(), items.end(), [&](const auto& left, const auto& right) {
    return reverse ? less(runtime, right.first, left.first)
                   : less(runtime, left.first, right.first);
  });
}

Value values_of(Runtime& runtime, const Keyed& items) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const auto& [key, value] : items) values.push_back(value);
  return runtime.list(std::move(values));
}

Value dictsort(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const bool case_sensitive = arguments.flag("case_sensitive", false);
  const Value by = arguments.optional("by", runtime.text("key", true));
  const bool reverse = arguments.flag("reverse", false);
  arguments.finish();
  const bool by_key = by.is(Kind::kString) && by.string()->bytes() == "key";
  const bool by_value = by.is(Kind::kString) && by.string()->bytes() == "value";
  if (!by_key && !by_value) runtime.fail("You can only sort by either \"key\" or \"value\"");
  refuse_undefined(runtime, input);
  const auto* dict = input.dict();
  if (dict == nullptr) runtime.fail("'{}' object has no attribute 'items'", type_name(input));
  Keyed pairs;
  for (const auto& [key, value] : dict->entries) {
    const Value& chosen = by_key ? key : value;
    pairs.emplace_back(case_sensitive ? chosen : without_case(runtime, chosen),
                       runtime.tuple({key, value}));
  }
  sort_by_key(runtime, pairs, reverse);
  return values_of(runtime, pairs);
}

// The paths of "name,address.city".
std::vector<AttributePath> attribute_paths(Runtime& runtime, const Value& attribute) {
  std::vector<AttributePath> paths;
  const auto* names = attribute.string();
  if (names == nullptr) {
    paths.emplace_back(runtime, attribute);
    return paths;
  }
  const Value parts = split(runtime, attribute, runtime.text(",", true), -1, false);
  for (const Value& part : parts.list()->items) paths.emplace_back(runtime, part);
  return paths;
}

Value sort(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const bool reverse = arguments.flag("reverse", false);
  const bool case_sensitive = arguments.flag("case_sensitive", false);
  const Value attribute = arguments.optional("attribute");
  arguments.finish();
  const std::vector<AttributePath> paths = attribute_paths(runtime, attribute);
  Keyed keyed;
  for (Value& item : collect(runtime, input)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      const Value key = path.follow(runtime, item);
      keys.push_back(case_sensitive ? key : without_case(runtime, key));
    }
    keyed.emplace_back(runtime.list(std::move(keys)), std::move(item));
  }
  sort_by_key(runtime, keyed, reverse);
  return values_of(runtime, keyed);
}

Value unique(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const bool case_sensitive = arguments.flag("case_sensitive", false);
  const AttributePath path(runtime, arguments.optional("attribute"));
  arguments.finish();
  struct Seen {
    std::set<Value, KeyOrder> keys;
    MemoryShare share;
  };
  const auto seen = std::make_shared<Seen>(Seen{{}, runtime.share(0)});
  Cursor cursor(runtime, input);
  return runtime.iterator(std::max(depth_of(input), path.depth()),
                          [=, &runtime](Value& item) mutable {
                            while (cursor.next(runtime, item)) {
                              Value key = path.follow(runtime, item);
                              if (!case_sensitive) key = without_case(runtime, key);
                              require_hashable(runtime, key);
                              if (!seen->keys.insert(std::move(key)).second) continue;
                              constexpr std::size_t kKeyBytes = 96;
                              seen->share.resize(seen->keys.size() * kKeyBytes);
                              runtime.check_memory();
                              return true;
                            }
                            return false;
                          });
}

Value groupby(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const Value attribute = arguments.required("attribute");
  const Value fallback = arguments.optional("default");
  const bool case_sensitive = arguments.flag("case_sensitive", false);
  arguments.finish();
  const AttributePath path(runtime, attribute, fallback);
  Keyed keyed;
  for (Value& item : collect(runtime, input)) {
    const Value key = path.follow(runtime, item);
    keyed.emplace_back(case_sensitive ? key : without_case(runtime, key), std::move(item));
  }
  sort_by_key(runtime, keyed, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members{keyed[begin].second};
    std::size_t end = begin + 1;
    while (end < keyed.size() && equals(runtime, keyed[end].first, keyed[begin].first)) {
      members.push_back(keyed[end++].second);
    }
    // The group goes by the key of its first member, in that one's case.
    Value name = path.follow(runtime, members.front());
    groups.push_back(runtime.tuple({std::move(name), runtime.list(std::move(members))}, true));
    begin = end;
  }
  return runtime.list(std::move(groups));
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const bool case_sensitive = arguments.flag("case_sensitive", false);
  const AttributePath path(runtime, arguments.optional("attribute"));
  arguments.finish();
  Cursor cursor(runtime, input);
  Value best;
  Value best_key;
  Value item;
  while (cursor.next(runtime, item)) {
    Value key = path.follow(runtime, item);
    if (!case_sensitive) key = without_case(runtime, key);
    const bool better =
        best.missing() || (largest ? less(runtime, best_key, key) : less(runtime, key, best_key));
    if (!better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best.missing() ? runtime.undefined("No aggregated item, sequence was empty.") : best;
}

Value sum(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const AttributePath path(runtime, arguments.optional("attribute"));
  Value total = arguments.optional("start", Value(Int{0}));
  arguments.finish();
  if (total.is(Kind::kString)) runtime.fail("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(runtime, input);
  Value item;
  while (cursor.next(runtime, item)) {
    total = apply(runtime, BinaryOperator::kAdd, total, path.follow(runtime, item));
  }
  return total;
}

// The number of parts or of items in one, which must be positive and makes no list beyond the
// bound.
std::size_t part_count(Runtime& runtime, CallArguments& arguments, std::string_view name) {
  const Int count = arguments.integer(name);
  if (count <= 0 || count > static_cast<Int>(runtime.limits().max_items)) {
    runtime.fail("{}(): {} is out of range", arguments.function(), name);
  }
  return static_cast<std::size_t>(count);
}

Value batch(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const std::size_t size = part_count(runtime, arguments, "linecount");
  const Value fill = arguments.optional("fill_with", Value(None{}));
  arguments.finish();
  std::vector<Value> batches;
  std::vector<Value> current;
  for (Value& item : collect(runtime, input)) {
    if (current.size() == size) batches.push_back(runtime.list(std::exchange(current, {})));
    current.push_back(std::move(item));
  }
  if (!current.empty()) {
    if (!fill.none()) current.resize(std::max(size, current.size()), fill);
    batches.push_back(runtime.list(std::move(current)));
  }
  return iterate(runtime, std::move(batches));
}

Value slice_filter(Runtime& runtime, const Value& input, CallArguments& arguments) {
  const std::size_t parts = part_count(runtime, arguments, "slices");
  const Value fill = arguments.optional("fill_with", Value(None{}));
  arguments.finish();
  const std::vector<Value> all = collect(runtime, input);
  const std::size_t size = all.size() / parts;
  const std::size_t longer = all.size() % parts;
  std::vector<Value> columns;
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t count = size + (i < longer ? 1 : 0);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    std::vector<Value> column(begin, begin + static_cast<std::ptrdiff_t>(count));
    at += count;
    if (!fill.none() && i >= longer) column.push_back(fill);
    columns.push_back(runtime.list(std::move(column)));
  }
  return iterate(runtime, std::move(columns));
}

constexpr Filter kSequenceFilters[] = {
    {"batch", batch},        {"count", length},       {"dictsort", dictsort},
    {"first", first},        {"groupby", groupby},    {"items", items},
    {"last", last},          {"length", length},      {"list", list},
    {"max", extreme<true>},  {"min", extreme<false>}, {"reverse", reverse},
    {"slice", slice_filter}, {"sort", sort},          {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const Filter> sequence_filters() { return kSequenceFilters; }

}  // namespace strata::text::jinja
