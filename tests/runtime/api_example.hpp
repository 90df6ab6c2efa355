#include "strata/runtime/engine.hpp"
#include "strata/text/detokenizer.hpp"

#include <iostream>

// Continues a text with at most `most` tokens. Returns how many tokens a second were computed.
inline double tell_story(const char* model, const char* beginning, int most, std::ostream& out) {
  strata::EngineOptions options;
  options.model = model;
  const auto engine = strata::Engine::load(options);
  const auto session = engine->new_session();
  const strata::text::Tokenizer& tokenizer = engine->tokenizer();

  strata::runtime::SamplingParams params;
  params.temperature = 0.7F;
  params.top_p = 0.95F;
  params.seed = 1;
  strata::runtime::Sampler sampler(params, static_cast<std::size_t>(engine->hparams().vocab));
  strata::text::Detokenizer text(tokenizer);

  session->feed(tokenizer.encode(beginning));
  for (int i = 0; i < most; ++i) {
    const std::int32_t token = session->sample(sampler);
    if (tokenizer.is_end(token)) break;
    out << text.feed(token) << std::flush;
    sampler.accept(token);
    session->feed({&token, 1});
  }
  const strata::Stats& stats = engine->stats();
  return static_cast<double>(stats.tokens) / stats.seconds;
}
