// Malformed, hostile and unsupported files give a Status that names the field.
#include "common/text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/common/text/tiny_tokenizers.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

void ExpectError(const std::string& json, Code code, const std::string& words) {
  const auto tokenizer = Tokenizer::FromJson(json);
  ASSERT_FALSE(tokenizer.ok()) << "no error: " << words;
  EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status().ToString();
  EXPECT_NE(tokenizer.status().message().find(words), std::string::npos)
      << tokenizer.status().message() << "\ndoes not say: " << words;
}

TEST(TokenizerJson, MalformedTextIsNoJson) {
  for (const char* text : {"", "{", "[1,", "nul", "{\"model\": }", "\xFF", "{} trailing",
                           "{\"a\": \"\xC0\x80\"}", "{\"a\": \"\\ud800\"}"}) {
    ExpectError(text, Code::kInvalidArgument, "tokenizer.json: the file is not well-formed JSON");
  }
}

TEST(TokenizerJson, EveryTruncationIsError) {
  const std::string json = SentencePieceJson({{"▁", "a"}});
  for (size_t size = 0; size < json.size(); size += 7) {
    EXPECT_FALSE(Tokenizer::FromJson(json.substr(0, size)).ok());
  }
}

TEST(TokenizerJson, DeepNestingIsRefused) {
  ExpectError(std::string(10 << 20, '['), Code::kInvalidArgument, "nested deeper than 16 levels");
  std::string sequences = "null";
  for (int i = 0; i < 8; ++i) {
    sequences = R"({"type": "Sequence", "normalizers": [)" + sequences + "]}";
  }
  ExpectError(R"({"model": {}, "normalizer": )" + sequences + "}", Code::kInvalidArgument,
              "nested");
}

TEST(TokenizerJson, RefusesTooLongTokens) {
  const auto unigram = [](size_t bytes) {
    return R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], [")" +
           std::string(bytes, 'a') + R"(", -1]]}})";
  };
  EXPECT_TRUE(Tokenizer::FromJson(unigram(256)).ok());
  ExpectError(unigram(257), Code::kInvalidArgument,
              "model.vocab[1][0]: 257 bytes, must be 1 to 256");
  ExpectError(unigram(0), Code::kInvalidArgument, "model.vocab[1][0]: 0 bytes");
  const auto word_piece = [](size_t bytes) {
    return R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, ")" +
           std::string(bytes, 'a') + R"(": 1}}})";
  };
  EXPECT_TRUE(Tokenizer::FromJson(word_piece(256)).ok());
  ExpectError(word_piece(257), Code::kInvalidArgument, "a token: 257 bytes, at most 256");
}

TEST(TokenizerJson, NeedsUnknownTokenExceptForBpe) {
  const std::string model = R"({"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": )";
  ExpectError(model + "1}}", Code::kInvalidArgument, "model.unk_id");
  ExpectError(model + "null}}", Code::kInvalidArgument, "model.unk_id");
  ExpectError(R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"a": 0}}})",
              Code::kInvalidArgument, "model.unk_token: not in the vocabulary");
}

TEST(TokenizerJson, BracketsInStringsDoNotNest) {
  const std::string brackets = With(ByteLevelJson({}), "/added_tokens/-",
                                    AddedTokenJson(256, std::string(100, '[') + "\\\"{"));
  EXPECT_TRUE(Tokenizer::FromJson(brackets).ok());
}

struct BadField {
  const char* pointer;
  const char* value;
  const char* words;
};

