#include "src/serve/output_parser.hpp"

#include "src/serve/ascii.hpp"
#include "src/serve/marker_scanner.hpp"

#include <array>
#include <span>
#include <utility>

namespace strata::serve {
namespace {

// Text without the white space around it; what may turn out to be at the end is held back.
class Trimmed {
 public:
  explicit Trimmed(bool keep_front) : in_front_(!keep_front) {}
  [[nodiscard]] std::string feed(std::string_view text) {
    if (in_front_) {
      const std::size_t first = text.find_first_not_of(kWhiteSpace);
      if (first == std::string_view::npos) return {};
      text.remove_prefix(first);
      in_front_ = false;
    }
    const std::size_t last = text.find_last_not_of(kWhiteSpace);
    if (last == std::string_view::npos) {
      held_ += text;
      return {};
    }
    std::string result = std::exchange(held_, std::string(text.substr(last + 1)));
    result += text.substr(0, last + 1);
    return result;
  }
  [[nodiscard]] std::string take_end() { return std::exchange(held_, {}); }

 private:
  bool in_front_;
  std::string held_;
};

void add(Deltas& out, Delta::Kind kind, std::string text) {
  if (text.empty()) return;
  if (!out.empty() && out.back().kind == kind) {
    out.back().text += text;
  } else {
    out.push_back({kind, std::move(text), {}});
  }
}

class PlainParser final : public OutputParser {
 public:
  void feed(std::string_view text, Deltas& out) override {
    add(out, Delta::Kind::kText, std::string(text));
  }
  void finish(Deltas&) override {}
};

class TaggedParser final : public OutputParser {
 public:
  explicit TaggedParser(const OutputStyle& style)
      : tools_(style.tools),
        may_think_(style.thinks && !style.starts_inside),
        state_(style.starts_inside ? State::kThinking : State::kText) {}

  void feed(std::string_view text, Deltas& out) override {
    scanner_.append(text);
    while (step(out)) {
    }
  }

  void finish(Deltas& out) override {
    const std::string rest = scanner_.take_rest();
    switch (state_) {
      case State::kThinking:
        add(out, Delta::Kind::kReasoning, reasoning_.feed(rest));
        break;
      case State::kText:
        show(rest, out);
        add(out, Delta::Kind::kText, text_.take_end());
        break;
      case State::kCall:
        // Cut off, or the model left the end out.
        body_ += rest;
        end_call("", out);
        add(out, Delta::Kind::kText, text_.take_end());
        break;
    }
  }

 private:
  enum class State { kThinking, kText, kCall };

  // False: more text is needed.
  bool step(Deltas& out) {
    switch (state_) {
      case State::kThinking:
        return think(out);
      case State::kText:
        return tell(out);
      case State::kCall:
        return call(out);
    }
    return false;
  }

  bool think(Deltas& out) {
    constexpr std::array<std::string_view, 1> kEnd = {"</think>"};
    std::string before;
    const bool ended = scanner_.next(kEnd, before).has_value();
    add(out, Delta::Kind::kReasoning, reasoning_.feed(before));
    if (ended) {
      state_ = State::kText;
      text_ = Trimmed(false);
    }
    return ended;
  }

  bool tell(Deltas& out) {
    // The order matters for none of them: they begin differently. </tool_call> comes after a
    // <function=> that had no <tool_call>.
    constexpr std::array<std::string_view, 4> kAll = {"<think>", "<tool_call>",
                                                      "<function=", "</tool_call>"};
    const std::size_t first = may_think_ ? 0 : 1;
    const std::span markers =
        std::span(kAll).subspan(first, tools_.is_null() ? 1 - first : kAll.size() - first);
    std::string before;
    const std::optional<std::size_t> found = scanner_.next(markers, before);
    show(before, out);
    if (!found) return false;
    const std::string_view marker = markers[*found];
    if (marker == "<think>") {
      if (std::exchange(may_think_, false)) {
        state_ = State::kThinking;
      } else {
        show(marker, out);  // something was said before it
      }
    } else if (marker != "</tool_call>") {
      state_ = State::kCall;
      open_ = marker;
      body_ = marker == "<function=" ? marker : "";
    }
    return true;
  }

