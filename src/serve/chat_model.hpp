// What the server knows about the model it serves, and how a chat becomes tokens for it.
#pragma once

#include "src/serve/chat_task.hpp"
#include "src/serve/output_parser.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/serve/answer.hpp"
#include "strata/text/chat_template.hpp"
#include "strata/text/grammar_matcher.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace strata::serve {

// What to ask the engine for, and how to read what comes.
struct ChatPlan {
  std::vector<GenerationRequest> requests;  // one a choice
  OutputStyle style;
};

// Thread-safe. The engine must outlive it.
class ChatModel {
 public:
  // `name`: by which clients know it. A chat template that cannot be run is an Error(kInput); a
  // file without one can still complete texts.
  ChatModel(const Engine& engine, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const text::Tokenizer& tokenizer() const noexcept { return engine_.tokenizer(); }
  [[nodiscard]] std::int64_t loaded_at() const noexcept { return loaded_at_; }  // Unix time
  [[nodiscard]] bool can_chat() const noexcept { return template_.has_value(); }
  [[nodiscard]] bool can_think() const noexcept { return thinks_; }
  [[nodiscard]] std::size_t context() const noexcept {
    return static_cast<std::size_t>(engine_.context());
  }

  // ApiError(400) for what this model cannot do, and for a prompt longer than its context.
  [[nodiscard]] ChatPlan plan(const ChatTask& task, const std::string& client) const;
  // The same for a prompt that is there already. `index`: of the prompt among those of the request.
  [[nodiscard]] std::vector<GenerationRequest> plan_completion(
      const ChatTask& task, const std::vector<std::int32_t>& prompt,
      const std::string& client) const;
  // How many tokens the prompt of this chat has.
  [[nodiscard]] std::size_t count_tokens(const ChatTask& task) const;

 private:
  struct Prompt {
    std::vector<std::int32_t> tokens;
    bool starts_inside = false;  // the text ends behind <think>
  };
  using Grammar = std::shared_ptr<const text::Grammar>;

  [[nodiscard]] Prompt make_prompt(const ChatTask& task) const;
  [[nodiscard]] Json template_variables(const ChatTask& task) const;
  [[nodiscard]] bool uses_tools(const ChatTask& task) const noexcept;
  [[nodiscard]] GenerationRequest make_request(const ChatTask& task, int choice,
                                               const std::string& client) const;
  void limit_thinking(const ChatTask& task, bool starts_inside, GenerationRequest& request) const;
  [[nodiscard]] std::vector<ScriptStep> make_script(const ChatTask& task) const;
  [[nodiscard]] std::vector<ScriptStep> tool_script(const ChatTask& task) const;
  [[nodiscard]] text::GrammarMatcher matcher(const std::string& kind, const Json& schema,
                                             const std::string& gbnf) const;
  [[nodiscard]] std::vector<std::int32_t> encode_markup(std::string_view text) const;

  const Engine& engine_;
  std::string name_;
  std::int64_t loaded_at_;
  std::optional<text::ChatTemplate> template_;
  OutputForm form_ = OutputForm::kPlain;
  bool thinks_ = false;
  bool template_has_tools_ = false;
  std::shared_ptr<const text::GrammarVocab> vocab_;

  // Grammars of the last requests: clients send the same schema again and again.
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::string, text::GrammarMatcher>> grammars_;  // the last used first
};

}  // namespace strata::serve
