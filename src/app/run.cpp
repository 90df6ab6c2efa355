// strata run: one answer to a prompt, or a chat.
#include "src/app/answer.hpp"
#include "src/app/chat.hpp"
#include "src/app/command.hpp"
#include "src/app/conversation.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/interrupt.hpp"
#include "src/app/run_output.hpp"
#include "src/app/sampling_options.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/runtime/stop_strings.hpp"

#include <memory>
#include <optional>
#include <string>

namespace strata::app {
namespace {

constexpr std::size_t kLargestPrompt = std::size_t{1} << 30;

constexpr const char* kRunExamples = R"(
Examples:
  strata run model.gguf                              chat; /help lists its commands
  strata run model.gguf "Why is the sky blue?"       one answer
  strata run model.gguf -f question.txt -n 500       the prompt from a file
  git diff | strata run model.gguf --system "Review this change."
  strata run model.gguf --raw "Once upon a time" --greedy
  strata run model.gguf "A recipe for bread" --json-schema recipe.json
  strata run model.gguf "Hi" --json | jq -r 'select(.event == "token").text'

The chat template of the file is applied, so that the model sees a user's message; --raw has it go
on with the text as it stands. The prompt's last line break is dropped. Ctrl-C ends the answer, and
once more ends the program.

--json prints a JSON object a line. "event" is load, prompt, token or end; "reason" at the end is
eos, stop, length, context or interrupt.)";

struct RunOptions {
  EngineFlags engine;
  SamplingFlags sampling;
  GrammarFlags grammar;
  std::string prompt, file, system;
  std::int64_t max_tokens = -1;
  std::vector<std::string> stops;
  bool raw = false;
  bool ignore_eos = false;
  bool json = false;
  bool quiet = false;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;
};

// nullopt: nobody gave one and a terminal is attached, so this is a chat.
std::optional<std::string> read_prompt(const RunOptions& options, const Console& console) {
  if (options.prompt_option->count() > 0) return options.prompt;
  std::string text;
  if (options.file_option->count() > 0) {
    text = read_text_file(options.file, kLargestPrompt);
  } else if (!console.input_is_terminal) {
    text = read_standard_input(kLargestPrompt);
  } else {
    return std::nullopt;
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

int answer_once(Engine& engine, Conversation& conversation, const std::string& prompt,
                const AnswerOptions& options, RunOutput& output) {
  const std::unique_ptr<Session> session = engine.new_session();
  const Answer answer = make_answer(engine, *session, conversation.ask(prompt), options,
                                    output.events(InterruptWatch::interrupted));
  output.answered(answer);
  return answer.reason == EndReason::kInterrupt ? kExitInterrupted : 0;
}

int run(const RunOptions& options, Console& console) {
  AnswerOptions answer;
  answer.sampling = options.sampling.params();
  answer.max_tokens = options.max_tokens;
  answer.stops = options.stops;
  answer.ignore_eos = options.ignore_eos;
  // Mistakes on the command line are told before a model is loaded for minutes.
  (void)runtime::StopMatcher(options.stops);
  const std::shared_ptr<const text::Grammar> grammar = options.grammar.grammar();
  const std::optional<std::string> prompt = read_prompt(options, console);
  if (!prompt && options.json) fail(ErrorKind::kUsage, "--json: give a prompt; a chat has no JSON");
  if (prompt && prompt->empty()) fail(ErrorKind::kUsage, "the prompt is empty");

  const std::unique_ptr<Engine> engine =
      load_engine(console, options.engine.options(), options.quiet);
  if (grammar) {
    answer.grammar.emplace(grammar,
                           std::make_shared<const text::GrammarVocab>(engine->tokenizer()));
  }
  const InterruptWatch watch;
  RunOutput output(console, *engine, options.json, options.quiet);
  output.loaded(answer.sampling);
  Conversation conversation =
      options.raw ? Conversation::raw(*engine) : Conversation::chat(*engine, options.system);
  const int code = prompt ? answer_once(*engine, conversation, *prompt, answer, output)
                          : chat(*engine, conversation, answer, output, console);
  output.finished();
  engine->finish();
  return code;
}

}  // namespace

Command add_run(CLI::App& program) {
  CLI::App* app = program.add_subcommand("run", "Turns a prompt into text, or chats.");
  app->footer(kRunExamples);
  const auto o = std::make_shared<RunOptions>();
  o->engine.add_model(*app);
  o->prompt_option =
      app->add_option("PROMPT", o->prompt, "by default standard input, or a chat at a terminal")
          ->type_name("");
  const std::string group = "Prompt and answer";
  o->file_option = app->add_option("-f,--file", o->file, "read the prompt from a file")
                       ->type_name("FILE")
                       ->excludes(o->prompt_option)
                       ->group(group);
  app->add_option("-n,--tokens", o->max_tokens, "most tokens of an answer; -1: up to the context")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40).description(""))
      ->capture_default_str()
      ->group(group);
  CLI::Option* system = app->add_option("--system", o->system, "system message, before the chat")
                            ->type_name("TEXT")
                            ->group(group);
  app->add_flag("--raw", o->raw, "no chat template; special tokens in the text are recognised")
      ->excludes(system)
      ->group(group);
  app->add_option("--stop", o->stops, "end the answer before this text; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
  app->add_flag("--ignore-eos", o->ignore_eos, "go on after the model's end token")->group(group);
  app->add_flag("--json", o->json, "print events as JSON, one a line")->group(group);
  app->add_flag("-q,--quiet", o->quiet, "only the answer: no report, no speed")->group(group);
  o->sampling.add(*app);
  o->grammar.add(*app);
  o->engine.add(*app, EngineFlags::Context::kOption);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