  bool call(Deltas& out) {
    const std::array<std::string_view, 1> end = {open_ == "<function=" ? "</function>"
                                                                       : "</tool_call>"};
    std::string before;
    const bool ended = scanner_.next(end, before).has_value();
    body_ += before;
    if (!ended) return false;
    end_call(end[0], out);
    state_ = State::kText;
    return true;
  }

  void end_call(std::string_view close, Deltas& out) {
    if (std::optional<ToolCall> call = parse_tool_call(body_, tools_)) {
      (void)text_.take_end();  // white space in front of a call is not the answer's
      out.push_back({Delta::Kind::kToolCall, {}, std::move(*call)});
    } else {
      show(open_ == "<function=" ? "" : open_, out);
      show(body_, out);
      show(close, out);
    }
    body_.clear();
  }

  void show(std::string_view text, Deltas& out) {
    if (text.find_first_not_of(kWhiteSpace) != std::string_view::npos) may_think_ = false;
    add(out, Delta::Kind::kText, text_.feed(text));
  }

  Json tools_;
  bool may_think_;  // nothing has been said yet
  State state_;
  MarkerScanner scanner_;
  Trimmed reasoning_{false}, text_{true};
  std::string_view open_;  // the marker that began a call
  std::string body_;
};

// https://cookbook.openai.com/articles/openai-harmony
class HarmonyParser final : public OutputParser {
 public:
  explicit HarmonyParser(const OutputStyle& style) : tools_(style.tools) {}

  void feed(std::string_view text, Deltas& out) override {
    scanner_.append(text);
    std::string before;
    for (;;) {
      const std::optional<std::size_t> found = scanner_.next(kMarkers, before);
      take(before, out);
      if (!found) return;
      switch (*found) {
        case 0:  // <|message|>
          begin_body();
          break;
        case 1:  // <|channel|>
          end_body(out);
          header_ += "<|channel|>";
          break;
        case 2:  // <|constrain|>
          header_ += ' ';
          break;
        default:
          end_body(out);
          header_.clear();
          recipient_.clear();
      }
    }
  }
  void finish(Deltas& out) override {
    take(scanner_.take_rest(), out);
    end_body(out);
  }

 private:
  static constexpr std::array<std::string_view, 7> kMarkers = {
      "<|message|>", "<|channel|>", "<|constrain|>", "<|start|>",
      "<|end|>",     "<|call|>",    "<|return|>"};

  void take(const std::string& text, Deltas& out) {
    if (!in_body_) {
      header_ += text;
    } else if (!recipient_.empty()) {
      body_ += text;
    } else {
      add(out, is_analysis_ ? Delta::Kind::kReasoning : Delta::Kind::kText, text);
    }
  }

  // "assistant to=functions.f<|channel|>commentary json", with the recipient at either place.
  void begin_body() {
    constexpr std::string_view kTo = "to=";
    const std::size_t channel = header_.find("<|channel|>");
    const std::string_view after = channel == std::string::npos
                                       ? std::string_view()
                                       : std::string_view(header_).substr(channel + 11);
    is_analysis_ = after.starts_with("analysis");
    const std::size_t to = header_.find(kTo);
    if (to != std::string::npos && !tools_.is_null()) {
      std::string_view name = std::string_view(header_).substr(to + kTo.size());
      name = name.substr(0, name.find_first_of(" \t\r\n<"));
      if (name.starts_with("functions.")) name.remove_prefix(10);
      recipient_ = name;
    }
    in_body_ = true;
    body_.clear();
  }

  void end_body(Deltas& out) {
    if (in_body_ && !recipient_.empty()) {
      out.push_back({Delta::Kind::kToolCall, {}, {random_id("call_"), recipient_, body_}});
    }
    if (in_body_) {
      header_.clear();
      recipient_.clear();
    }
    in_body_ = false;
  }

  Json tools_;
  MarkerScanner scanner_;
  std::string header_;
  bool in_body_ = false;
  bool is_analysis_ = false;
  std::string recipient_, body_;
};

}  // namespace

std::unique_ptr<OutputParser> OutputParser::make(const OutputStyle& style) {
  switch (style.form) {
    case OutputForm::kTagged:
      return std::make_unique<TaggedParser>(style);
    case OutputForm::kHarmony:
      return std::make_unique<HarmonyParser>(style);
    case OutputForm::kPlain:
      break;
  }
  return std::make_unique<PlainParser>();
}

}  // namespace strata::serve
