// Tokenizers made for this test, of every supported kind of model, normalizer and pre-tokenizer.
// Expected ids and texts are those of the Hugging Face library (tokenizers 0.22; for UnicodeScripts
// 0.23) and, for files of the SentencePiece library, of that library (sentencepiece 0.2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/text/character_map.h"
#include "common/text/sentence_piece_model.h"
#include "tests/common/text/tiny_tokenizers.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

const nlohmann::json& Made() {
  static const auto json =
      nlohmann::json::parse(std::ifstream(OUTRIDER_SOURCE_DIR "/tests/common/text/data/made.json"));
  return json;
}

std::string ModelFile(const std::string& name) {
  for (const auto& made : Made()) {
    if (made["name"] == name) return FromBase64(made["model"].get<std::string>()).value();
  }
  return "";
}

class FolderWithPieces {
 public:
  explicit FolderWithPieces(const std::string& bytes) { Write("tokenizer.model", bytes); }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  Result<std::unique_ptr<Tokenizer>> Load() { return Tokenizer::Load(dir_.path()); }

 private:
  testing::TempDir dir_;
};

TEST(MadeTokenizers, EncodeAndDecodeLikeTheirLibraries) {
  ASSERT_GT(Made().size(), 10u);
  for (const auto& made : Made()) {
    SCOPED_TRACE(made["name"].get<std::string>());
    std::unique_ptr<Tokenizer> tokenizer;
    if (made.contains("model")) {
      FolderWithPieces folder(FromBase64(made["model"].get<std::string>()).value());
      folder.Write("config.json", R"({"bos_token_id": 1, "eos_token_id": 2})");
      tokenizer = std::move(folder.Load()).value();
      EXPECT_EQ(tokenizer->prompt_prefix(), std::vector<TokenId>{1});
    } else {
      tokenizer = MakeTokenizer(made["tokenizer"].dump());
      EXPECT_EQ(tokenizer->prompt_prefix(), made["prefix"].get<std::vector<TokenId>>());
      EXPECT_EQ(tokenizer->prompt_suffix(), made["suffix"].get<std::vector<TokenId>>());
    }
    for (const auto& vector : made["vectors"]) {
      const std::string text = vector["text"];
      const std::vector<TokenId> ids = vector["ids"];
      // The SentencePiece library does not recognise control pieces in a text.
      const bool parse_special = !made.contains("model");
      EXPECT_EQ(Encoded(*tokenizer, text, parse_special), ids) << text;
      // That library decodes the unknown piece to U+2047, ours to the piece itself.
      const bool has_unknown = std::find(ids.begin(), ids.end(), 0) != ids.end();
      if (parse_special || !has_unknown) {
        EXPECT_EQ(tokenizer->Decode(ids, false), vector["decoded"]) << text;
      }
      EXPECT_LE(text.size(), tokenizer->MostBytes(static_cast<int>(ids.size())));
    }
  }
}

// A text that spells a special token does not become one, whatever the model's vocabulary contains.
TEST(MadeTokenizers, TextsMakeNoSpecialToken) {
  for (const auto& made : Made()) {
    if (made.contains("model")) continue;
    const auto tokenizer = MakeTokenizer(made["tokenizer"].dump());
    for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
      if (!tokenizer->IsSpecial(id)) continue;
      const std::string name(tokenizer->IdToToken(id));
      const std::vector<TokenId> ids = Encoded(*tokenizer, "a " + name + " b");
      const auto count = std::count(ids.begin(), ids.end(), id);
      // Except that unknown characters become the unknown token.
      const bool is_unknown = name == "<unk>" || name == "[UNK]";
      EXPECT_TRUE(count == 0 || is_unknown) << made["name"] << ": " << name;
    }
  }
}

