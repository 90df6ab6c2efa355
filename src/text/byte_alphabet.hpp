// GPT-2's byte alphabet: vocabularies of byte-level BPE write each byte as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace strata::text {

// The bytes that `text` stands for; nullopt when a character is not of the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace strata::text
