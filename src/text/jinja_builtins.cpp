// Looking up filters, methods and globals; the methods of dict, list and tuple; the globals.
#include "src/text/jinja_builtins.hpp"

#include "strata/base/error.hpp"

#include "src/text/jinja_iteration.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"
#include "src/text/jinja_strings.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

template <class Entry>
const Entry* find_entry(std::span<const Entry> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const Entry& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// ---- methods ----

Value dict_get(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value key = arguments.required("key");
  const Value fallback = arguments.optional("default", Value(None{}));
  arguments.finish();
  require_hashable(runtime, key);
  const Value* found = self.dict()->find(key);
  return found == nullptr ? fallback : *found;
}

template <ViewObject::Part part>
Value dict_view(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.finish();
  return runtime.view(self, part);
}

// Lists and dicts never change, so a copy is as good as the original.
Value copy(Runtime& /*runtime*/, const Value& self, CallArguments& arguments) {
  arguments.finish();
  return self;
}

Value sequence_index(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value wanted = arguments.required("value");
  const Int start = arguments.integer("start", 0);
  const Value stop = arguments.optional("stop");
  arguments.finish();
  const Value window =
      get_slice(runtime, self, {Value(start), stop.missing() ? Value() : stop, Value()});
  const auto& items = *window.sequence();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!equals(runtime, items[i], wanted)) continue;
    const auto size = static_cast<Int>(self.sequence()->size());
    const Int first = start < 0 ? std::max<Int>(start + size, 0) : start;
    return first + static_cast<Int>(i);
  }
  runtime.fail("the value is not in the {}", type_name(self));
}

Value sequence_count(Runtime& runtime, const Value& self, CallArguments& arguments) {
  arguments.positional_only();
  const Value wanted = arguments.required("value");
  arguments.finish();
  Int count = 0;
  for (const Value& item : *self.sequence()) {
    if (equals(runtime, item, wanted)) ++count;
  }
  return count;
}

constexpr Method kDictMethods[] = {
    {"copy", copy},
    {"get", dict_get},
    {"items", dict_view<ViewObject::Part::kItems>},
    {"keys", dict_view<ViewObject::Part::kKeys>},
    {"values", dict_view<ViewObject::Part::kValues>},
};
constexpr Method kListMethods[] = {
    {"copy", copy}, {"count", sequence_count}, {"index", sequence_index}};
constexpr Method kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};

std::span<const Method> methods_of(const Value& object) {
  switch (object.kind()) {
    case Kind::kString:
      return string_methods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
      return kTupleMethods;
    default:
      return {};
  }
}

// ---- globals ----

Value range(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  arguments.positional_only();
  const Int first = arguments.integer("start");
  const Value second = arguments.optional("stop");
  const Int step = arguments.integer("step", 1);
  arguments.finish();
  if (second.missing()) return runtime.range(0, first, step);
  Int storage = 0;
  const Int* stop = as_integer(second, storage);
  if (stop == nullptr) {
    runtime.fail("'{}' object cannot be interpreted as an integer", type_name(second));
  }
  return runtime.range(first, *stop, step);
}

Value dict(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  return runtime.dict(dict_from(runtime, arguments));
}

Value name_space(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  return runtime.name_space(dict_from(runtime, arguments));
}

Value raise_exception(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  const Value message = to_str(runtime, arguments.required("message"));
  arguments.finish();
  strata::fail(ErrorKind::kInput, "the chat template refuses this conversation: {}",
               message.string()->bytes());
}

Value strftime_now(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  const Value format = arguments.string("format");
  arguments.finish();
  return runtime.text(format_time(runtime, format.string()->bytes()),
                      format.string()->text.fully_trusted());
}

Value unsupported(Runtime& runtime, const Value& /*self*/, CallArguments& arguments) {
  runtime.fail("the global function '{}' is not supported", arguments.function());
}

constexpr Method kGlobals[] = {
    {"cycler", unsupported},   {"dict", dict},
    {"joiner", unsupported},   {"lipsum", unsupported},
    {"namespace", name_space}, {"raise_exception", raise_exception},
    {"range", range},          {"strftime_now", strftime_now},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  for (const auto table :
       {string_filters(), sequence_filters(), selection_filters(), value_filters()}) {
    if (const Filter* filter = find_entry(table, name)) return filter;
  }
  return nullptr;
}

Value find_method(Runtime& runtime, const Value& object, std::string_view name) {
  const Method* method = find_entry(methods_of(object), name);
  if (method == nullptr) return {};
  return make_builtin(runtime, method->name, method->call, object);
}

Value find_global(Runtime& runtime, std::string_view name) {
  const Method* global = find_entry(std::span<const Method>(kGlobals), name);
  if (global == nullptr) return {};
  return make_builtin(runtime, global->name, global->call, Value());
}

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, Value fallback)
    : fallback_(std::move(fallback)) {
  if (attribute.missing() || attribute.none()) return;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return;
  }
  const Value names = split(runtime, attribute, runtime.text(".", true), -1, false);
  for (const Value& name : names.list()->items) {
    const std::string_view text = name.string()->bytes();
    const bool digits =
        !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    Int index = 0;
    if (digits && parse_integer(text, 10, index) == IntegerSyntax::kValid) {
      parts_.emplace_back(index);
    } else {
      parts_.push_back(name);
    }
  }
}

int AttributePath::depth() const {
  int deepest = depth_of(fallback_);
  for (const Value& part : parts_) deepest = std::max(deepest, depth_of(part));
  return deepest;
}

Value AttributePath::follow(Runtime& runtime, Value item) const {
  for (const Value& part : parts_) {
    item = get_item(runtime, item, part);
    if (item.undefined() && !fallback_.missing() && !fallback_.none()) item = fallback_;
  }
  return item;
}

DictObject dict_from(Runtime& runtime, CallArguments& arguments) {
  DictObject out;
  if (arguments.positional.size() > 1) runtime.fail("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    refuse_undefined(runtime, source);
    if (const auto* dict = source.dict()) {
      for (const auto& [key, value] : dict->entries) out.insert(key, value);
    } else {
      Cursor cursor(runtime, source);
      Value item;
      while (cursor.next(runtime, item)) {
        std::vector<Value> pair = collect(runtime, item);
        if (pair.size() != 2) {
          runtime.fail("dictionary update sequence element has length {}; 2 is required",
                       pair.size());
        }
        require_hashable(runtime, pair[0]);
        runtime.check_items(out.entries.size() + 1);
        out.insert(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (auto& [name, value] : arguments.keywords) {
    out.insert(runtime.text(name, true), std::move(value));
  }
  return out;
}

}  // namespace strata::text::jinja
