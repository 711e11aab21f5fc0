// Tokenizers and chat templates of GGUF files give the same results as those of a checkpoint.

#include "common/text/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/text/byte_alphabet.h"
#include "common/text/chat_template.h"
#include "common/text/sentence_piece.h"
#include "common/text/split_patterns.h"
#include "tests/common/text/tiny_tokenizers.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kTexts = {"",
                                         " ",
                                         "the tent",
                                         "  the\n\n then  ",
                                         "Don't WE'LL they're I'D",
                                         "12345 6 7x89 ½ ٣٤٥",
                                         "camelCase HTTPServer naïve ÉTÉ ǅ",
                                         "日本語のテキスト、テスト。",
                                         "e\xCC\x81 \xE2\x84\xAB \xEF\xAC\x81",  // not in NFC
                                         "a\t\tb \r\n c / d// e\n/",
                                         "🙂🙃 👩‍👩‍👧 x",
                                         "<s>the</s> <|x|>then<|y|> <unk>",
                                         "price: $3.50 (50%) -- #1!"};

// Writes the tokens, types and merges of a byte-level tokenizer.json.
GgufWriter OfByteLevel(const Json& tokenizer, const std::string& pre) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  const auto put = [&](size_t id, const std::string& text, int32_t type) {
    while (tokens.size() <= id) {
      tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
      types.push_back(5);
    }
    tokens[id] = text;
    types[id] = type;
  };
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) put(id, text, 1);
  for (const Json& added : tokenizer["added_tokens"]) {
    put(added["id"], added["content"], added.value("special", false) ? 3 : 4);
  }
  std::vector<std::string> merges;
  for (const Json& merge : tokenizer["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufWriter writer;
  writer.Text("tokenizer.ggml.model", "gpt2");
  writer.Text("tokenizer.ggml.pre", pre);
  writer.Texts("tokenizer.ggml.tokens", tokens);
  writer.Int32s("tokenizer.ggml.token_type", types);
  writer.Texts("tokenizer.ggml.merges", merges);
  return writer;
}

// Writes a tokenizer made by SentencePieceJson; merges become scores.
GgufWriter OfSentencePiece(const Json& tokenizer) {
  const Json& vocab = tokenizer["model"]["vocab"];
  std::vector<std::string> tokens(vocab.size());
  std::vector<int32_t> types(vocab.size(), 1);
  std::vector<float> scores(vocab.size());
  for (const auto& [text, id] : vocab.items()) {
    const auto token = id.get<size_t>();
    tokens[token] = text;
    scores[token] = -static_cast<float>(token);
    if (ParseByteTokenName(text).has_value()) types[token] = 6;
  }
  for (const Json& added : tokenizer["added_tokens"]) {
    const auto index = added["id"].get<size_t>();
    if (index >= tokens.size()) {
      tokens.resize(index + 1);
      scores.resize(index + 1, -1000.f);
      types.resize(index + 1);
    }
    tokens[index] = added["content"];
    types[index] = added.value("special", false) ? 3 : 4;
  }
  types[0] = 2;
  GgufWriter writer;
  writer.Text("tokenizer.ggml.model", "llama");
  writer.Texts("tokenizer.ggml.tokens", tokens);
  writer.Int32s("tokenizer.ggml.token_type", types);
  writer.Floats("tokenizer.ggml.scores", scores);
  return writer;
}

class GgufTokenizer : public ::testing::Test {
 protected:
  std::filesystem::path Write(const GgufWriter& writer) {
    const std::filesystem::path path = directory_ / "m.gguf";
    std::ofstream(path, std::ios::binary) << writer.File();
    return path;
  }
  std::unique_ptr<Tokenizer> Load(const GgufWriter& writer) {
    auto tokenizer = Tokenizer::Load(Write(writer));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
  }
  std::string ErrorOf(const GgufWriter& writer) {
    const Status status = Tokenizer::Load(Write(writer)).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("m.gguf: "));
    return status.message();
  }
  // Expects that both give the same ids for every text and the same text for these.
  static void ExpectSame(const Tokenizer& tokenizer, const std::string& tokenizer_json) {
    const auto expected = MakeTokenizer(tokenizer_json);
    EXPECT_EQ(DescribeMismatch(expected->fingerprint(), tokenizer.fingerprint()), "");
    EXPECT_EQ(tokenizer.vocab_size(), expected->vocab_size());
    EXPECT_EQ(tokenizer.prompt_prefix(), expected->prompt_prefix());
    for (const std::string& text : kTexts) {
      for (const bool parse_special : {false, true}) {
        const std::vector<TokenId> ids = Encoded(*expected, text, parse_special);
        EXPECT_EQ(Encoded(tokenizer, text, parse_special), ids) << text;
        EXPECT_EQ(tokenizer.Decode(ids, false), expected->Decode(ids, false)) << text;
        EXPECT_EQ(tokenizer.Decode(ids, true), expected->Decode(ids, true)) << text;
        EXPECT_EQ(tokenizer.MostBytes(3), expected->MostBytes(3));
      }
    }
  }

  testing::TempDir directory_;
};

