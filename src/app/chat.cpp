#include "src/app/chat.hpp"

#include "src/app/interrupt.hpp"
#include "src/app/line_reader.hpp"
#include "strata/base/error.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace strata::app {
namespace {

constexpr std::string_view kHelp =
    "/help   this list\n"
    "/reset  forget the chat so far\n"
    "/exit   leave, as Ctrl-D does\n"
    "A backslash at a line's end continues the message on the next line. Ctrl-C ends an answer.\n"
    "A message that begins with a slash: put a space before it. A line can have 4095 bytes, the\n"
    "terminal's limit; -f FILE reads longer texts.";

class Chat {
 public:
  Chat(Engine& engine, Conversation& conversation, const AnswerOptions& options, RunOutput& output,
       Console& console)
      : engine_(engine),
        conversation_(conversation),
        options_(options),
        output_(output),
        console_(console),
        session_(engine.new_session()) {}

  void run() {
    std::string message;
    while (read_message(message)) {
      InterruptWatch::reset();
      if (message.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (message == "/exit") break;
      if (message.front() == '/') {
        obey(message);
      } else {
        answer(message);
      }
    }
  }

 private:
  // False: the input has ended.
  bool read_message(std::string& message) {
    message.clear();
    std::string line;
    for (bool continued = false;;) {
      show_prompt(continued);
      switch (reader_.read(line)) {
        case LineReader::Result::kEnd:
          console_.note("");
          return false;
        case LineReader::Result::kInterrupted:
          console_.note("\n[Ctrl-C once more, Ctrl-D or /exit leaves]");
          InterruptWatch::acknowledge();
          message.clear();
          continued = false;
          continue;
        case LineReader::Result::kLine:
          break;
      }
      continued = line.ends_with('\\');
      if (continued) line.back() = '\n';
      message += line;
      if (!continued) return true;
    }
  }

  // To whichever of the two outputs the user is looking at.
  void show_prompt(bool continued) {
    const std::string_view prompt = continued ? ". " : "> ";
    if (console_.output_is_terminal) {
      console_.out.write(prompt);
      console_.out.flush();
    } else {
      std::fwrite(prompt.data(), 1, prompt.size(), stderr);
    }
  }

  void obey(std::string_view command) {
    if (command == "/help") {
      console_.note(kHelp);
    } else if (command == "/reset") {
      conversation_.reset();
      console_.note("[forgotten]");
    } else {
      console_.note(std::string("[no command ") + std::string(command) + "; /help lists them]");
    }
  }

  void answer(const std::string& message) {
    try {
      const Answer answer = make_answer(engine_, *session_, conversation_.ask(message), options_,
                                        output_.events(InterruptWatch::interrupted));
      if (answer.generated == 0 && answer.reason == EndReason::kInterrupt) {
        conversation_.take_back();
      } else {
        conversation_.answered(answer.text);
      }
      InterruptWatch::acknowledge();
      output_.answered(answer);
      output_.chat_speed(answer);
    } catch (const Error& error) {
      // A message that does not fit, or that the template refuses, is no reason to lose the chat.
      if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kInput) throw;
      conversation_.take_back();
      console_.log.error("{}; /reset makes room", error.what());
    }
  }

  Engine& engine_;
  Conversation& conversation_;
  const AnswerOptions& options_;
  RunOutput& output_;
  Console& console_;
  std::unique_ptr<Session> session_;
  LineReader reader_;
};

}  // namespace

int chat(Engine& engine, Conversation& conversation, const AnswerOptions& options,
         RunOutput& output, Console& console) {
  output.note("A message for the model, or /help.");
  Chat(engine, conversation, options, output, console).run();
  return 0;
}

}  // namespace strata::app
