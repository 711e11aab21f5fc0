#include "common/text/tokenizer_json.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/printable.h"
#include "common/json/json.h"
#include "common/text/byte_alphabet.h"
#include "common/text/sentence_piece.h"
#include "common/text/tokenizer_steps.h"

namespace outrider {
namespace {

// HF's tokenizers use the last of repeated members.
constexpr JsonLimits kLimits = {.bytes = kMaxTokenizerFileBytes, .repeated_members = true};

Result<TokenId> Id(const JsonValue& json) { return json.Int(0, kMaxVocabulary - 1); }

Status ParseVocabulary(const JsonValue& node, TokenizerSpec& spec) {
  OUTRIDER_TRY(node.MustBeObject());
  return node.ForEachMember([&](const std::string& token, const JsonValue& json) -> Status {
    OUTRIDER_ASSIGN(const TokenId id, Id(json));
    if (static_cast<size_t>(id) >= spec.vocabulary.size()) spec.vocabulary.resize(id + 1);
    std::optional<std::string>& entry = spec.vocabulary[id];
    if (entry.has_value()) {
      return json.Error("has the id " + std::to_string(id) + " of \"" +
                        Printable(*entry, kMaxShownText) + "\"");
    }
    entry = token;
    return Status();
  });
}

// "a b" or ["a", "b"]; the second form can have tokens with spaces.
Result<std::pair<std::string, std::string>> ParseMerge(const JsonValue& json) {
  std::pair<std::string, std::string> merge;
  if (json.is_string()) {
    const std::string& text = json.text();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return json.Wrong("two tokens with a space between");
    }
    merge = {text.substr(0, space), text.substr(space + 1)};
  } else if (json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    merge = {json[0].text(), json[1].text()};
  } else {
    return json.Wrong("a string or a pair of strings");
  }
  if (merge.first.empty() || merge.second.empty()) return json.Error("has an empty part");
  return merge;
}

Status ParseMerges(const JsonValue& node, TokenizerSpec& spec) {
  OUTRIDER_TRY(node.MustBeArray());
  spec.merges.reserve(node.size());
  for (size_t i = 0; i < node.size(); ++i) {
    OUTRIDER_ASSIGN(spec.merges.emplace_back(), ParseMerge(node[i]));
  }
  return Status();
}

bool HasAllByteTokens(const TokenizerSpec& spec) {
  int count = 0;
  for (const auto& token : spec.vocabulary) {
    count += token.has_value() && ParseByteTokenName(*token).has_value();
  }
  return count >= 256;
}

// [["token", score], ...]
Status ParseScoredVocabulary(const JsonValue& node, TokenizerSpec& spec) {
  OUTRIDER_TRY(node.MustBeArray());
  OUTRIDER_TRY(CheckAtMost(node.path(), static_cast<int64_t>(node.size()), kMaxVocabulary));
  for (size_t id = 0; id < node.size(); ++id) {
    OUTRIDER_ASSIGN(std::string token, node[id][0].String());
    if (token.empty() || token.size() > kMaxPieceBytes) {
      return node[id][0].Error(std::to_string(token.size()) + " bytes, must be 1 to " +
                               std::to_string(kMaxPieceBytes));
    }
    constexpr double kMax = 1e30;
    OUTRIDER_ASSIGN(spec.scores.emplace_back(), node[id][1].Number(-kMax, kMax));
    spec.vocabulary.emplace_back(std::move(token));
  }
  return Status();
}

Status ParseUnigram(const JsonValue& model, TokenizerSpec& spec) {
  if (spec.byte_level) return Unimplemented(model.path() + ": Unigram over GPT-2's byte alphabet");
  spec.model = TokenModelKind::kUnigram;
  OUTRIDER_TRY(ParseScoredVocabulary(model["vocab"], spec));
  OUTRIDER_ASSIGN(spec.unk_id,
                  model["unk_id"].Int(0, static_cast<int>(spec.vocabulary.size()) - 1));
  spec.unk_token = spec.vocabulary[static_cast<size_t>(spec.unk_id)];
  spec.fuse_unk = true;
  return model["byte_fallback"].Read(&spec.byte_fallback);
}

Status ParseWordPiece(const JsonValue& model, TokenizerSpec& spec) {
  if (spec.byte_level)
    return Unimplemented(model.path() + ": WordPiece over GPT-2's byte alphabet");
  spec.model = TokenModelKind::kWordPiece;
  OUTRIDER_TRY(ParseVocabulary(model["vocab"], spec));
  for (const auto& token : spec.vocabulary) {
    if (!token.has_value()) continue;
    OUTRIDER_TRY(CheckAtMost(model["vocab"].path() + ": a token",
                             static_cast<int64_t>(token->size()), kMaxPieceBytes, "bytes"));
  }
  spec.continuing_prefix = "##";
  int most = 100;
  OUTRIDER_ASSIGN(spec.unk_token, model["unk_token"].String());
  OUTRIDER_TRY(model["continuing_subword_prefix"].Read(&spec.continuing_prefix));
  OUTRIDER_TRY(model["max_input_chars_per_word"].Read(&most, 0));
  spec.most_word_characters = static_cast<size_t>(most);
  return Status();
}

Status ParseModel(const JsonValue& model, bool decoder_falls_back, TokenizerSpec& spec) {
  OUTRIDER_TRY(model.MustBeObject());
  std::string type = "BPE";
  OUTRIDER_TRY(model["type"].Read(&type));
  if (type == "Unigram") return ParseUnigram(model, spec);
  if (type == "WordPiece") return ParseWordPiece(model, spec);
  if (type != "BPE") return UnknownStep(model, type);
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string text;
    OUTRIDER_TRY(model[affix].Read(&text));
    if (!text.empty()) return model[affix].Unsupported("; only \"\" is");
  }
  const JsonValue dropout = model["dropout"];
  if (!dropout.is_null() && !dropout.Is(0)) return dropout.Unsupported("; only 0 is");
  OUTRIDER_TRY(ParseVocabulary(model["vocab"], spec));
  OUTRIDER_TRY(ParseMerges(model["merges"], spec));
  if (const JsonValue unk = model["unk_token"]; !unk.is_null()) {
    OUTRIDER_ASSIGN(spec.unk_token, unk.String());
  }
  OUTRIDER_TRY(model["fuse_unk"].Read(&spec.fuse_unk));
  OUTRIDER_TRY(model["ignore_merges"].Read(&spec.ignore_merges));
  // Old files lack the field; they have the byte tokens if byte fallback is meant.
  bool byte_fallback = decoder_falls_back || HasAllByteTokens(spec);
  OUTRIDER_TRY(model["byte_fallback"].Read(&byte_fallback));
  spec.byte_fallback = byte_fallback && !spec.byte_level;
  return Status();
}

