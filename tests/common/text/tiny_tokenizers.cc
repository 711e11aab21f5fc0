#include "tests/common/text/tiny_tokenizers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/text/byte_alphabet.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

void AddMerges(const MergeList& merges, Json& model) {
  int id = static_cast<int>(model["vocab"].size());
  model["merges"] = Json::array();
  for (const auto& [left, right] : merges) {
    model["vocab"][left + right] = id++;
    model["merges"].push_back(left + " " + right);
  }
}

}  // namespace

std::string ByteLevelJson(const MergeList& merges) {
  Json json = Json::parse(R"({
    "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {}}})");
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"][ByteToCharacter(static_cast<uint8_t>(byte))] = byte;
  }
  AddMerges(merges, json["model"]);
  return json.dump();
}

std::string SentencePieceJson(const MergeList& merges) {
  Json json = Json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                     {"id": 1, "content": "<s>", "special": true},
                     {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}}})");
  Json& vocabulary = json["model"]["vocab"];
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[ByteTokenName(static_cast<uint8_t>(byte))] = 3 + byte;
  }
  vocabulary["▁"] = 259;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    vocabulary[std::string(1, letter)] = 260 + letter - 'a';
  }
  AddMerges(merges, json["model"]);
  return json.dump();
}

std::string With(const std::string& json, const std::string& pointer, const std::string& value) {
  Json edited = Json::parse(json);
  edited[Json::json_pointer(pointer)] = Json::parse(value);
  return edited.dump();
}

std::string Without(const std::string& json, const std::string& pointer) {
  Json edited = Json::parse(json);
  const Json::json_pointer field(pointer);
  edited[field.parent_pointer()].erase(field.back());
  return edited.dump();
}

std::string AddedTokenJson(TokenId id, const std::string& content,
                           const std::vector<std::string>& flags) {
  Json json = {{"id", id}, {"content", content}};
  for (const std::string& flag : flags) json[flag] = true;
  return json.dump();
}

std::unique_ptr<Tokenizer> MakeTokenizer(const std::string& json) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::FromJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return std::move(tokenizer).value();
}

std::vector<TokenId> Encoded(const Tokenizer& tokenizer, const std::string& text,
                             bool parse_special) {
  const Result<std::vector<TokenId>> ids = tokenizer.Encode(text, parse_special);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *ids : std::vector<TokenId>();
}

}  // namespace outrider