TEST(TokenizerJson, WrongTypesNameTheField) {
  const std::string json =
      With(ByteLevelJson({{"a", "b"}}), "/added_tokens/-", AddedTokenJson(300, "<x>"));
  const BadField cases[] = {
      {"/model", "[]", "model is an array, must be an object"},
      {"/model/type", "7", "model.type is 7, must be a string"},
      {"/model/vocab", "[]", "model.vocab is an array, must be an object"},
      {"/model/vocab/a", "\"7\"", "model.vocab.a is \"7\", must be an integer"},
      {"/model/vocab/a", "1.5", "model.vocab.a is 1.5, must be an integer"},
      {"/model/merges", "{}", "model.merges is an object, must be an array"},
      {"/model/merges/0", "5", "model.merges[0] is 5, must be a string or a pair"},
      {"/model/merges/0", "[\"a\"]", "model.merges[0] is an array, must be a string or a pair"},
      {"/model/merges/0", "[\"a\", 1]", "model.merges[0] is an array, must be a string or a pair"},
      {"/model/unk_token", "3", "model.unk_token is 3, must be a string"},
      {"/model/ignore_merges", "1", "model.ignore_merges is 1, must be true or false"},
      {"/added_tokens", "{}", "added_tokens is an object, must be an array"},
      {"/added_tokens/0", "\"x\"", "added_tokens[0] is \"x\", must be an object"},
      {"/added_tokens/0/id", "null", "added_tokens[0].id is null, must be an integer"},
      {"/added_tokens/0/content", "null", "added_tokens[0].content is null, must be a string"},
      {"/added_tokens/0/special", "\"yes\"", "added_tokens[0].special is \"yes\", must be true"},
      {"/normalizer", "[]", "normalizer is an array, must be an object"},
      {"/normalizer", "{}", "normalizer.type is missing, must be a string"},
      {"/pre_tokenizer", R"({"type": "Sequence"})", "pre_tokenizer.pretokenizers is missing"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": 3})", "pre_tokenizer.pattern is 3"},
      {"/decoder", "3", "decoder is 3, must be an object"},
      {"/post_processor", R"({"type": "TemplateProcessing"})", "post_processor.single is missing"},
  };
  for (const BadField& field : cases) {
    ExpectError(With(json, field.pointer, field.value), Code::kInvalidArgument,
                std::string("tokenizer.json: ") + field.words);
  }
  ExpectError("[]", Code::kInvalidArgument, "is not a JSON object");
}

TEST(TokenizerJson, BadValuesNameTheField) {
  const std::string json =
      With(ByteLevelJson({{"a", "b"}}), "/added_tokens/-", AddedTokenJson(300, "<x>"));
  const BadField cases[] = {
      {"/model/vocab/a", "-1", "model.vocab.a is -1, must be an integer from 0 to 1048575"},
      {"/model/vocab/a", "1048576", "is 1048576, must be an integer from 0"},
      {"/model/vocab/a", "18446744073709551615", "is 18446744073709551615, must be"},
      {"/model/vocab/zz", "98", "has the id 98 of"},
      {"/model/merges/0", "\"a\"", "model.merges[0] is \"a\", must be two tokens"},
      {"/model/merges/0", "\"a b c\"", "model.merges[0] is \"a b c\", must be two tokens"},
      {"/model/merges/0", "\" b\"", "model.merges[0]: has an empty part"},
      {"/model/merges/0", "[\"\", \"b\"]", "model.merges[0]: has an empty part"},
      {"/model/merges/0", "\"a qq\"", "model.merges[0]: \"qq\" is not in the vocabulary"},
      {"/model/merges/0", "\"b a\"", "model.merges[0]: \"ba\" is not in the vocabulary"},
      {"/model/unk_token", "\"<unk>\"", "model.unk_token: not in the vocabulary"},
      {"/added_tokens/0/id", "97", "added_tokens[0]: its id 97 belongs to another token"},
      {"/added_tokens/0/content", "\"a\"", "added_tokens[0]: its id is 300, but the same content"},
      {"/added_tokens/0/content", "\"\"", "added_tokens[0].content: is empty"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "("}})", "parenthesis"},
      {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Odd"})",
       "pre_tokenizer.behavior is \"Odd\""},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": ""})",
       "pre_tokenizer.replacement: is empty"},
      {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       "pre_tokenizer.prepend_scheme is \"last\""},
      {"/normalizer", R"({"type": "Prepend", "prepend": "a text much too long to insert"})",
       "normalizer.prepend: 30 bytes, limit 16"},
      {"/post_processor",
       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
           "special_tokens": {"<s>": {"ids": [999]}}})",
       "post_processor: no token has the id 999"},
  };
  for (const BadField& field : cases) {
    ExpectError(With(json, field.pointer, field.value), Code::kInvalidArgument, field.words);
  }
}

TEST(TokenizerJson, UnsupportedFieldsAreRefused) {
  const std::string json = ByteLevelJson({});
  const BadField cases[] = {
      {"/model/type", "\"WordLevel\"", "model: the type \"WordLevel\" is not supported"},
      {"/model/dropout", "0.1", "model.dropout"},
      {"/model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix"},
      {"/model/continuing_subword_prefix", "\"##\"", "model.continuing_subword_prefix"},
      {"/normalizer", R"({"type": "ByteLevel"})", "normalizer: the type \"ByteLevel\""},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "New"}]})",
       "normalizer.normalizers[1]: the type \"New\""},
      {"/pre_tokenizer", R"({"type": "FixedLength", "length": 5})",
       "pre_tokenizer: the type \"FixedLength\""},
      {"/pre_tokenizer",
       R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})",
       "pre_tokenizer.pretokenizers[1]: a step after ByteLevel"},
      {"/decoder", R"({"type": "CTC"})", "decoder: the type \"CTC\""},
      {"/decoder", R"({"type": "Strip", "content": " ", "start": 2, "stop": 0})", "decoder"},
      {"/post_processor", R"({"type": "NewProcessing"})", "post_processor: the type"},
  };
  for (const BadField& field : cases) {
    ExpectError(With(json, field.pointer, field.value), Code::kUnimplemented, field.words);
  }
}