// `id`: used if the node has none.
Result<AddedTokenSpec> ParseAddedToken(const JsonValue& node, TokenId id = -1) {
  OUTRIDER_TRY(node.MustBeObject());
  AddedTokenSpec token{.id = id};
  if (id < 0) {
    OUTRIDER_ASSIGN(token.id, Id(node["id"]));
  }
  OUTRIDER_ASSIGN(token.content, node["content"].String());
  if (token.content.empty()) return node["content"].Error("is empty");
  OUTRIDER_TRY(node["special"].Read(&token.special));
  OUTRIDER_TRY(node["normalized"].Read(&token.normalized));
  OUTRIDER_TRY(node["lstrip"].Read(&token.lstrip));
  OUTRIDER_TRY(node["rstrip"].Read(&token.rstrip));
  OUTRIDER_TRY(node["single_word"].Read(&token.single_word));
  return token;
}

Status ParseAddedTokens(const JsonValue& node, TokenizerSpec& spec) {
  if (node.is_null()) return Status();
  OUTRIDER_TRY(node.MustBeArray());
  size_t bytes = 0;
  for (size_t i = 0; i < node.size(); ++i) {
    OUTRIDER_ASSIGN(AddedTokenSpec token, ParseAddedToken(node[i]));
    bytes += token.content.size();
    if (bytes > kMaxAddedTokenBytes) {
      return node.Error("more than " + std::to_string(kMaxAddedTokenBytes) + " bytes of contents");
    }
    spec.added_tokens.push_back(std::move(token));
  }
  return Status();
}

