#include "tests/support/other_vocabulary.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/base/input_file.h"
#include "tests/support/checkpoint_folder.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr size_t kFileBytes = 64 << 20;
constexpr size_t kRenamed = 8;  // one in this many tokens

Result<Json> ReadJson(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kFileBytes));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument(path.string() + " is no JSON object");
  return json;
}

// Replaces an id, or those of a list, by the id as far from the end of the vocabulary.
void Renumber(int vocab, Json* ids) {
  if (ids->is_number_integer()) {
    *ids = vocab - 1 - ids->get<int>();
  } else if (ids->is_array()) {
    for (Json& id : *ids) Renumber(vocab, &id);
  }
}

// The two parts of a merge, in either notation.
std::pair<std::string, std::string> PartsOf(const Json& merge) {
  if (merge.is_array()) return {merge.at(0), merge.at(1)};
  const std::string text = merge;
  const size_t space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

void RenameTokens(Json* model) {
  std::set<std::string> parts;
  for (const Json& merge : model->at("merges")) {
    const auto [left, right] = PartsOf(merge);
    parts.insert(left);
    parts.insert(right);
  }
  Json merges = Json::array(), vocab = model->at("vocab");
  size_t last_tokens = 0;
  for (const Json& merge : model->at("merges")) {
    const auto [left, right] = PartsOf(merge);
    const std::string token = left + right;
    if (parts.contains(token) || ++last_tokens % kRenamed != 0) {
      merges.push_back(merge);
      continue;
    }
    const int id = vocab.at(token);
    vocab.erase(token);
    vocab["~" + std::to_string(id) + "~"] = id;
  }
  model->at("merges") = std::move(merges);
  model->at("vocab") = std::move(vocab);
}

Json OtherTokenizer(Json tokenizer, int vocab) {
  RenameTokens(&tokenizer.at("model"));
  for (Json& id : tokenizer.at("model").at("vocab")) Renumber(vocab, &id);
  Json& added = tokenizer.at("added_tokens");
  for (Json& token : added) Renumber(vocab, &token.at("id"));
  if (!added.empty()) added.at(0).at("content") = "<|of another model|>";
  return tokenizer;
}

// Reverses the order of the rows of [vocab, width].
void ReverseRows(StoredTensor* tensor) {
  const size_t row = tensor->bytes.size() / static_cast<size_t>(tensor->shape.at(0));
  std::string reversed;
  for (size_t end = tensor->bytes.size(); end > 0; end -= row) {
    reversed += tensor->bytes.substr(end - row, row);
  }
  tensor->bytes = std::move(reversed);
}

}  // namespace

Status WriteOtherVocabulary(const std::filesystem::path& from, const std::filesystem::path& to) {
  OUTRIDER_ASSIGN(auto tensors, ReadTensors(from));
  OUTRIDER_ASSIGN(Json config, ReadJson(from / kConfigFile));
  OUTRIDER_ASSIGN(Json tokenizer, ReadJson(from / "tokenizer.json"));
  const int vocab = config.at("vocab_size");
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    if (const auto it = tensors.find(name); it != tensors.end()) ReverseRows(&it->second);
  }
  for (const char* field : {"bos_token_id", "eos_token_id"}) {
    if (config.contains(field)) Renumber(vocab, &config[field]);
  }
  OUTRIDER_TRY(CopyOtherFiles(from, to));
  std::filesystem::remove(to / "generation_config.json");
  OUTRIDER_TRY(WriteFile(to / kConfigFile, config.dump(2)));
  OUTRIDER_TRY(
      WriteFile(to / "tokenizer.json", OtherTokenizer(std::move(tokenizer), vocab).dump()));
  return WriteSafetensors(to / kWeightsFile, tensors);
}

}  // namespace outrider