TEST(TokenizerJson, AcceptsEmptyAffixesAndZeroDropout) {
  std::string json = With(ByteLevelJson({}), "/model/continuing_subword_prefix", "\"\"");
  json = With(json, "/model/end_of_word_suffix", "null");
  json = With(json, "/model/dropout", "0.0");
  EXPECT_TRUE(Tokenizer::FromJson(json).ok());
}

TEST(TokenizerJson, MissingModelTypeMeansBpe) {
  EXPECT_TRUE(Tokenizer::FromJson(Without(ByteLevelJson({}), "/model/type")).ok());
}

TEST(TokenizerJson, MergePairsMayContainSpaces) {
  std::string json = SentencePieceJson({{"a", "b"}});
  json = With(json, "/model/vocab/x y", "400");
  json = With(json, "/model/vocab/x ", "401");
  json = With(json, "/model/merges", R"([["a", "b"], ["x ", "y"]])");
  EXPECT_EQ(Encoded(*MakeTokenizer(json), "ab"), std::vector<TokenId>({259, 286}));
}

TEST(TokenizerJson, GapsBetweenIdsHaveNoToken) {
  const auto tokenizer =
      MakeTokenizer(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(300, "<x>")));
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->IdToToken(299), "");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{299, 300}, false), "<x>");
}

TEST(TokenizerJson, ContentsOfAddedTokensAreLimited) {
  std::string json = With(ByteLevelJson({}), "/added_tokens/-",
                          AddedTokenJson(256, std::string((1 << 20) + 1, 'x')));
  ExpectError(json, Code::kInvalidArgument, "added_tokens: more than 1048576 bytes");
  json = With(SentencePieceJson({}), "/added_tokens/-",
              AddedTokenJson(286, std::string(1 << 19, ' '), {"normalized"}));
  ExpectError(json, Code::kInvalidArgument, "added_tokens: token 286 has 524288 bytes, at most");
  const auto with = [](size_t bytes) {
    return With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, std::string(bytes, 'x')));
  };
  EXPECT_TRUE(Tokenizer::FromJson(with(256)).ok());
  ExpectError(with(257), Code::kInvalidArgument, "token 256 has 257 bytes, at most 256 are read");
  // U+2581 has three bytes.
  json = With(SentencePieceJson({}), "/added_tokens/-",
              AddedTokenJson(286, std::string(90, ' '), {"normalized"}));
  ExpectError(json, Code::kInvalidArgument, "token 286 has 273 bytes when normalized");
}

class ModelFolder : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  // BOS <s> 256, EOS </s> 257 and <end> 258; no post-processor.
  void WriteTokenizer() {
    std::string json = ByteLevelJson({});
    json = With(json, "/added_tokens/-", AddedTokenJson(256, "<s>", {"special"}));
    json = With(json, "/added_tokens/-", AddedTokenJson(257, "</s>", {"special"}));
    json = With(json, "/added_tokens/-", AddedTokenJson(258, "<end>", {"special"}));
    Write("tokenizer.json", json);
  }
  void ExpectLoadError(Code code, const std::string& words) {
    const auto tokenizer = Tokenizer::Load(dir_);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status().ToString();
    EXPECT_NE(tokenizer.status().message().find(words), std::string::npos)
        << tokenizer.status().message();
  }

  const testing::TempDir temp_;
  const std::filesystem::path dir_ = temp_.path();
};

using Ids = std::vector<TokenId>;

TEST_F(ModelFolder, WithoutTokenizerJsonIsNotFound) {
  ExpectLoadError(Code::kNotFound, (dir_ / "tokenizer.json").string());
}

