#include "src/text/jinja_print.hpp"

#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

// Text of one provenance under construction: user text anywhere makes all of it the user's.
class Writer {
 public:
  explicit Writer(Runtime& runtime, bool ascii_only = false)
      : runtime_(runtime), ascii_only_(ascii_only) {}

  void put(std::string_view bytes) {
    runtime_.check_text_size(out_.size() + bytes.size());
    out_ += bytes;
  }
  void put(const StringObject& string) {
    taint(string);
    put(string.bytes());
  }
  void taint(const StringObject& string) { trusted_ = trusted_ && string.text.fully_trusted(); }
  void distrust() { trusted_ = false; }
  [[nodiscard]] Runtime& runtime() { return runtime_; }
  [[nodiscard]] bool ascii_only() const { return ascii_only_; }
  [[nodiscard]] Value value() { return runtime_.text(std::move(out_), trusted_); }

 private:
  Runtime& runtime_;
  bool ascii_only_;
  std::string out_;
  bool trusted_ = true;
};

void append_hex_escape(std::string& out, char32_t code) {
  const auto c = static_cast<std::uint32_t>(code);
  out += c < 0x100     ? fmt::format("\\x{:02x}", c)
         : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                       : fmt::format("\\U{:08x}", c);
}

std::string repr_text(std::string_view text, bool ascii_only = false) {
  const bool use_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = decode(text, at);
    const char byte = text[at];
    if (byte == '\\' || byte == quote) {
      out += {'\\', byte};
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (is_printable(c.code) && (!ascii_only || c.code < 0x80)) {
      out += text.substr(at, c.size);
    } else {
      append_hex_escape(out, c.code);
    }
    at += c.size;
  }
  out += quote;
  return out;
}

void write_repr(Writer& out, const Value& value, int depth);

template <class Items>
void write_items(Writer& out, const Items& items, int depth) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.put(", ");
    first = false;
    write_repr(out, item, depth);
  }
}

void write_dict(Writer& out, const DictObject& dict, int depth) {
  out.put("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.put(", ");
    first = false;
    write_repr(out, key, depth);
    out.put(": ");
    write_repr(out, value, depth);
  }
  out.put("}");
}

void write_view(Writer& out, const ViewObject& view, int depth) {
  const DictObject& dict = *view.dict.dict();
  out.put(view.part == ViewObject::Part::kKeys     ? "dict_keys(["
          : view.part == ViewObject::Part::kValues ? "dict_values(["
                                                   : "dict_items([");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.put(", ");
    first = false;
    if (view.part == ViewObject::Part::kItems) out.put("(");
    if (view.part != ViewObject::Part::kValues) write_repr(out, key, depth);
    if (view.part == ViewObject::Part::kItems) out.put(", ");
    if (view.part != ViewObject::Part::kKeys) write_repr(out, value, depth);
    if (view.part == ViewObject::Part::kItems) out.put(")");
  }
  out.put("])");
}

void write_namespace(Writer& out, const NamespaceObject& object, int depth) {
  out.put("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : object.attributes) {
    if (!first) out.put(", ");
    first = false;
    out.put(repr_text(name));
    out.put(": ");
    write_repr(out, value, depth);
  }
  out.put("}>");
}

std::string range_repr(const RangeObject& range) {
  std::string out = "range(" + integer_text(range.start) + ", " + integer_text(range.stop);
  if (range.step != 1) out += ", " + integer_text(range.step);
  return out + ")";
}

// Values other than strings and containers read the same printed and inside a container, Undefined
// apart.
std::string plain_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return *value.get<bool>() ? "True" : "False";
    case Kind::kInt:
      return integer_text(*value.get<Int>());
    case Kind::kFloat:
      return float_text(*value.get<double>());
    case Kind::kRange:
      return range_repr(*value.range());
    case Kind::kCallable:
      return describe(*value.callable());
    default:
      return fmt::format("<{} object>", type_name(value));
  }
}

void write_repr(Writer& out, const Value& value, int depth) {
  out.runtime().step();
  out.runtime().check_depth(++depth);  // a namespace may hold itself
  switch (value.kind()) {
    case Kind::kString: {
      const StringObject& string = *value.string();
      out.taint(string);
      out.runtime().step(string.ascii() ? string.text.size() / 64 : string.length / 2);
      const std::string text = repr_text(string.bytes(), out.ascii_only());
      out.put(string.markup ? "Markup(" + text + ")" : text);
      return;
    }
    case Kind::kList:
      out.put("[");
      write_items(out, value.list()->items, depth);
      out.put("]");
      return;
    case Kind::kTuple:
      out.put("(");
      write_items(out, value.tuple()->items, depth);
      out.put(value.tuple()->items.size() == 1 ? ",)" : ")");
      return;
    case Kind::kDict:
      return write_dict(out, *value.dict(), depth);
    case Kind::kView:
      return write_view(out, *value.view(), depth);
    case Kind::kLoop: {
      LoopObject& loop = *value.loop();
      out.put(fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.length(out.runtime())));
      return;
    }
    case Kind::kNamespace:
      return write_namespace(out, *value.name_space(), depth);
    default:
      out.put(plain_text(value));
  }
}