// The special tokens of a TemplateProcessing's "single", before and after the text.
Status ParseTemplate(const JsonValue& node, TokenizerSpec& spec) {
  const JsonValue single = node["single"];
  OUTRIDER_TRY(single.MustBeArray());
  std::vector<TokenId> prefix, suffix;
  bool before = true;
  for (size_t i = 0; i < single.size(); ++i) {
    OUTRIDER_TRY(single[i].MustBeObject());
    if (!single[i]["Sequence"].is_null()) {
      before = false;
      continue;
    }
    OUTRIDER_ASSIGN(const std::string name, single[i]["SpecialToken"]["id"].String());
    const JsonValue ids = node["special_tokens"][name]["ids"];
    OUTRIDER_TRY(ids.MustBeArray());
    for (size_t k = 0; k < ids.size(); ++k) {
      OUTRIDER_ASSIGN((before ? prefix : suffix).emplace_back(), Id(ids[k]));
    }
  }
  spec.prompt_prefix.insert(spec.prompt_prefix.begin(), prefix.begin(), prefix.end());
  spec.prompt_suffix.insert(spec.prompt_suffix.end(), suffix.begin(), suffix.end());
  return Status();
}

Status ParsePostProcessor(const JsonValue& root, TokenizerSpec& spec) {
  OUTRIDER_ASSIGN(const std::vector<JsonValue> steps, TokenizerSteps(root, "processors"));
  for (const JsonValue& step : steps) {
    OUTRIDER_ASSIGN(const std::string type, step["type"].String());
    if (type == "TemplateProcessing") {
      OUTRIDER_TRY(ParseTemplate(step, spec));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      // Pairs of a token and its id.
      OUTRIDER_ASSIGN(const TokenId first, Id(step["cls"][1]));
      OUTRIDER_ASSIGN(const TokenId last, Id(step["sep"][1]));
      spec.prompt_prefix.insert(spec.prompt_prefix.begin(), first);
      spec.prompt_suffix.push_back(last);
    } else if (type != "ByteLevel") {  // which only changes offsets
      return UnknownStep(step, type);
    }
  }
  return Status();
}

// The member `key` as token text: a string, or an object with a "content".
Result<std::optional<std::string>> ParseTokenText(const JsonValue& node) {
  const JsonValue text = node.is_object() ? node["content"] : node;
  if (text.is_null()) return std::optional<std::string>();
  OUTRIDER_ASSIGN(std::string token, text.String());
  return std::optional<std::string>(std::move(token));
}

// A number or a list of them; -1 means none.
Result<std::vector<TokenId>> ParseIds(const JsonValue& node) {
  std::vector<TokenId> ids;
  if (node.is_null()) return ids;
  const size_t count = node.is_array() ? node.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    OUTRIDER_ASSIGN(const TokenId id,
                    (node.is_array() ? node[i] : node).Int(-1, kMaxVocabulary - 1));
    if (id >= 0) ids.push_back(id);
  }
  return ids;
}

// An empty object if the file does not exist.
Result<JsonValue> ReadOptionalObject(const std::filesystem::path& file) {
  Result<JsonValue> json = ReadJsonObject(file, kLimits);
  return json.status().code() == Code::kNotFound ? ParseJsonObject("{}", "the file") : json;
}

Status ParseTokenizerConfig(const JsonValue& json, ModelRoles& roles) {
  if (const JsonValue add_bos = json["add_bos_token"]; !add_bos.is_null()) {
    OUTRIDER_ASSIGN(roles.add_bos, add_bos.Bool());
  }
  if (const JsonValue add_eos = json["add_eos_token"]; !add_eos.is_null()) {
    OUTRIDER_ASSIGN(roles.add_eos, add_eos.Bool());
  }
  OUTRIDER_ASSIGN(roles.bos_token, ParseTokenText(json["bos_token"]));
  OUTRIDER_ASSIGN(roles.eos_token, ParseTokenText(json["eos_token"]));
  return Status();
}

