// strata run on the demo model: answers, their ends, events, streams.
#include "tests/app/program.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace strata::app::test {
namespace {

using gguf::test::TempFolder;
using Arguments = std::vector<std::string>;

// The reference's greedy continuation of its first prompt (float arithmetic).
struct Golden {
  std::string prompt, continuation;
  std::vector<std::int32_t> ids;
};
Golden golden(std::size_t number) {
  const auto json = nlohmann::json::parse(
      read_file(std::string(STRATA_SOURCE_DIR) + "/tests/data/demo/golden.json"));
  const auto& entry = json["prompts"][number];
  const auto text = entry["text"].get<std::string>();
  Golden golden{entry["prompt"], text, entry["greedy"]};
  if (!entry["chat"].get<bool>()) golden.continuation = text.substr(golden.prompt.size());
  return golden;
}

Arguments greedy(Arguments more) {
  Arguments arguments = {"run", kDemo, "--greedy", "--activations", "f32"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Run, ContinuesARawTextAsTheReferenceDoes) {
  const Golden expected = golden(0);
  const Ended ended = run(greedy({"--raw", expected.prompt, "-n", "40"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, expected.continuation + "\n");
  for (const char* part :
       {"qwen3moe", "threads", "experts", "greedy", "[ended by -n after 40 tokens]", "tokens/s",
        "GB/s", "% of the memory's"}) {
    EXPECT_NE(ended.err.find(part), std::string::npos) << part << " in: " << ended.err;
  }
}

TEST(Run, AppliesTheChatTemplate) {
  const Golden expected = golden(2);
  const Ended ended = run(greedy({expected.prompt, "-n", "40", "--json", "-q"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& event : ended.events()) {
    if (event["event"] == "token" && !event["id"].is_null()) ids.push_back(event["id"]);
  }
  EXPECT_EQ(ids, expected.ids);
}

TEST(Run, QuietPrintsTheAnswerOnly) {
  const Ended ended = run({"run", kDemo, "Hello", "-n", "5", "-q", "--seed", "1"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_FALSE(ended.out.empty());
}

TEST(Run, TakesThePromptFromArgumentStandardInputOrFile) {
  const TempFolder folder;
  std::ofstream(folder / "prompt.txt") << "The king looked\n";
  const Ended argument = run(greedy({"--raw", "-q", "-n", "8", "The king looked"}));
  const Ended piped = run(greedy({"--raw", "-q", "-n", "8"}), "The king looked\n");
  const Ended file = run(greedy({"--raw", "-q", "-n", "8", "-f", folder / "prompt.txt"}));
  EXPECT_EQ(argument.code, 0);
  EXPECT_FALSE(argument.out.empty());
  EXPECT_EQ(piped.out, argument.out);
  EXPECT_EQ(file.out, argument.out);
}

// Words that could be taken for commands or options are prompts too.
TEST(Run, AnyTextCanBeAPrompt) {
  for (const char* prompt : {"run", "bench", "a=b", "[x, y]", "{}", "100 %", "-1"}) {
    const Ended ended = run({"run", kDemo, "-n", "1", "-q", "--", prompt});
    EXPECT_EQ(ended.code, 0) << prompt << ": " << ended.err;
    if (prompt[0] == '-') continue;
    EXPECT_EQ(run({"run", kDemo, prompt, "-n", "1", "-q"}).code, 0) << prompt;
  }
}

TEST(Run, TheSeedDecides) {
  const auto with_seed = [](const std::string& seed) {
    return run({"run", kDemo, "--raw", "Once upon a time", "-n", "30", "-q", "--seed", seed}).out;
  };
  EXPECT_EQ(with_seed("7"), with_seed("7"));
  EXPECT_NE(with_seed("7"), with_seed("8"));
  // Without one, each run draws its own and says which.
  const Ended drawn = run({"run", kDemo, "--raw", "Once upon a time", "-n", "30"});
  const std::size_t at = drawn.err.find("seed ");
  ASSERT_NE(at, std::string::npos) << drawn.err;
  const std::string seed =
      drawn.err.substr(at + 5, drawn.err.find_first_not_of("0123456789", at + 5) - at - 5);
  EXPECT_EQ(with_seed(seed), drawn.out);
}

TEST(Run, SamplingFlagsAreObeyed) {
  const auto first_id = [](const Arguments& more) {
    Arguments arguments = greedy({"--raw", golden(0).prompt, "-n", "1", "-q", "--json"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.events().at(2)["id"].get<std::int32_t>();
  };
  const std::int32_t best = golden(0).ids[0];
  EXPECT_EQ(first_id({}), best);
  const std::int32_t banned = first_id({"--logit-bias", std::to_string(best) + "=-inf"});
  EXPECT_NE(banned, best);
  EXPECT_EQ(first_id({"--logit-bias", "100=99"}), 100);
  EXPECT_EQ(first_id({"--logit-bias", "100=98", "--logit-bias", "101=99"}), 101);

  const Ended load = run({"run",
                          kDemo,
                          "x",
                          "-n",
                          "0",
                          "--json",
                          "--temp",
                          "0.5",
                          "--top-k",
                          "3",
                          "--top-p",
                          "0.75",
                          "--min-p",
                          "0.25",
                          "--repeat-penalty",
                          "1.5",
                          "--presence-penalty",
                          "2",
                          "--frequency-penalty",
                          "-2",
                          "--penalty-last-n",
                          "9",
                          "--seed",
                          "12345678901234567890"});
  const nlohmann::json sampling = load.events().at(0)["sampling"];
  EXPECT_EQ(sampling["temperature"], 0.5);
  EXPECT_EQ(sampling["top_k"], 3);
  EXPECT_EQ(sampling["top_p"], 0.75);
  EXPECT_EQ(sampling["min_p"], 0.25);
  EXPECT_EQ(sampling["repeat_penalty"], 1.5);
  EXPECT_EQ(sampling["presence_penalty"], 2);
  EXPECT_EQ(sampling["frequency_penalty"], -2);
  EXPECT_EQ(sampling["penalty_last_n"], 9);
  EXPECT_EQ(sampling["seed"], 12345678901234567890U);
}

TEST(Run, EngineFlagsAreObeyed) {
  const Ended ended = run({"run", kDemo, "x", "-n", "1", "--json", "-t", "1", "--isa", "generic",
                           "-c", "64", "--kv", "f32", "--window", "3", "--no-pin"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const nlohmann::json load = ended.events().at(0);
  EXPECT_EQ(load["event"], "load");
  EXPECT_EQ(load["threads"], 1);
  EXPECT_EQ(load["isa"], "generic");
  EXPECT_EQ(load["context"], 64);
  const Ended half = run({"run", kDemo, "x", "-n", "0", "--json"});
  EXPECT_EQ(load["bytes"]["kv_per_position"].get<int>(),
            2 * half.events().at(0)["bytes"]["kv_per_position"].get<int>());
}

TEST(Run, StopStringsEndAnAnswer) {
  const Golden text = golden(0);
  const std::string stop = text.continuation.substr(20, 7);
  const Ended ended = run(
      greedy({"--raw", text.prompt, "-n", "40", "-q", "--stop", "never there", "--stop", stop}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, text.continuation.substr(0, text.continuation.find(stop)) + "\n");
  const Ended json =
      run(greedy({"--raw", text.prompt, "-n", "40", "-q", "--json", "--stop", stop}));
  EXPECT_EQ(json.last_event()["reason"], "stop");
  const Ended brackets = run(greedy({"--raw", text.prompt, "-n", "4", "-q", "--stop", "[END]"}));
  EXPECT_EQ(brackets.code, 0) << "a stop string in brackets is one string: " << brackets.err;
}

TEST(Run, JsonEventsTellTheWholeStory) {
  const Ended ended = run(greedy({"--raw", golden(1).prompt, "-n", "12", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const std::vector<nlohmann::json> events = ended.events();
  ASSERT_EQ(events.size(), 2U + 12U + 1U);
  EXPECT_EQ(events[0]["event"], "load");
  for (const char* key : {"model", "device", "isa", "isas", "threads", "context", "bytes",
                          "seconds", "sampling", "version", "commit"}) {
    EXPECT_TRUE(events[0].contains(key)) << key;
  }
  EXPECT_EQ(events[1]["event"], "prompt");
  EXPECT_GT(events[1]["tokens"], 5);
  std::string text;
  for (std::size_t i = 2; i < 14; ++i) {
    EXPECT_EQ(events[i]["event"], "token");
    EXPECT_EQ(events[i]["id"], golden(1).ids[i - 2]);
    text += events[i]["text"].get<std::string>();
  }
  EXPECT_EQ(golden(1).continuation.substr(0, text.size()), text);
  const nlohmann::json& end = events.back();
  EXPECT_EQ(end["event"], "end");
  EXPECT_EQ(end["reason"], "length");
  EXPECT_EQ(end["generated"], 12);
  EXPECT_EQ(end["answer"]["tokens"], 11) << "the last token is not computed further";
  EXPECT_GT(end["answer"]["tokens_per_second"], 0);
  EXPECT_GT(end["answer"]["parts"]["experts"]["bytes"], 0);
  EXPECT_GT(end["share_of_peak"], 0);
}

TEST(Run, EndsAtTheModelsEndToken) {
  // A bias makes the end token the best at once.
  const auto end_id = nlohmann::json::parse(
      run({"tokenize", kDemo, "--special", "--json-lines", "--no-bos"}, "\"<|im_end|>\"\n").out)[0];
  const std::string bias = std::to_string(end_id.get<int>()) + "=99";
  const Ended ended = run({"run", kDemo, "Hi", "-q", "--json", "--greedy", "--logit-bias", bias});
  EXPECT_EQ(ended.last_event()["reason"], "eos");
  EXPECT_EQ(ended.last_event()["generated"], 0);
  const Ended ignored = run({"run", kDemo, "Hi", "-q", "--json", "--greedy", "--logit-bias", bias,
                             "--ignore-eos", "-n", "3"});
  EXPECT_EQ(ignored.last_event()["reason"], "length");
  EXPECT_EQ(ignored.last_event()["generated"], 3);
}

TEST(Run, AFullContextEndsTheAnswerWithANote) {
  const Ended ended = run(greedy({"--raw", golden(0).prompt, "-c", "20"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.err.find("context of 20 tokens is full"), std::string::npos) << ended.err;
  const Ended json = run(greedy({"--raw", golden(0).prompt, "-c", "20", "--json", "-q"}));
  EXPECT_EQ(json.last_event()["reason"], "context");
  // 9 of the prompt, 11 computed, and the one that follows the last of them.
  EXPECT_EQ(json.last_event()["generated"], 12);
}

// The tiny model's vocabulary is bytes, so what it says is mostly broken UTF-8: what is printed
// must be valid all the same, and JSON at every step.
TEST(Run, NeverPrintsHalfACharacter) {
  const TempFolder folder;
  testing::TinyModel({}).write(folder / "tiny.gguf");
  const Ended ended = run({"run", folder / "tiny.gguf", "--raw", "\xC3\xA4", "-n", "90", "--json",
                           "-q", "--temp", "1", "--top-k", "0", "--seed", "3"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::size_t with_text = 0;
  for (const nlohmann::json& event : ended.events()) {  // parsing checks the UTF-8
    with_text += event["event"] == "token" && event["text"] != "";
  }
  EXPECT_GT(with_text, 10U);
}

TEST(Run, StreamsTokenByToken) {
  Program program(
      greedy({"--raw", golden(0).prompt, "-n", "300", "--json", "--isa", "generic", "-t", "1"}));
  std::set<std::string> seen;
  for (int i = 0; i < 5; ++i) {
    seen.insert(nlohmann::json::parse(program.read_line())["event"].get<std::string>());
  }
  // Three tokens are here while almost 300 are still to come.
  EXPECT_EQ(seen, (std::set<std::string>{"load", "prompt", "token"}));
  program.signal(SIGINT);
  const Ended ended = program.finish();
  EXPECT_EQ(ended.code, 130);
  EXPECT_EQ(ended.last_event()["reason"], "interrupt");
}

TEST(Run, CtrlCEndsTheReadingOfAPrompt) {
  std::string prompt;
  for (int i = 0; i < 180; ++i) prompt += "The king looked at the sea. ";
  Program program({"run", kDemo, prompt, "--json", "--isa", "generic", "-t", "1", "--window", "8",
                   "--activations", "f32"});
  EXPECT_EQ(nlohmann::json::parse(program.read_line())["event"], "load");
  program.signal(SIGINT);
  const Ended ended = program.finish();
  EXPECT_EQ(ended.code, 130);
  const nlohmann::json end = ended.last_event();
  EXPECT_EQ(end["reason"], "interrupt");
  EXPECT_EQ(end["generated"], 0);
}

TEST(Run, AClosedOutputEndsItCleanly) {
  Program program(greedy({"--raw", golden(0).prompt, "-n", "2000", "--json"}));
  EXPECT_FALSE(program.read_line().empty());
  program.close_output();
  const Ended ended = program.finish();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(Run, AFullDiskIsAnError) {
  const std::string command =
      std::string(STRATA_PROGRAM) + " run '" + kDemo + "' Hi -n 3 -q > /dev/full 2> /dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 5);
}

}  // namespace
}  // namespace strata::app::test
