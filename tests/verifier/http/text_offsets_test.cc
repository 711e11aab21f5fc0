#include "verifier/http/text_offsets.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/utf8.h"
#include "verifier/engine/output.h"
#include "verifier/http/api_answer.h"
#include "verifier/http/json_text.h"

namespace outrider {
namespace {

// `bytes` as byte-level BPE writes them in a vocabulary (GPT-2's alphabet).
std::string InByteAlphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    char32_t next = 256, code = 0;
    for (int byte = 0; byte <= static_cast<uint8_t>(c); ++byte) {
      const bool visible =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      code = visible ? static_cast<char32_t>(byte) : next++;
    }
    AppendUtf8(code, out);
  }
  return out;
}

// A tokenizer with a token for every substring of a text's bytes, and the special token "<s>".
class PartsTokenizer {
 public:
  explicit PartsTokenizer(const std::string& text) {
    Json vocab = Json::object();
    for (size_t begin = 0; begin < text.size(); ++begin) {
      for (size_t size = 1; begin + size <= text.size(); ++size) {
        const std::string part = text.substr(begin, size);
        const auto [it, is_new] = ids_.emplace(part, static_cast<TokenId>(ids_.size()));
        if (is_new) vocab[InByteAlphabet(part)] = it->second;
      }
    }
    special_ = static_cast<TokenId>(ids_.size());
    const Json json = {
        {"added_tokens", {{{"id", special_}, {"content", "<s>"}, {"special", true}}}},
        {"pre_tokenizer",
         {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
    auto made = Tokenizer::FromJson(json.dump());
    if (!made.ok()) {
      ADD_FAILURE() << made.status().ToString();
      return;
    }
    tokenizer_ = std::move(made).value();
  }

  // The text split after each byte whose bit is set.
  std::vector<TokenId> Cut(const std::string& text, uint32_t cuts) const {
    std::vector<TokenId> tokens;
    size_t begin = 0;
    for (size_t pos = 0; pos < text.size(); ++pos) {
      if (pos + 1 < text.size() && (cuts >> pos & 1) == 0) continue;
      tokens.push_back(ids_.at(text.substr(begin, pos + 1 - begin)));
      begin = pos + 1;
    }
    return tokens;
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  TokenId special() const { return special_; }

 private:
  std::map<std::string, TokenId> ids_;
  TokenId special_ = 0;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// For each byte, the index of its character, from one pass over the whole text.
std::vector<int64_t> CharacterOfBytes(std::string_view text) {
  std::vector<int64_t> characters;
  for (int64_t character = 0; !text.empty(); ++character) {
    const size_t size = ScanUtf8(text).size;
    characters.insert(characters.end(), size, character);
    text.remove_prefix(size);
  }
  return characters;
}

// Characters of one to four bytes; invalid bytes at every position.
const char* const kTexts[] = {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z",
                              ("\xe2\x82"
                               "a\xff\xc3\xa9\xf0\x9f\x98"),
                              "\x80\xe2\xc3\xa9\xe2\x82\xac\xf0"};

TEST(TextOffsets, CountCharactersAcrossCutBytes) {
  for (const std::string text : kTexts) {
    const PartsTokenizer parts(text);
    const std::vector<int64_t> expected = CharacterOfBytes(text);
    for (uint32_t cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      TextOffsets offsets(parts.tokenizer(), /*starts_text=*/false, 5);
      size_t byte = 0;
      for (const TokenId token : parts.Cut(text, cuts)) {
        ASSERT_EQ(offsets.Push(token, true), 5 + expected[byte]) << cuts << " at " << byte;
        byte += parts.tokenizer().TokenBytes(token).size();
        ASSERT_EQ(offsets.begun(), 6 + expected[byte - 1]);
      }
    }
  }
}

// Offsets of an answer refer to the text that it returns, with or without special tokens in it,
// after a prompt or not.
TEST(TextOffsets, AnswerOffsetsIndexItsText) {
  const std::string text = kTexts[0];
  const PartsTokenizer parts(text);
  const Tokenizer& tokenizer = parts.tokenizer();
  ApiModel model;
  model.tokenizer = &tokenizer;
  for (const bool skip : {true, false}) {
    for (uint32_t cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
      std::vector<TokenId> tokens = parts.Cut(text, cuts);
      tokens.insert(tokens.begin(), parts.special());
      tokens.push_back(parts.special());
      ApiRequest request{.logprobs = 0};
      GenerationRequest& prompt = request.prompts.emplace_back();
      prompt.prompt = tokens;
      prompt.skip_special = skip;
      prompt.prompt_logprobs = 0;
      request.echoes = {{.text = tokenizer.Decode(tokens, skip), .skip_special = skip}};

      OutputStream output(tokenizer, {.max_tokens = 100, .skip_special = skip});
      Chunk chunk{.tokens = tokens};
      chunk.logprobs.resize(tokens.size());
      chunk.prompt_logprobs.resize(tokens.size() - 1);
      for (const TokenId token : tokens) ASSERT_EQ(output.Push(token, &chunk.text), std::nullopt);
      ApiAnswer answer(request, model, 1, 1);
      answer.Add(0, std::move(chunk));
      answer.Finish(0, {});
      const Json choice = Json::parse(answer.Body().All())["choices"][0];

      const std::string returned = choice["text"];
      const std::string once = skip ? text : "<s>" + text + "<s>";
      ASSERT_EQ(returned, once + once);
      const std::vector<int64_t> characters = CharacterOfBytes(returned);
      const int64_t end = characters.back() + 1;
      size_t byte = 0;
      for (size_t i = 0; i < 2 * tokens.size(); ++i) {
        ASSERT_EQ(choice["logprobs"]["text_offset"][i],
                  byte < characters.size() ? characters[byte] : end)
            << cuts << " token " << i;
        const TokenId token = tokens[i % tokens.size()];
        if (!skip || !tokenizer.IsSpecial(token)) byte += tokenizer.TokenBytes(token).size();
      }
    }
  }
}

}  // namespace
}  // namespace outrider