const MergeList kGgufMerges = {{"t", "h"},  {"th", "e"}, {"Ġ", "the"}, {"Ġthe", "n"}, {"1", "2"},
                               {"12", "3"}, {"4", "5"},  {"Ġ", "Ġ"},   {"Ċ", "Ċ"},    {"l", "l"},
                               {"'", "r"},  {"'r", "e"}, {"'", "t"},   {"/", "/"},    {"H", "T"},
                               {"S", "e"},  {"Se", "r"}};

// A byte-level tokenizer.json with this pattern.
std::string WithPattern(std::string_view pattern, const std::vector<std::string>& more = {}) {
  Json steps = Json::array();
  for (const std::string& step : more) steps.push_back(Json::parse(step));
  steps.push_back({{"type", "Split"},
                   {"pattern", {{"Regex", pattern}}},
                   {"behavior", "Isolated"},
                   {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  std::string text = With(ByteLevelJson(kGgufMerges), "/pre_tokenizer",
                          Json{{"type", "Sequence"}, {"pretokenizers", steps}}.dump());
  const auto next = static_cast<TokenId>(256 + kGgufMerges.size());
  text = With(text, "/added_tokens/-", AddedTokenJson(next, "<|x|>", {"special"}));
  return With(text, "/added_tokens/-", AddedTokenJson(next + 1, "<|y|>"));
}

TEST_F(GgufTokenizer, ReadsEveryPreTokenizerByName) {
  const std::string digits = R"({"type": "Digits", "individual_digits": true})";
  const std::string nfc = R"({"type": "NFC"})";
  struct Case {
    std::vector<std::string> names;
    std::string tokenizer;
  };
  const std::vector<Case> cases = {
      {{"llama-bpe", "llama3", "llama-v3"},
       With(WithPattern(kLlama3Pattern), "/model/ignore_merges", "true")},
      {{"smaug-bpe", "dbrx"}, WithPattern(kLlama3Pattern)},
      {{"qwen2", "deepseek-r1-qwen"}, With(WithPattern(kQwen2Pattern), "/normalizer", nfc)},
      {{"gpt-2", "olmo"}, WithPattern(kGpt2Pattern)},
      {{"smollm", "refact"}, WithPattern(kGpt2Pattern, {digits})},
      {{"gpt-4o"}, WithPattern(kO200kPattern)},
      {{"tekken"}, With(WithPattern(kTekkenPattern), "/model/ignore_merges", "true")}};
  for (const Case& one : cases) {
    for (const std::string& name : one.names) {
      SCOPED_TRACE(name);
      GgufWriter writer = OfByteLevel(Json::parse(one.tokenizer), name);
      writer.Bool("tokenizer.ggml.add_bos_token", false);
      const auto tokenizer = Load(writer);
      ASSERT_NE(tokenizer, nullptr);
      ExpectSame(*tokenizer, one.tokenizer);
    }
  }
}

TEST_F(GgufTokenizer, MakesMergesOfScores) {
  const MergeList merges = {{"t", "h"}, {"th", "e"}, {"▁", "the"}, {"e", "n"}, {"▁the", "n"}};
  const std::string whole = SentencePieceJson(merges);
  const auto added = With(whole, "/added_tokens/-",
                          AddedTokenJson(static_cast<TokenId>(286 + merges.size()), "<|y|>"));
  GgufWriter writer = OfSentencePiece(Json::parse(added));
  writer.Uint32("tokenizer.ggml.bos_token_id", 1);
  writer.Uint32("tokenizer.ggml.eos_token_id", 2);
  writer.Uint32("tokenizer.ggml.eot_token_id", 0);
  const auto tokenizer = Load(writer);
  ASSERT_NE(tokenizer, nullptr);
  ExpectSame(*tokenizer, added);
  EXPECT_TRUE(tokenizer->strips_leading_space());
  EXPECT_EQ(tokenizer->eos_tokens(), (std::vector<TokenId>{0, 2}));
  writer.Bool("tokenizer.ggml.add_space_prefix", false);
  const auto plain = Load(writer);
  ASSERT_NE(plain, nullptr);
  EXPECT_FALSE(plain->strips_leading_space());
  EXPECT_EQ(Encoded(*plain, "the"), (std::vector<TokenId>{287}));
  EXPECT_EQ(Encoded(*tokenizer, "the"), (std::vector<TokenId>{288}));
  EXPECT_EQ(plain->Decode(std::vector<TokenId>{288}, false), " the");
}

// A piece that can be merged in two ways, and runs of spaces that are user-defined.
TEST_F(GgufTokenizer, RanksMergesLikeHuggingFace) {
  std::vector<SentencePiece> pieces = {{"<unk>", 0, SentencePiece::Type::kUnknown},
                                       {"a", -1},
                                       {"b", -2},
                                       {"ab", -5},
                                       {"ba", -4},
                                       {"aba", -3},
                                       {"\xE2\x96\x81", -6},
                                       {"  ", -1000, SentencePiece::Type::kUserDefined}};
  TokenizerSpec spec;
  ASSERT_TRUE(FillSentencePieceBpe(pieces, /*adds_space=*/false, &spec).ok());
  const std::string mark = "\xE2\x96\x81";
  // By score; among the ways to merge "aba" the one with the longer left half comes first.
  EXPECT_EQ(spec.merges,
            (MergeList{{mark, mark}, {"ab", "a"}, {"a", "ba"}, {"b", "a"}, {"a", "b"}}));
  EXPECT_EQ(spec.vocabulary[7], mark + mark);
  EXPECT_EQ(spec.unk_token, "<unk>");
  EXPECT_FALSE(spec.byte_fallback);
}

TEST_F(GgufTokenizer, BeginsTextsAsTheFileSays) {
  const Json tokenizer = Json::parse(WithPattern(kLlama3Pattern));
  const auto prefix = [&](const std::string& pre, std::optional<bool> adds) {
    GgufWriter writer = OfByteLevel(tokenizer, pre);
    writer.Uint32("tokenizer.ggml.bos_token_id", 273);
    if (adds.has_value()) writer.Bool("tokenizer.ggml.add_bos_token", *adds);
    return Load(writer)->prompt_prefix();
  };
  const std::vector<TokenId> bos = {273}, none;
  EXPECT_EQ(prefix("llama-bpe", std::nullopt), bos);
  EXPECT_EQ(prefix("llama-bpe", false), none);
  EXPECT_EQ(prefix("dbrx", std::nullopt), none);
  EXPECT_EQ(prefix("dbrx", true), bos);
}

TEST_F(GgufTokenizer, RefusesWhatItDoesNotKnow) {
  const Json tokenizer = Json::parse(WithPattern(kGpt2Pattern));
  EXPECT_THAT(ErrorOf(OfByteLevel(tokenizer, "deepseek-llm")),
              AllOf(HasSubstr("tokenizer.ggml.pre is deepseek-llm"), HasSubstr("llama-bpe")));
  GgufWriter other;
  other.Text("tokenizer.ggml.model", "rwkv");
  EXPECT_THAT(ErrorOf(other), HasSubstr("tokenizer.ggml.model is rwkv"));
  EXPECT_THAT(ErrorOf(GgufWriter()), HasSubstr("tokenizer.ggml.model is missing"));
  const auto with = [&](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer = OfByteLevel(tokenizer, "gpt-2");
    change(writer);
    return ErrorOf(writer);
  };
  EXPECT_THAT(with([](GgufWriter& w) { w.Bool("tokenizer.ggml.add_eos_token", true); }),
              HasSubstr("tokenizer.ggml.add_eos_token is true"));
  EXPECT_THAT(with([](GgufWriter& w) { w.Bool("tokenizer.ggml.add_space_prefix", true); }),
              HasSubstr("tokenizer.ggml.add_space_prefix is true"));
  EXPECT_THAT(with([](GgufWriter& w) { w.Bool("tokenizer.ggml.add_bos_token", true); }),
              HasSubstr("tokenizer.ggml.bos_token_id is missing"));
}

TEST_F(GgufTokenizer, RefusesListsThatDoNotFit) {
  const auto llama = [](const std::vector<std::string>& tokens, const std::vector<int32_t>& types,
                        const std::vector<float>& scores) {
    GgufWriter writer;
    writer.Text("tokenizer.ggml.model", "llama");
    writer.Texts("tokenizer.ggml.tokens", tokens);
    writer.Int32s("tokenizer.ggml.token_type", types);
    writer.Floats("tokenizer.ggml.scores", scores);
    writer.Bool("tokenizer.ggml.add_bos_token", false);
    return writer;
  };
  EXPECT_THAT(ErrorOf(llama({}, {}, {})), HasSubstr("has 0 tokens"));
  EXPECT_THAT(ErrorOf(llama({"a", "b"}, {1}, {0, 0})), HasSubstr("token_type has 1 elements"));
  EXPECT_THAT(ErrorOf(llama({"a"}, {7}, {0})), HasSubstr("gives token 0 the type 7"));
  EXPECT_THAT(ErrorOf(llama({"a"}, {1}, {0, 0})), HasSubstr("scores has 2 elements"));
  EXPECT_THAT(ErrorOf(llama({""}, {1}, {0})), HasSubstr("piece 0 is empty"));
  EXPECT_THAT(ErrorOf(llama({"\xFF"}, {1}, {0})), HasSubstr("is not UTF-8"));
  EXPECT_THAT(ErrorOf(llama({std::string(257, 'a')}, {1}, {0})), HasSubstr("piece 0: 257 bytes"));
  EXPECT_THAT(ErrorOf(llama({"<unk>", "b"}, {2, 2}, {0, 0})), HasSubstr("second unknown piece"));
  EXPECT_THAT(ErrorOf(llama({"a"}, {1}, {std::numeric_limits<float>::infinity()})),
              HasSubstr("not finite"));
  // Each of these is a merge of two others in many ways.
  std::vector<std::string> runs;
  for (size_t size = 1; size <= 200; ++size) runs.emplace_back(size, 'a');
  EXPECT_THAT(ErrorOf(llama(runs, std::vector<int32_t>(200, 1), std::vector<float>(200))),
              HasSubstr("merges of the pieces"));
}

TEST_F(GgufTokenizer, HoldsTheChatTemplate) {
  GgufWriter writer = OfByteLevel(Json::parse(WithPattern(kGpt2Pattern)), "gpt-2");
  writer.Uint32("tokenizer.ggml.bos_token_id", 273);
  writer.Text("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}");
  writer.Text("tokenizer.chat_template.tool_use", "tools of {{ messages[0].content }}");
  const std::filesystem::path path = Write(writer);
  const ChatTemplate chat = ChatTemplate::Load(path, "").value();
  const std::vector<ChatMessage> hi = {{.role = "user", .parts = {"hi"}}};
  EXPECT_EQ(chat.Render(hi, {}).value().text(), "<|x|>hi");
  EXPECT_EQ(chat.text_with_tools(), "tools of {{ messages[0].content }}");
  EXPECT_FALSE(
      ChatTemplate::Load(Write(OfByteLevel(Json::parse(WithPattern(kGpt2Pattern)), "gpt-2")), "")
          .value()
          .status()
          .ok());
}

}  // namespace
}  // namespace outrider
