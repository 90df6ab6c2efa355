// A sandboxed engine for the Jinja templates that language models ship as chat templates.
//
// It gives what Python's jinja2 3.1 gives when set up as Hugging Face transformers sets it up: an
// immutable sandbox with trim_blocks, lstrip_blocks, the loop controls, the `generation` tag, a
// `tojson` filter that writes plain JSON, and the globals raise_exception, strftime_now, range,
// namespace and dict. docs/chat-templates.md lists what is supported and every known difference.
//
// Two things jinja2 does not do: every render is bounded in work, memory and output, and the
// rendered text says which bytes the template wrote and which came from its variables.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

namespace jinja {
struct Program;
}

// Bounds on what a template may cost. Crossing one is an Error of kind kInput that names the bound.
struct JinjaLimits {
  std::size_t max_source_bytes = std::size_t{1} << 20;  // of the template's source
  std::size_t max_steps = 20'000'000;  // nodes evaluated + items produced + bytes touched / 64
  int max_nesting = 100;               // blocks and expressions inside one another, in the source
  int max_depth = 800;                 // nodes being evaluated at once, macro calls included
  std::size_t max_output_bytes = std::size_t{64} << 20;   // of the rendered text
  std::size_t max_string_bytes = std::size_t{64} << 20;   // of any one string
  std::size_t max_items = std::size_t{1} << 20;           // of any one list, tuple or dict
  std::size_t max_memory_bytes = std::size_t{512} << 20;  // alive at one moment, in all values
};

// A piece of rendered text. `trusted`: the template or the program wrote it. Otherwise it came from
// a variable, that is from the user. Neighbouring segments differ in `trusted`, and their texts
// joined are the rendered text. To tokenise: join the texts, accept a special token only where it
// lies inside one trusted segment, and tokenise what is between the special tokens as one text,
// across segments.
struct RenderedSegment {
  std::string text;
  bool trusted = false;
  bool operator==(const RenderedSegment&) const = default;
};

// Says whether a string inside a variable counts as written by the template. `key` is the name of
// the object member that holds the string, or "" when no object does.
using TrustRule = bool (*)(std::string_view key, std::string_view text);
[[nodiscard]] bool trust_nothing(std::string_view key, std::string_view text);
[[nodiscard]] bool trust_everything(std::string_view key, std::string_view text);

// A variable a template is rendered with. Bytes that are not UTF-8 become U+FFFD.
struct JinjaVariable {
  std::string_view name;
  const nlohmann::ordered_json* value;
  TrustRule trusts = trust_nothing;
};

// What strftime_now tells: civil time, without a zone.
using CivilTime = std::chrono::local_seconds;
[[nodiscard]] CivilTime current_civil_time();  // of this machine, in its time zone

// A parsed template: cheap to copy, immutable, safe to render from any number of threads at once.
class JinjaTemplate {
 public:
  // Errors: kInput with the line, for text that is not a template this engine can run.
  [[nodiscard]] static JinjaTemplate parse(std::string_view source, const JinjaLimits& limits = {});

  // Errors: kInput with the line, for anything that fails in the template, for raise_exception with
  // its message, and for a crossed limit.
  [[nodiscard]] std::vector<RenderedSegment> render(std::span<const JinjaVariable> variables,
                                                    CivilTime now) const;

  // Whether the template has this name as a variable anywhere. One that it does not have cannot
  // change the text.
  [[nodiscard]] bool mentions(std::string_view variable) const;

 private:
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace strata::text