TEST_F(ModelFolder, ErrorsNameTheFile) {
  Write("tokenizer.json", "{");
  ExpectLoadError(Code::kInvalidArgument,
                  (dir_ / "tokenizer.json").string() + ": the file is not well-formed");
  WriteTokenizer();
  Write("generation_config.json", "[]");
  ExpectLoadError(Code::kInvalidArgument, "generation_config.json: the file is not a JSON object");
  Write("generation_config.json", R"({"eos_token_id": "x"})");
  ExpectLoadError(Code::kInvalidArgument, "generation_config.json: eos_token_id is \"x\"");
  Write("generation_config.json", R"({"eos_token_id": [257, -3]})");
  ExpectLoadError(Code::kInvalidArgument, "generation_config.json: eos_token_id[1] is -3");
  Write("generation_config.json", R"({"eos_token_id": 999})");
  ExpectLoadError(Code::kInvalidArgument, "eos_token_id: no token has the id 999");
}

TEST_F(ModelFolder, TokenizerJsonAloneHasNoRoles) {
  WriteTokenizer();
  const auto tokenizer = Tokenizer::Load(dir_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->prompt_prefix(), Ids());
  EXPECT_EQ((*tokenizer)->eos_tokens(), Ids());
}

TEST_F(ModelFolder, AddBosTokenPrependsBos) {
  WriteTokenizer();
  Write("tokenizer_config.json",
        R"({"add_bos_token": true, "bos_token": {"content": "<s>"}, "eos_token": "</s>"})");
  const auto tokenizer = Tokenizer::Load(dir_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->prompt_prefix(), Ids({256}));
  EXPECT_EQ((*tokenizer)->eos_tokens(), Ids({257}));
}

TEST_F(ModelFolder, RefusesAddBosTokenWithoutBos) {
  WriteTokenizer();
  Write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": null})");
  ExpectLoadError(Code::kInvalidArgument, "no BOS token is known");
}

TEST_F(ModelFolder, AddBosTokenOverridesPostProcessor) {
  Write("tokenizer.json", SentencePieceJson({}));
  const auto with = Tokenizer::Load(dir_);
  ASSERT_TRUE(with.ok());
  EXPECT_EQ((*with)->prompt_prefix(), Ids({1}));
  Write("tokenizer_config.json", R"({"add_bos_token": false})");
  const auto without = Tokenizer::Load(dir_);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ((*without)->prompt_prefix(), Ids());
}

TEST_F(ModelFolder, AddEosTokenAppendsEos) {
  WriteTokenizer();
  Write("config.json", R"({"eos_token_id": [258, 257]})");
  Write("tokenizer_config.json", R"({"add_eos_token": true, "eos_token": "</s>"})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->prompt_suffix(), Ids({257}));
  Write("tokenizer_config.json", R"({"add_eos_token": true})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->prompt_suffix(), Ids({258}));
  Write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->prompt_suffix(), Ids());
  Write("config.json", "{}");
  Write("tokenizer_config.json", R"({"add_eos_token": true})");
  ExpectLoadError(Code::kInvalidArgument, "no EOS token is known");
}

TEST_F(ModelFolder, AddEosTokenOverridesPostProcessor) {
  Write("tokenizer.json", With(SentencePieceJson({}), "/post_processor", R"({
      "type": "TemplateProcessing",
      "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
      "special_tokens": {"</s>": {"ids": [2]}}})"));
  EXPECT_EQ((*Tokenizer::Load(dir_))->prompt_suffix(), Ids({2}));
  Write("tokenizer_config.json", R"({"add_eos_token": false})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->prompt_suffix(), Ids());
}

TEST_F(ModelFolder, EosFilesHaveAnOrder) {
  WriteTokenizer();
  Write("tokenizer_config.json", R"({"eos_token": "<s>"})");
  Write("config.json", R"({"eos_token_id": 257})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->eos_tokens(), Ids({257}));
  Write("generation_config.json", R"({"eos_token_id": [258, 257, 258]})");
  EXPECT_EQ((*Tokenizer::Load(dir_))->eos_tokens(), Ids({257, 258}));
}

TEST_F(ModelFolder, MinusOneIsNoToken) {
  WriteTokenizer();
  Write("config.json", R"({"bos_token_id": [-1, 256], "eos_token_id": 257})");
  Write("generation_config.json", R"({"bos_token_id": null, "eos_token_id": -1})");
  Write("tokenizer_config.json", R"({"add_bos_token": true})");
  const auto tokenizer = Tokenizer::Load(dir_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->prompt_prefix(), Ids({256}));
  EXPECT_EQ((*tokenizer)->eos_tokens(), Ids({257}));
}

}  // namespace
}  // namespace outrider
