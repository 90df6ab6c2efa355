// What the commands about routing traces read: the traces, and of a model only its experts.
#pragma once

#include "strata/core/profile.hpp"
#include "strata/core/trace.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace strata::app {

struct ModelExperts {
  core::ExpertGeometry geometry;
  std::vector<std::int64_t> bytes;  // [layers] of one expert
};

// From a GGUF file's header. Error(kInput) as model::read_hparams and model::bind_tensors.
[[nodiscard]] ModelExperts read_experts(const std::filesystem::path& path);

// Puts `next` after what there is.
void append(core::Trace& trace, const core::Trace& next);

// The traces one after the other, as one text. Error as core::Trace::load.
[[nodiscard]] core::Trace read_traces(const std::vector<std::string>& paths);

// "0,3-5,7" as [count] flags. Error(kUsage) for anything else and for numbers from `count` up.
[[nodiscard]] std::vector<bool> parse_layers(const std::string& text, std::int32_t count);

}  // namespace strata::app
