// A chat, at a pseudo-terminal.
#include "tests/app/program.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace strata::app::test {
namespace {

constexpr const char* kCtrlC = "\x03";
constexpr const char* kCtrlD = "\x04";
constexpr const char* kSpeed = "answer ";  // the line after each answer has it

std::vector<std::string> chat(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run", kDemo, "--greedy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// An answer that takes longer than a test does.
const std::vector<std::string> kSlow = {"--isa",        "generic",       "-t", "1",
                                        "--ignore-eos", "--activations", "f32"};

TEST(Chat, AnswersRemembersAndLeaves) {
  Terminal terminal(chat({"-n", "20"}));
  terminal.expect("/help");
  terminal.expect("> ");
  terminal.type("Tell me a story about a cat.\n");
  terminal.expect("[prompt ");
  terminal.expect(" 0 reused");
  terminal.expect("> ");
  terminal.type("And about a dog.\n");
  terminal.expect("[prompt ");
  const std::string reused = terminal.expect(" reused");
  const int tokens = std::stoi(reused.substr(reused.find(", ") + 2));
  EXPECT_GE(tokens, 20) << "the first turn's prompt is not read again";
  terminal.expect("> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_NE(terminal.screen().find("% of the memory's"), std::string::npos);
}

TEST(Chat, ResetForgets) {
  Terminal terminal(chat({"-n", "10", "--system", "You are brief."}));
  terminal.expect("> ");
  std::string first;
  for (int turn = 0; turn < 2; ++turn) {
    terminal.type("What is the sea?\n");
    terminal.expect("sea?\r\n");
    const std::string answer = terminal.expect("[prompt ");
    if (turn == 0) first = answer;
    EXPECT_EQ(answer, first);
    terminal.expect("> ");
    terminal.type("/reset\n");
    terminal.expect("[forgotten]");
    terminal.expect("> ");
  }
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(Chat, CommandsAndContinuedLines) {
  Terminal terminal(chat({"-n", "3"}));
  terminal.expect("> ");
  terminal.type("/help\n");
  terminal.expect("/reset");
  terminal.expect("> ");
  terminal.type("/frobnicate\n");
  terminal.expect("no command /frobnicate");
  terminal.expect("> ");
  terminal.type("\n");
  terminal.expect("> ");
  terminal.type("One line\\\n");
  terminal.expect(". ");
  terminal.type("and another\n");
  terminal.expect(kSpeed);
  terminal.expect("> ");
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(Chat, CtrlCEndsTheAnswerOnly) {
  std::vector<std::string> arguments = chat(kSlow);
  Terminal terminal(arguments);
  terminal.expect("> ");
  terminal.type("Tell me a story about a cat.\n");
  terminal.expect("cat.\r\n");
  terminal.expect(" ");  // a word of the answer is here
  terminal.type(kCtrlC);
  terminal.expect("[interrupted]");
  terminal.expect("> ");
  // The chat goes on, with what was said of the answer in its history.
  terminal.type("And a dog.\n");
  terminal.expect("dog.\r\n");
  terminal.expect(" ");
  terminal.type(kCtrlC);
  terminal.expect("[interrupted]");
  terminal.expect("> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(Chat, TwoCtrlCEndTheProgram) {
  Terminal terminal(chat(kSlow));
  terminal.expect("> ");
  terminal.type("Tell me a story about a cat.\n");
  terminal.expect("cat.\r\n");
  terminal.expect(" ");
  terminal.type(kCtrlC);
  terminal.expect("[interrupted]");
  terminal.expect("> ");
  terminal.type(kCtrlC);
  EXPECT_EQ(terminal.finish(), 130);
}

TEST(Chat, CtrlCAtThePromptDropsTheLineThenLeaves) {
  Terminal terminal(chat({"-n", "3"}));
  terminal.expect("> ");
  terminal.type("half a mess");
  terminal.expect("half a mess");
  terminal.type(kCtrlC);
  terminal.expect("once more");
  terminal.expect("> ");
  terminal.type("A whole message.\n");  // a message in between: the count starts anew
  terminal.expect(kSpeed);
  terminal.expect("> ");
  terminal.type(kCtrlC);
  terminal.expect("once more");
  terminal.expect("> ");
  terminal.type(kCtrlC);
  EXPECT_EQ(terminal.finish(), 130);
}

TEST(Chat, AMessageThatDoesNotFitIsRefusedAndTheChatGoesOn) {
  Terminal terminal(chat({"-n", "3", "-c", "48"}));
  terminal.expect("> ");
  std::string words;
  for (int i = 0; i < 60; ++i) words += "sea ";
  terminal.type(words + "\n");
  terminal.expect("the context holds 48");
  terminal.expect("/reset makes room");
  terminal.expect("> ");
  terminal.type("Hi\n");
  terminal.expect(kSpeed);
  terminal.expect("> ");
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(Chat, RawGoesOnWithOneText) {
  Terminal terminal(chat({"-n", "4", "--raw"}));
  terminal.expect("> ");
  terminal.type("Once upon a time\n");
  terminal.expect(kSpeed);
  terminal.expect("> ");
  terminal.type(" and then\n");
  terminal.expect("[prompt ");
  const std::string reused = terminal.expect(" reused");
  EXPECT_GE(std::stoi(reused.substr(reused.find(", ") + 2)), 4);
  terminal.expect("> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

// User and system time of a process, in clock ticks.
long cpu_ticks(pid_t process) {
  const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  long user = 0;
  long system = 0;
  fields >> user >> system;
  return user + system;
}

TEST(Chat, WaitingTakesNoProcessorTime) {
  Terminal terminal(chat({"-n", "5"}));
  terminal.expect("> ");
  terminal.type("Hi\n");
  terminal.expect(kSpeed);
  terminal.expect("> ");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // workers fall asleep
  const long before = cpu_ticks(terminal.process());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const double seconds = static_cast<double>(cpu_ticks(terminal.process()) - before) /
                         static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_LT(seconds, 0.02) << "1 % of the time waited";
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

}  // namespace
}  // namespace strata::app::test
