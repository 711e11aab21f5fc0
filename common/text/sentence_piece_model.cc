#include "common/text/sentence_piece_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/sentence_piece.h"
#include "common/text/tokenizer_json.h"

namespace outrider {
namespace {

// One field of a message: a number, or bytes.
struct ProtoField {
  uint64_t number = 0;
  uint64_t value = 0;      // for varint and fixed-size wire types
  std::string_view bytes;  // for the wire type "length-delimited"
  bool has_bytes = false;
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  // nullopt at the end.
  Result<std::optional<ProtoField>> Next() {
    if (rest_.empty()) return std::optional<ProtoField>();
    OUTRIDER_ASSIGN(const uint64_t key, Varint());
    ProtoField field{.number = key >> 3};
    switch (key & 7) {
      case 0: {
        OUTRIDER_ASSIGN(field.value, Varint());
        return std::optional(field);
      }
      case 1: {
        OUTRIDER_ASSIGN(const std::string_view bytes, Take(8));
        std::memcpy(&field.value, bytes.data(), 8);
        return std::optional(field);
      }
      case 5: {
        OUTRIDER_ASSIGN(const std::string_view bytes, Take(4));
        std::memcpy(&field.value, bytes.data(), 4);
        return std::optional(field);
      }
      case 2: {
        OUTRIDER_ASSIGN(const uint64_t length, Varint());
        OUTRIDER_ASSIGN(field.bytes, Take(length));
        field.has_bytes = true;
        return std::optional(field);
      }
      default: break;
    }
    return InvalidArgument("is no SentencePiece model: a field of the wire type " +
                           std::to_string(key & 7));
  }

 private:
  Result<std::string_view> Take(uint64_t bytes) {
    if (bytes > rest_.size()) {
      return InvalidArgument("ends within a field of " + std::to_string(bytes) + " bytes");
    }
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(bytes));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  Result<uint64_t> Varint() {
    constexpr int kMostBits = 63;
    uint64_t value = 0;
    for (int shift = 0; shift <= kMostBits && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return InvalidArgument("is no SentencePiece model: a number that does not end");
  }

  std::string_view rest_;
};

// Calls visit(field) for each field of a message.
template <class Visit>
Status ForEachField(std::string_view message, const Visit& visit) {
  ProtoReader reader(message);
  while (true) {
    OUTRIDER_ASSIGN(const std::optional<ProtoField> field, reader.Next());
    if (!field.has_value()) return Status();
    OUTRIDER_TRY(visit(*field));
  }
}

// The relevant fields of the message, with their defaults.
struct Model {
  std::vector<SentencePiece> pieces;
  uint64_t kind = 1;  // of TrainerSpec.ModelType: 1 Unigram, 2 BPE, 3 words, 4 characters
  bool space_as_suffix = false;
  std::string_view character_map;
  bool adds_space = true;
  bool trims_spaces = true;
  bool escapes_spaces = true;
};

Status ReadPiece(std::string_view message, Model* model) {
  if (model->pieces.size() >= static_cast<size_t>(kMaxVocabulary)) {
    return InvalidArgument("more than " + std::to_string(kMaxVocabulary) + " pieces");
  }
  SentencePiece piece;
  OUTRIDER_TRY(ForEachField(message, [&](const ProtoField& field) {
    if (field.number == 1 && field.has_bytes) piece.text = field.bytes;
    if (field.number == 2 && !field.has_bytes) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof bits);
    }
    if (field.number == 3 && !field.has_bytes) {
      piece.type = static_cast<SentencePiece::Type>(std::min<uint64_t>(field.value, 100));
    }
    return Status();
  }));
  if (!std::isfinite(piece.score)) {
    return InvalidArgument("piece " + std::to_string(model->pieces.size()) +
                           " has a score that is not finite");
  }
  model->pieces.push_back(std::move(piece));
  return Status();
}

Status ReadTrainerSpec(std::string_view message, Model* model) {
  return ForEachField(message, [&](const ProtoField& field) {
    if (field.number == 3) model->kind = field.value;
    if (field.number == 24) model->space_as_suffix = field.value != 0;
    return Status();
  });
}

Status ReadNormalizerSpec(std::string_view message, Model* model) {
  return ForEachField(message, [&](const ProtoField& field) {
    if (field.number == 2) model->character_map = field.bytes;
    if (field.number == 3) model->adds_space = field.value != 0;
    if (field.number == 4) model->trims_spaces = field.value != 0;
    if (field.number == 5) model->escapes_spaces = field.value != 0;
    return Status();
  });
}

Result<Model> ReadModel(std::string_view bytes) {
  Model model;
  OUTRIDER_TRY(ForEachField(bytes, [&](const ProtoField& field) -> Status {
    if (!field.has_bytes) return Status();
    if (field.number == 1) return ReadPiece(field.bytes, &model);
    if (field.number == 2) return ReadTrainerSpec(field.bytes, &model);
    if (field.number == 3) return ReadNormalizerSpec(field.bytes, &model);
    return Status();
  }));
  if (model.pieces.empty()) return InvalidArgument("is no SentencePiece model: it has no pieces");
  if (model.kind != 1 && model.kind != 2) {
    return Unimplemented("its model type is number " + std::to_string(model.kind) +
                         "; supported: Unigram (1) and BPE (2)");
  }
  if (model.space_as_suffix) return Unimplemented("treat_whitespace_as_suffix is not supported");
  if (!model.escapes_spaces) return Unimplemented("escape_whitespaces is off, not supported");
  return model;
}

}  // namespace

Result<TokenizerSpec> ParseSentencePieceModel(std::string_view bytes) {
  OUTRIDER_ASSIGN(const Model model, ReadModel(bytes));
  TokenizerSpec spec;
  if (!model.character_map.empty()) {
    spec.normalizer.emplace_back(PrecompiledStep{std::string(model.character_map)});
  }
  if (model.trims_spaces) {
    spec.normalizer.emplace_back(ReplaceStep{{.text = "^ +| +$", .regex = true}, ""});
    spec.normalizer.emplace_back(ReplaceStep{{.text = " {2,}", .regex = true}, " "});
  }
  const bool is_bpe = model.kind == 2;
  OUTRIDER_TRY(is_bpe ? FillSentencePieceBpe(model.pieces, model.adds_space, &spec)
                      : FillSentencePieceUnigram(model.pieces, model.adds_space, &spec));
  return spec;
}

Status ReadAddedTokensBeside(const std::filesystem::path& model_dir, TokenizerSpec* spec) {
  OUTRIDER_ASSIGN(const std::vector<AddedTokenSpec> tokens, ReadAddedTokensOf(model_dir));
  std::map<TokenId, size_t> known;
  for (size_t i = 0; i < spec->added_tokens.size(); ++i) known[spec->added_tokens[i].id] = i;
  for (const AddedTokenSpec& token : tokens) {
    const auto found = known.emplace(token.id, spec->added_tokens.size());
    if (found.second) {
      spec->added_tokens.push_back(token);
    } else {
      spec->added_tokens[found.first->second] = token;
    }
  }
  return Status();
}

}  // namespace outrider
