// GPT-2's byte alphabet: each byte as one printable character, so that byte sequences are strings.
// Printable Latin-1 characters map to themselves; the other 68 bytes map, in order, to U+0100 and
// up (a space is U+0120). Source: Radford et al. 2019, the released encoder.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// The character of `byte`, in UTF-8.
std::string ByteToCharacter(uint8_t byte);

std::string BytesToCharacters(std::string_view bytes);

// nullopt: a character is not in the alphabet.
std::optional<std::string> CharactersToBytes(std::string_view characters);

// SentencePiece's name for a byte: "<0x0A>".
std::string ByteTokenName(uint8_t byte);
// nullopt: `token` is not such a name.
std::optional<uint8_t> ParseByteTokenName(std::string_view token);

}  // namespace outrider
