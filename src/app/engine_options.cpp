#include "src/app/engine_options.hpp"

#include "src/app/status_line.hpp"
#include "src/app/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace strata::app {

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        std::initializer_list<std::string> choices, const std::string& help) {
  const std::vector<std::string> words(choices);
  CLI::Validator member = CLI::IsMember(words);
  member.description("");  // the words already stand where the type's name would
  return app.add_option(names, value, help)
      ->type_name(fmt::format("{}", fmt::join(words, "|")))
      ->check(member);
}

device::KvType parse_kv_type(const std::string& name) {
  if (name == "q8_0") return device::KvType::kQ8_0;
  return name == "f32" ? device::KvType::kF32 : device::KvType::kF16;
}

void EngineFlags::add_model(CLI::App& app) {
  app.add_option("MODEL", model_, "GGUF file, or the first shard of a split one")
      ->required()
      ->type_name("");
}

void EngineFlags::add(CLI::App& app, Context context) {
  const std::string group = "Engine";
  if (context == Context::kOption) {
    app.add_option(
           "-c,--context", context_,
           fmt::format("positions of the context; 0: the model's own, at most {}", kDefaultContext))
        ->type_name("N")
        ->capture_default_str()
        ->group(group);
  }
  app.add_option("-t,--threads", threads_, "threads; 0: one for each fast core")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  add_choice(app, "--device", device_, {"auto", "cpu", "cuda"},
             "where to compute; auto: on a GPU that can be used")
      ->capture_default_str()
      ->group(group);
  app.add_option("--gpu", gpu_, "which of several GPUs")
      ->type_name("N")
      ->check(CLI::Range(0, 1023).description(""))
      ->capture_default_str()
      ->group(group);
  add_choice(app, "--isa", isa_, {"generic", "avx2", "avxvnni", "avx512", "amx"},
             "instruction set; by default the fastest that runs here")
      ->group(group);
  add_choice(app, "--activations", activations_, {"int8", "f32"},
             "arithmetic: int8 is fast, f32 a slow reference")
      ->capture_default_str()
      ->group(group);
  add_choice(app, "--kv,--kv-type", kv_, {"f16", "f32", "q8_0"},
             "cells of the KV cache; by default f16, with --activations f32 f32")
      ->group(group);
  app.add_option("--window", window_,
                 "most tokens of a prompt computed at once; 0: 512 on a CPU, 2048 on a GPU")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--no-pin", no_pin_, "leave threads free to move between cores")->group(group);
  app.add_option("--experts-on-disk", expert_folder_,
                 "keep the experts in a file in this folder, not in RAM: for models larger than it")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--dump-routing", dump_routing_,
                 "write which experts every token uses, as a trace")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--replay-routing", replay_routing_,
                 "a trace chooses the experts, not the router: for speed and hit rates only")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--audit", audit_, "append what was loaded, asked and hit, as JSON lines")
      ->type_name("FILE")
      ->group(group);
  cache_.add(app);
}

EngineOptions EngineFlags::options() const {
  EngineOptions options;
  options.model = model_;
  options.context = context_;
  options.threads = threads_;
  options.window = window_;
  options.device = device_ == "cpu"    ? DeviceChoice::kCpu
                   : device_ == "cuda" ? DeviceChoice::kCuda
                                       : DeviceChoice::kAuto;
  options.gpu = gpu_;
  options.pin_threads = !no_pin_;
  options.isa = parse_isa(isa_);  // empty: none asked for
  if (activations_ == "f32") options.activations = device::Activations::kF32;
  options.cache = cache_.options();
  options.expert_folder = expert_folder_;
  options.dump_routing = dump_routing_;
  options.replay_routing = replay_routing_;
  options.audit = audit_;
  options.build = fmt::format("{} {}", version(), commit());
  if (!kv_.empty()) options.kv = parse_kv_type(kv_);
  return options;
}

std::unique_ptr<Engine> load_engine(const Console& console, const EngineOptions& options,
                                    bool quiet) {
  StatusLine status(console.error_is_terminal && !quiet);
  EngineOptions with_status = options;
  with_status.progress = [&](std::string_view stage, double fraction) {
    status.show(fmt::format("Loading: {}", stage), fraction);
  };
  return Engine::load(with_status);
}

}  // namespace strata::app
