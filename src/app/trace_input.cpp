#include "src/app/trace_input.hpp"

#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"
#include "strata/model/tensors.hpp"

#include <charconv>
#include <string_view>
#include <utility>

namespace strata::app {

ModelExperts read_experts(const std::filesystem::path& path) {
  const gguf::File file = gguf::File::open(path);
  model::HParams h = model::read_hparams(file);
  const model::ModelTensors tensors = model::bind_tensors(file, h);
  ModelExperts experts{{h.layers, h.experts}, {}};
  for (const model::LayerTensors& layer : tensors.layers) {
    std::size_t bytes = layer.gate->data.size() + layer.down->data.size();
    if (!layer.fused()) bytes += layer.up->data.size();
    experts.bytes.push_back(static_cast<std::int64_t>(bytes) / h.experts);
  }
  return experts;
}

void append(core::Trace& trace, const core::Trace& next) {
  const std::int64_t before = trace.tokens();
  for (std::size_t i = 0; i < next.size(); ++i) {
    core::RoutingEvent event = next[i];
    event.token += before;
    trace.add(event);
  }
}

core::Trace read_traces(const std::vector<std::string>& paths) {
  core::Trace all = core::Trace::load(paths.front());
  for (std::size_t i = 1; i < paths.size(); ++i) append(all, core::Trace::load(paths[i]));
  return all;
}

std::vector<bool> parse_layers(const std::string& text, std::int32_t count) {
  std::vector<bool> chosen(static_cast<std::size_t>(count));
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    std::int32_t value = -1;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || value >= count) {
      fail(ErrorKind::kUsage,
           "--layers {}: give numbers below {} and ranges of them, such as 0,3-5", text, count);
    }
    at = next;
    return value;
  };
  for (;;) {
    const std::int32_t first = number();
    std::int32_t last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first || (at != end && *at != ',')) {
      fail(ErrorKind::kUsage, "--layers {}: give numbers and rising ranges, such as 0,3-5", text);
    }
    for (std::int32_t layer = first; layer <= last; ++layer) {
      chosen[static_cast<std::size_t>(layer)] = true;
    }
    if (at == end) return chosen;
    ++at;
  }
}

}  // namespace strata::app