TEST(SentencePieceFile, ReadsTokensAndRolesBesideIt) {
  FolderWithPieces folder(ModelFile("sp_bpe"));
  folder.Write("config.json", R"({"bos_token_id": 1, "eos_token_id": 2})");
  folder.Write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true,
      "added_tokens_decoder": {"460": {"content": "<|x|>", "special": true, "rstrip": true},
                               "1": {"content": "<s>", "special": true},
                               "461": {"content": "<|y|>"}}})");
  const auto tokenizer = std::move(folder.Load()).value();
  EXPECT_EQ(tokenizer->vocab_size(), 462);
  EXPECT_EQ(tokenizer->prompt_prefix(), std::vector<TokenId>());
  EXPECT_EQ(tokenizer->prompt_suffix(), std::vector<TokenId>{2});
  EXPECT_EQ(Encoded(*tokenizer, "<|x|>  <|y|>", true), (std::vector<TokenId>{460, 461}));
  EXPECT_TRUE(tokenizer->IsSpecial(460));
  EXPECT_FALSE(tokenizer->IsSpecial(461));
  folder.Write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})");
  EXPECT_THAT(folder.Load().status().message(), HasSubstr("has the member \"x\", must be ids"));
  folder.Write("tokenizer_config.json", "{}");
  folder.Write("added_tokens.json", R"({"<|z|>": 460, "word": 461})");
  const auto listed = std::move(folder.Load()).value();
  EXPECT_TRUE(listed->IsSpecial(460));
  EXPECT_FALSE(listed->IsSpecial(461));
}

TEST(SentencePieceFile, RefusesEveryTruncationOrReadsIt) {
  const std::string bytes = ModelFile("sp_unigram");
  ASSERT_TRUE(ParseSentencePieceModel(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto spec = ParseSentencePieceModel(std::string_view(bytes).substr(0, size));
    // A message may end after any of its fields.
    EXPECT_TRUE(spec.ok() || spec.status().code() == Code::kInvalidArgument) << size;
  }
}

std::string Field(int number, int wire, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | wire)) + bytes;
}
std::string Message(int number, const std::string& bytes) {
  return Field(number, 2, std::string(1, static_cast<char>(bytes.size())) + bytes);
}
std::string Piece(const std::string& text, int type = 1) {
  return Message(1, Message(1, text) + Field(3, 0, std::string(1, static_cast<char>(type))));
}

TEST(SentencePieceFile, NamesWhatIsWrong) {
  const auto words = [](const std::string& bytes) {
    return ParseSentencePieceModel(bytes).status().message();
  };
  EXPECT_THAT(words(""), HasSubstr("it has no pieces"));
  EXPECT_THAT(words("\x0b"), HasSubstr("a field of the wire type 3"));
  EXPECT_THAT(words("\x0a\x7f"), HasSubstr("ends within a field of 127 bytes"));
  EXPECT_THAT(words(std::string(20, '\xff')), HasSubstr("a number that does not end"));
  EXPECT_THAT(words(Piece("a") + Message(2, Field(3, 0, "\x03"))),
              HasSubstr("its model type is number 3"));
  EXPECT_THAT(words(Piece("a", 9) + Message(2, Field(3, 0, "\x02"))), HasSubstr("type 9"));
  EXPECT_THAT(words(Piece("a") + Message(3, Field(5, 0, std::string(1, '\0')))),
              HasSubstr("escape_whitespaces"));
  const std::string infinite = "\x15" + std::string("\0\0\x80\x7f", 4);
  EXPECT_THAT(words(Message(1, Message(1, "a") + infinite)), HasSubstr("is not finite"));
  EXPECT_TRUE(
      ParseSentencePieceModel(Piece("<unk>", 2) + Piece("a") + Message(2, Field(3, 0, "\x02")))
          .ok());
}

TEST(CharacterMap, RefusesTriesThatAreNone) {
  EXPECT_FALSE(CharacterMap::Parse("").ok());
  EXPECT_FALSE(CharacterMap::Parse(std::string("\4\0\0\0abc", 7)).ok());
  EXPECT_FALSE(CharacterMap::Parse(std::string("\3\0\0\0abc", 7)).ok());
  EXPECT_FALSE(CharacterMap::Parse(std::string("\4\0\0\0abcd\xff", 9)).ok());
  EXPECT_FALSE(FromBase64("a*b").has_value());
  // Units with arbitrary values lead nowhere, or stay within the tables.
  std::string units("\0\4\0\0", 4);
  for (int i = 0; i < 1024; ++i) units += static_cast<char>(i * 37 % 251);
  const CharacterMap map = CharacterMap::Parse(units + "x").value();
  for (int byte = 1; byte < 128; ++byte) {
    EXPECT_LE(map.Rewrite(std::string(3, static_cast<char>(byte)), 100).size(), 3u);
  }
}

}  // namespace
}  // namespace outrider
