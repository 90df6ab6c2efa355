// Many requests at once: what each gets, in which order, and how it ends.
#include "strata/serve/scheduler.hpp"

#include "tests/serve/served_model.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

namespace strata::serve::test {
namespace {

using strata::testing::fails_with;

// The answer of the engine alone, without a scheduler.
Ids alone(Engine& engine, const GenerationRequest& r) {
  const std::unique_ptr<Session> session = engine.new_session();
  runtime::Sampler sampler(r.sampling, kVocab);
  session->feed(r.prompt);
  Ids ids;
  while (std::ssize(ids) < r.max_tokens) {
    const std::int32_t id =
        sampler.sample(session->logits().first(kVocab), session->tokens().size());
    sampler.accept(id);
    ids.push_back(id);
    session->feed({&id, 1});
  }
  return ids;
}

TEST(Scheduler, AnswersAsTheEngineAloneDoes) {
  ServedModel model({.slots = 2}, false);
  const GenerationRequest greedy = request(random_ids(30, 1), 20);
  const GenerationRequest drawn = request(random_ids(61, 2), 20, 1.3F, 42);
  const Ids expected_greedy = alone(model.engine(), greedy);
  const Ids expected_drawn = alone(model.engine(), drawn);
  model.start();
  EXPECT_EQ(read_all(*model.scheduler().submit(greedy)).ids, expected_greedy);
  EXPECT_EQ(read_all(*model.scheduler().submit(drawn)).ids, expected_drawn);
}

// Prompts of all lengths, greedy and drawn, more of them than slots, pieces of prompts between the
// tokens of others: the same tokens and texts as alone.
TEST(Scheduler, AnswersAreTheSameBesideOthers) {
  std::vector<GenerationRequest> requests;
  for (unsigned i = 0; i < 24; ++i) {
    requests.push_back(
        request(random_ids(1 + i * 7 % 80, 100 + i), 5 + i % 13, i % 3 == 0 ? 0.0F : 1.0F, i));
  }
  std::vector<Full> expected;
  {
    ServedModel model({.slots = 1});
    for (const GenerationRequest& r : requests) {
      expected.push_back(read_all(*model.scheduler().submit(r)));
    }
  }
  for (const std::size_t chunk : {1, 5, 128}) {
    ServedModel model({.slots = 6, .queue = 64, .chunk = chunk}, false);
    std::vector<std::shared_ptr<Answer>> answers;
    for (const GenerationRequest& r : requests) answers.push_back(model.scheduler().submit(r));
    model.start();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Full got = read_all(*answers[i]);
      EXPECT_EQ(got.ids, expected[i].ids) << "request " << i << ", chunk " << chunk;
      EXPECT_EQ(got.text, expected[i].text);
      EXPECT_EQ(got.outcome.finish, Finish::kLength);
    }
    const Snapshot snapshot = model.scheduler().snapshot();
    EXPECT_GT(snapshot.counters.window_slots, 2 * snapshot.counters.windows) << "side by side";
  }
}

TEST(Scheduler, LogprobsAreOfTheModelsOwnDistribution) {
  ServedModel model({.slots = 2});
  GenerationRequest r = request(random_ids(10, 3), 6, 0.7F, 5);
  r.top_logprobs = 3;
  const Full full = read_all(*model.scheduler().submit(r));
  ASSERT_EQ(full.tokens.size(), 6u);
  for (const TokenInfo& token : full.tokens) {
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
    EXPECT_LE(token.logprob, token.top[0].logprob);
    EXPECT_LT(token.logprob, 0);
  }
}

TEST(Scheduler, AnswersEndForEachReason) {
  ServedModel model({.slots = 2});
  Scheduler& scheduler = model.scheduler();
  const Full length = read_all(*scheduler.submit(request(random_ids(10, 4), 7)));
  EXPECT_EQ(length.outcome.finish, Finish::kLength);
  EXPECT_EQ(length.outcome.generated, 7u);
  EXPECT_EQ(length.outcome.prompt_tokens, 10u);
  EXPECT_EQ(read_all(*scheduler.submit(request(random_ids(10, 4), 0))).outcome.generated, 0u);

  const Full context = read_all(*scheduler.submit(request(random_ids(90, 5), -1)));
  EXPECT_EQ(context.outcome.finish, Finish::kContext);
  EXPECT_EQ(context.ids.size(), kContext - 90u + 1u) << "the last token needs no room";

  GenerationRequest stopped = request(random_ids(10, 4), 7);
  stopped.stops = {"\x01\x02never", length.text.substr(length.text.size() / 2)};
  const Full stop = read_all(*scheduler.submit(stopped));
  EXPECT_EQ(stop.outcome.finish, Finish::kStop);
  EXPECT_EQ(stop.outcome.stop, 1u);
  EXPECT_EQ(stop.text + stopped.stops[1], length.text);

  GenerationRequest banned = request(random_ids(10, 4), 7);
  for (std::int32_t id = 0; id < kVocab; ++id) {
    banned.sampling.logit_bias[id] = -std::numeric_limits<float>::infinity();
  }
  const Full error = read_all(*scheduler.submit(banned));
  EXPECT_EQ(error.outcome.finish, Finish::kError);
  EXPECT_NE(error.outcome.error.find("bias"), std::string::npos) << error.outcome.error;
  ASSERT_TRUE(scheduler.wait_until_idle(soon()));
  const Snapshot snapshot = scheduler.snapshot();
  EXPECT_EQ(snapshot.counters.ended[static_cast<std::size_t>(Finish::kError)], 1u);
}

TEST(Scheduler, RequestsThatCannotBeObeyedAreRefusedAtOnce) {
  ServedModel model({.slots = 1});
  Scheduler& scheduler = model.scheduler();
  const auto refused = [&](GenerationRequest r, std::initializer_list<std::string_view> parts) {
    return fails_with(ErrorKind::kUsage, parts, [&] { (void)scheduler.submit(std::move(r)); });
  };
  EXPECT_TRUE(refused(request({}, 5), {"no tokens"}));
  EXPECT_TRUE(refused(request(random_ids(101, 1), 5), {"101", "100"}));
  EXPECT_TRUE(refused(request({3, -1}, 5), {"-1"}));
  EXPECT_TRUE(refused(request({kVocab}, 5), {"256"}));
  EXPECT_TRUE(refused(request({1}, -2), {"-2"}));
  EXPECT_TRUE(refused(request({1}, 5, -1.0F), {"temperature"}));
  GenerationRequest stop = request({1}, 5);
  stop.stops = {""};
  EXPECT_TRUE(refused(stop, {"stop"}));
}

TEST(Scheduler, ACancelledRequestFreesItsSlotBeforeTheNextToken) {
  ServedModel model({.slots = 1});
  const auto endless = model.scheduler().submit(request(random_ids(5, 6), -1));
  const auto next = model.scheduler().submit(request(random_ids(5, 7), 3));
  Piece piece;
  ASSERT_EQ(endless->read(piece, soon()), Answer::Read::kNews);
  endless->cancel();
  const Full rest = read_all(*endless);
  EXPECT_EQ(read_all(*next).outcome.finish, Finish::kLength);
  // The tiny model is fast: the whole answer may have been there before we cancelled.
  if (rest.outcome.finish != Finish::kContext) {
    EXPECT_EQ(rest.outcome.finish, Finish::kCancelled);
    EXPECT_LT(rest.outcome.generated, kContext - 5u);
  }
}

TEST(Scheduler, CancelledBeforeItsTurnItNeverStarts) {
  ServedModel model({.slots = 1}, false);
  const auto first = model.scheduler().submit(request(random_ids(5, 6), 3));
  const auto dropped = model.scheduler().submit(request(random_ids(5, 7), 3));
  const auto last = model.scheduler().submit(request(random_ids(5, 8), 3));
  dropped->cancel();
  model.start();
  EXPECT_EQ(read_all(*first).ids.size(), 3u);
  EXPECT_EQ(read_all(*last).ids.size(), 3u);
  const Full none = read_all(*dropped);
  EXPECT_EQ(none.outcome.finish, Finish::kCancelled);
  EXPECT_EQ(none.outcome.generated, 0u);
}

TEST(Scheduler, MoreThanTheQueueHoldsIsRefused) {
  ServedModel model({.slots = 1, .queue = 4}, false);
  Scheduler& scheduler = model.scheduler();
  std::vector<std::shared_ptr<Answer>> answers;
  const auto ask = [&](const std::string& client, std::size_t count) {
    std::vector<GenerationRequest> requests(count, request(random_ids(5, 1), 2));
    for (GenerationRequest& r : requests) r.client = client;
    for (auto& answer : scheduler.submit(requests)) answers.push_back(answer);
  };
  const auto refused = [&](const std::string& client, std::size_t count) {
    try {
      ask(client, count);
    } catch (const Refused& error) {
      EXPECT_GE(error.retry_after(), 1);
      EXPECT_FALSE(error.shutting_down());
      return true;
    }
    return false;
  };
  ask("a", 1);
  EXPECT_TRUE(refused("a", 2)) << "more than half for one client; all or none";
  ask("a", 1);
  EXPECT_TRUE(refused("a", 1));
  ask("b", 2);
  EXPECT_TRUE(refused("c", 1)) << "full";
  EXPECT_EQ(scheduler.snapshot().waiting, 4u);
  EXPECT_EQ(scheduler.snapshot().counters.refused, 3u);
  model.start();
  for (const auto& answer : answers) EXPECT_EQ(read_all(*answer).ids.size(), 2u);
  ask("c", 2);
}

TEST(Scheduler, ASlotGoesOnWithTheConversationItHolds) {
  ServedModel model({.slots = 2});
  Scheduler& scheduler = model.scheduler();
  const Ids first = random_ids(40, 9);
  const Full answer = read_all(*scheduler.submit(request(first, 5)));
  EXPECT_EQ(answer.outcome.cached_tokens, 0u);
  (void)read_all(*scheduler.submit(request(random_ids(30, 10), 5)));
  Ids second = first;
  second.insert(second.end(), answer.ids.begin(), answer.ids.end());
  second.insert(second.end(), {1, 2, 3});
  const Full again = read_all(*scheduler.submit(request(second, 5)));
  EXPECT_EQ(again.outcome.cached_tokens, 44u) << "all but the last token, which was not computed";
  ServedModel fresh({.slots = 1}, false);
  EXPECT_EQ(again.ids, alone(fresh.engine(), request(second, 5)));
  const Full same = read_all(*scheduler.submit(request(second, 5)));
  EXPECT_EQ(same.outcome.cached_tokens, second.size() - 1);
  EXPECT_EQ(same.ids, again.ids);
}

TEST(Scheduler, RequestsThatBeginAlikeComputeTheirBeginningOnce) {
  ServedModel model({.slots = 4}, false);
  const Ids common = random_ids(60, 11);
  std::vector<std::shared_ptr<Answer>> answers;
  std::vector<GenerationRequest> requests;
  for (unsigned i = 0; i < 4; ++i) {
    Ids prompt = common;
    const Ids own = random_ids(5, 20 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(request(prompt, 8, 1.0F, i));
    answers.push_back(model.scheduler().submit(requests.back()));
  }
  model.start();
  std::size_t cached = 0;
  std::vector<Full> got;
  for (const auto& answer : answers) {
    got.push_back(read_all(*answer));
    cached += got.back().outcome.cached_tokens;
  }
  EXPECT_GE(cached, 3u * (60 - 16)) << "but for an end that is not worth waiting for";
  ServedModel fresh({.slots = 1}, false);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(got[i].ids, alone(fresh.engine(), requests[i]));
}

TEST(Scheduler, AShortPromptWaitsForAChunkOfALongOneOnly) {
  ServedModel model({.slots = 2, .chunk = 8}, false);
  const auto long_one = model.scheduler().submit(request(random_ids(90, 1), 1));
  const auto short_one = model.scheduler().submit(request(random_ids(3, 2), 1));
  model.start();
  (void)read_all(*long_one);
  (void)read_all(*short_one);
  ASSERT_TRUE(model.scheduler().wait_until_idle(soon()));
  // 3 + 5 tokens, then what is left of the 90 in windows of 24.
  EXPECT_EQ(model.scheduler().snapshot().counters.windows, 5u);
}

TEST(Scheduler, AScriptIsFollowed) {
  ServedModel model({.slots = 2});
  const text::Tokenizer& tokenizer = model.engine().tokenizer();
  const auto vocab = std::make_shared<const text::GrammarVocab>(tokenizer);
  GenerationRequest r = request(random_ids(10, 13), 40, 2.0F, 1);
  r.script.push_back({tokenizer.encode("so: "),
                      text::GrammarMatcher(text::compile_gbnf("root ::= [ab]{3}"), vocab),
                      {}});
  r.script.push_back({tokenizer.encode(" and "), std::nullopt, {}});
  const auto grammar = [&](const char* gbnf) {
    return text::GrammarMatcher(text::compile_gbnf(gbnf), vocab);
  };
  r.script.push_back({{}, grammar("root ::= \"x\" | \"yz\""), {}});
  r.script.push_back({tokenizer.encode("="),
                      {},
                      {{"x", grammar("root ::= [0-9]")}, {"yz", grammar("root ::= [A-C]{2}")}}});
  const Full full = read_all(*model.scheduler().submit(r));
  EXPECT_TRUE(std::regex_match(full.text, std::regex("so: [ab]{3} and (x=[0-9]|yz=[A-C]{2})")))
      << full.text;
  EXPECT_EQ(full.outcome.finish, Finish::kEnd);

  r.thinking = Thinking{.starts_open = true, .budget = 3, .closing = tokenizer.encode("</think>")};
  const Full thought = read_all(*model.scheduler().submit(r));
  EXPECT_EQ(thought.text.substr(thought.text.find("</think>"), 12), "</think>so: ");
  EXPECT_EQ(thought.outcome.finish, Finish::kEnd);
}

TEST(Scheduler, ThinkingIsClosedWhenItsBudgetIsUsedUp) {
  ServedModel model({.slots = 1});
  GenerationRequest r = request(random_ids(10, 12), 12, 1.0F, 1);
  r.thinking = Thinking{.open = "<a>",
                        .close = "bc",
                        .starts_open = true,
                        .budget = 4,
                        .closing = model.engine().tokenizer().encode("abc")};
  const Full full = read_all(*model.scheduler().submit(r));
  const Ids closing = r.thinking->closing;
  ASSERT_EQ(full.ids.size(), 12u);
  EXPECT_TRUE(std::equal(closing.begin(), closing.end(), full.ids.begin() + 4));
}

TEST(Scheduler, DrainsAndStops) {
  ServedModel model({.slots = 1}, false);
  Scheduler& scheduler = model.scheduler();
  const auto running = scheduler.submit(request(random_ids(5, 1), 5));
  scheduler.drain();
  EXPECT_THROW((void)scheduler.submit(request(random_ids(5, 1), 5)), Refused);
  EXPECT_FALSE(scheduler.wait_until_idle(Clock::now() + std::chrono::milliseconds(20)));
  model.start();
  EXPECT_TRUE(scheduler.wait_until_idle(soon()));
  EXPECT_EQ(read_all(*running).outcome.finish, Finish::kLength) << "what was taken is finished";
  EXPECT_TRUE(scheduler.snapshot().draining);
}

TEST(Scheduler, StoppingEndsWhatIsLeft) {
  std::shared_ptr<Answer> answer;
  {
    ServedModel model({.slots = 1}, false);
    answer = model.scheduler().submit(request(random_ids(5, 1), -1));
  }
  EXPECT_EQ(read_all(*answer).outcome.finish, Finish::kShutdown);
}

TEST(Scheduler, RefusesOptionsThatCannotBeObeyed) {
  for (const SchedulerOptions& options :
       {SchedulerOptions{.slots = 0}, SchedulerOptions{.slots = kWindow},
        SchedulerOptions{.slots = 1, .queue = 0}, SchedulerOptions{.slots = 1, .chunk = 0}}) {
    EXPECT_TRUE(fails_with(ErrorKind::kUsage, {}, [&] { ServedModel model(options); }));
  }
}

TEST(Scheduler, TakesRequestsFromManyThreads) {
  ServedModel model({.slots = 5, .queue = 1000, .chunk = 7});
  constexpr unsigned kThreads = 6, kEach = 12;
  std::vector<std::thread> threads;
  std::vector<std::vector<Ids>> got(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < kEach; ++i) {
        const auto answer =
            model.scheduler().submit(request(random_ids(1 + (t + i) * 5 % 60, i), 6, 1.0F, i));
        if ((t + i) % 5 == 4) answer->cancel();
        got[t].push_back(read_all(*answer).ids);
        (void)model.scheduler().snapshot();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(model.scheduler().wait_until_idle(soon()));
  const Counters counters = model.scheduler().snapshot().counters;
  std::uint64_t ended = 0;
  for (const std::uint64_t count : counters.ended) ended += count;
  EXPECT_EQ(ended, kThreads * kEach);
  for (unsigned t = 0; t < kThreads; ++t) {
    for (unsigned i = 0; i < kEach; ++i) {
      if ((t + i) % 5 != 4) {
        EXPECT_EQ(got[t][i].size(), 6u);
      }
    }
  }
}

}  // namespace
}  // namespace strata::serve::test