// Only fills in what an earlier file has left open.
Status ParseModelConfig(const JsonValue& json, ModelRoles& roles) {
  if (!roles.bos_id.has_value()) {
    OUTRIDER_ASSIGN(const std::vector<TokenId> bos, ParseIds(json["bos_token_id"]));
    if (!bos.empty()) roles.bos_id = bos.front();
  }
  if (roles.eos_ids.empty()) {
    OUTRIDER_ASSIGN(roles.eos_ids, ParseIds(json["eos_token_id"]));
  }
  return Status();
}

}  // namespace

Result<TokenizerSpec> ParseTokenizerJson(std::string_view text) {
  OUTRIDER_ASSIGN(const JsonValue root, ParseJsonObject(text, "the file", kLimits));
  TokenizerSpec spec;
  bool decoder_falls_back = false;
  OUTRIDER_TRY(ParseNormalizer(root["normalizer"], spec));
  OUTRIDER_TRY(ParsePreTokenizer(root["pre_tokenizer"], spec));
  OUTRIDER_TRY(ParseDecoder(root["decoder"], spec, decoder_falls_back));
  OUTRIDER_TRY(ParseModel(root["model"], decoder_falls_back, spec));
  OUTRIDER_TRY(ParseAddedTokens(root["added_tokens"], spec));
  OUTRIDER_TRY(ParsePostProcessor(root["post_processor"], spec));
  return spec;
}

Result<ModelRoles> ReadModelRoles(const std::filesystem::path& model_dir) {
  ModelRoles roles;
  OUTRIDER_ASSIGN(const JsonValue tokenizer,
                  ReadOptionalObject(model_dir / "tokenizer_config.json"));
  OUTRIDER_TRY(ParseTokenizerConfig(tokenizer, roles));
  for (const char* name : {"generation_config.json", "config.json"}) {
    OUTRIDER_ASSIGN(const JsonValue config, ReadOptionalObject(model_dir / name));
    OUTRIDER_TRY(ParseModelConfig(config, roles));
  }
  return roles;
}

Result<std::vector<AddedTokenSpec>> ReadAddedTokensOf(const std::filesystem::path& model_dir) {
  std::vector<AddedTokenSpec> tokens;
  OUTRIDER_ASSIGN(const JsonValue config, ReadOptionalObject(model_dir / "tokenizer_config.json"));
  const JsonValue decoder = config["added_tokens_decoder"];
  if (decoder.is_object()) {
    OUTRIDER_TRY(
        decoder.ForEachMember([&](const std::string& name, const JsonValue& value) -> Status {
          TokenId id = -1;
          const char* const end = name.data() + name.size();
          if (std::from_chars(name.data(), end, id).ptr != end || id < 0 || id >= kMaxVocabulary) {
            return decoder.Error("has the member \"" + Printable(name, kMaxShownText) +
                                 "\", must be ids");
          }
          OUTRIDER_ASSIGN(tokens.emplace_back(), ParseAddedToken(value, id));
          return Status();
        }));
  } else {
    OUTRIDER_ASSIGN(const JsonValue list, ReadOptionalObject(model_dir / "added_tokens.json"));
    OUTRIDER_TRY(list.ForEachMember([&](const std::string& name, const JsonValue& value) -> Status {
      if (name.empty()) return list.Error("has an empty token");
      OUTRIDER_ASSIGN(const TokenId id, Id(value));
      const bool looks_special = name.front() == '<' && name.back() == '>';
      tokens.push_back({.id = id, .content = name, .special = looks_special});
      return Status();
    }));
  }
  size_t bytes = 0;
  for (const AddedTokenSpec& token : tokens) bytes += token.content.size();
  OUTRIDER_TRY(CheckAtMost(model_dir.string() + ": added tokens", static_cast<int64_t>(bytes),
                           static_cast<int64_t>(kMaxAddedTokenBytes), "bytes"));
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedTokenSpec& a, const AddedTokenSpec& b) { return a.id < b.id; });
  return tokens;
}

}  // namespace outrider
