#include "common/text/byte_alphabet.h"

#include <array>
#include <charconv>

#include "common/text/utf8.h"

namespace outrider {
namespace {

constexpr int kCharacters = 256 + 68;

struct Alphabet {
  std::array<char32_t, 256> character_of{};
  std::array<int, kCharacters> byte_of{};  // -1: not in the alphabet
};

bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = IsPrintable(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = byte;
  }
  return alphabet;
}

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = MakeAlphabet();
  return alphabet;
}

}  // namespace

std::string ByteToCharacter(uint8_t byte) {
  std::string out;
  AppendUtf8(TheAlphabet().character_of[byte], out);
  return out;
}

std::string BytesToCharacters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    AppendUtf8(TheAlphabet().character_of[static_cast<uint8_t>(byte)], out);
  }
  return out;
}

std::optional<std::string> CharactersToBytes(std::string_view characters) {
  std::string out;
  while (!characters.empty()) {
    const Utf8Character character = FirstCharacter(characters);
    if (character.code >= kCharacters) return std::nullopt;
    const int byte = TheAlphabet().byte_of[character.code];
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
    characters.remove_prefix(character.size);
  }
  return out;
}

std::string ByteTokenName(uint8_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

std::optional<uint8_t> ParseByteTokenName(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5 || value < 0) return std::nullopt;
  return static_cast<uint8_t>(value);
}

}  // namespace outrider
