// A slot's tokens with their keys and values in a file, so that a long conversation need not be
// read again after a restart.
//
// Little-endian: "STRASLOT", u32 version, u32 bytes of a cell, u64 fingerprint of the model, u64
// tokens, then the tokens as i32 and what runtime::read_prefix gives.
#pragma once

#include "src/serve/slots.hpp"
#include "strata/runtime/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace strata::serve {

// Of a model's file and of how it is computed: keys and values of another are worth nothing. Reads
// some of the file only. Error as gguf::File::open.
[[nodiscard]] std::uint64_t model_fingerprint(const std::filesystem::path& model,
                                              const Engine& engine);

// Both on the engine's thread, for an idle slot; they return the bytes of the file. Error as
// write_atomically and read_text_file; Error(kInput) for a file that is broken, of another model or
// larger than the context.
std::size_t save_slot(const Slot& slot, Engine& engine, std::uint64_t fingerprint,
                      const std::filesystem::path& path);
std::size_t restore_slot(Slot& slot, Engine& engine, std::uint64_t fingerprint,
                         const std::filesystem::path& path);

}  // namespace strata::serve
