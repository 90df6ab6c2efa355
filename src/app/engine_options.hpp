// The options of every command that loads a model.
#pragma once

#include "src/app/cache_flags.hpp"
#include "src/app/console.hpp"
#include "strata/runtime/engine.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace strata::app {

// An option whose value is one of a few words: they stand in the help, another is an error.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        std::initializer_list<std::string> choices, const std::string& help);

// "f16", "f32", "q8_0".
[[nodiscard]] device::KvType parse_kv_type(const std::string& name);

class EngineFlags {
 public:
  enum class Context { kOption, kNone };  // has the command -c?

  void add_model(CLI::App& app);
  void add(CLI::App& app, Context context);

  [[nodiscard]] EngineOptions options() const;
  [[nodiscard]] const std::string& activations() const noexcept { return activations_; }

 private:
  std::string model_;
  int context_ = 0;
  int threads_ = 0;
  int window_ = 0;
  std::string isa_, kv_;
  std::string device_ = "auto";
  int gpu_ = 0;
  std::string activations_ = "int8";
  bool no_pin_ = false;
  std::string expert_folder_, dump_routing_, replay_routing_, audit_;
  CacheFlags cache_;
};

// With a status line where a terminal is attached and `quiet` does not forbid it.
[[nodiscard]] std::unique_ptr<Engine> load_engine(const Console& console,
                                                  const EngineOptions& options, bool quiet);

}  // namespace strata::app