// ---- JSON ----

void append_json_escape(std::string& out, char32_t code) {
  const auto c = static_cast<std::uint32_t>(code);
  if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", c);
  } else {
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                       0xDC00 + ((c - 0x10000) & 0x3FF));
  }
}

std::string json_text(std::string_view text, bool ascii_only) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const Decoded c = decode(text, at);
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    const std::size_t known = kFrom.find(text[at]);
    if (known != std::string_view::npos) {
      out += {'\\', kTo[known]};
    } else if (c.code < 0x20 || (ascii_only && c.code > 0x7E)) {
      append_json_escape(out, c.code);
    } else {
      out += text.substr(at, c.size);
    }
    at += c.size;
  }
  out += '"';
  return out;
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : out_(runtime), style_(style) {
    if (!style.trusted) out_.distrust();
  }

  void write(const Value& value) {
    out_.runtime().step();
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return out_.put(scalar(value));
      case Kind::kString:
        return write_text(*value.string());
      case Kind::kList:
      case Kind::kTuple:
        return write_array(*value.sequence());
      case Kind::kDict:
        return write_object(*value.dict());
      default:
        out_.runtime().fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }
  [[nodiscard]] Value value() { return out_.value(); }

 private:
  static std::string scalar(const Value& value) {
    if (value.none()) return "null";
    if (const bool* boolean = value.get<bool>()) return *boolean ? "true" : "false";
    if (const Int* integer = value.get<Int>()) return integer_text(*integer);
    const double real = *value.get<double>();
    if (real != real) return "NaN";
    if (real > 0 && real - real != 0) return "Infinity";
    if (real < 0 && real - real != 0) return "-Infinity";
    return float_text(real);
  }

  void write_text(const StringObject& string) {
    out_.taint(string);
    out_.runtime().touch_bytes(string.text.size());
    out_.put(json_text(string.bytes(), style_.ascii_only));
  }

  void write_key(const Value& key) {
    if (const auto* string = key.string()) return write_text(*string);
    if (!key.none() && !key.number()) {
      out_.runtime().fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out_.put("\"" + scalar(key) + "\"");
  }

  void line_break() {
    if (!style_.indent) return;
    out_.put("\n");
    for (int i = 0; i < level_; ++i) out_.put(*style_.indent);
  }

  void write_array(const std::vector<Value>& items) {
    if (items.empty()) return out_.put("[]");
    out_.put("[");
    ++level_;
    bool first = true;
    for (const Value& item : items) {
      if (!first) out_.put(style_.item_separator);
      first = false;
      line_break();
      write(item);
    }
    --level_;
    line_break();
    out_.put("]");
  }

  void write_object(const DictObject& dict) {
    if (dict.entries.empty()) return out_.put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* left, const auto* right) {
        return less(out_.runtime(), left->first, right->first);
      });
    }
    out_.put("{");
    ++level_;
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.put(style_.item_separator);
      first = false;
      line_break();
      write_key(entry->first);
      out_.put(style_.key_separator);
      write(entry->second);
    }
    --level_;
    line_break();
    out_.put("}");
  }

  Writer out_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

void append_str(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (const auto* string = value.string()) return out.append(string->text);
  if (value.undefined()) return;
  if (value.number() || value.none()) return out.append(plain_text(value), true);
  Writer writer(runtime);
  write_repr(writer, value, 0);
  const Value text = writer.value();
  out.append(text.string()->text);
}

Value to_str(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kString)) return value;
  TextBuilder out(runtime);
  append_str(runtime, out, value);
  return out.value();
}

Value to_repr(Runtime& runtime, const Value& value, bool ascii_only) {
  Writer writer(runtime, ascii_only);
  write_repr(writer, value, 0);
  return writer.value();
}

std::string short_repr(std::string_view text) {
  constexpr std::size_t kShown = 80;
  if (text.size() <= kShown) return repr_text(text);
  const std::size_t cut = previous(text, kShown + 1);
  return repr_text(text.substr(0, cut)) + "...";
}

Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.value();
}

}  // namespace strata::text::jinja
