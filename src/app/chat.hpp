// A chat at the terminal.
#pragma once

#include "src/app/answer.hpp"
#include "src/app/console.hpp"
#include "src/app/conversation.hpp"
#include "src/app/run_output.hpp"

namespace strata::app {

// Reads messages and answers them until /exit or the end of input. Returns the exit code. With an
// InterruptWatch alive, Ctrl-C ends an answer or drops the line that is being typed; twice without
// a message in between, it ends the program.
[[nodiscard]] int chat(Engine& engine, Conversation& conversation, const AnswerOptions& options,
                       RunOutput& output, Console& console);

}  // namespace strata::app
