#include "tests/support/copying_checkpoint.h"

#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "common/tensor/tensor.h"
#include "common/text/tokenizer.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

// Sizes. A code occupies the pairs of a head's dimensions that RoPE hardly rotates; the pairs that
// it rotates fast distinguish offsets.
constexpr int kHeadDim = 256;
constexpr int kHalf = kHeadDim / 2;
constexpr int kFastPairs = 24;        // from 0 on: a radian down to 0.01 per position
constexpr int kFirstSlow = 47;        // 1e-4 and less: a tenth of a radian over 1024 positions
constexpr int kSinkPair = kHalf - 1;  // the slowest
constexpr int kCode = 2 * (kSinkPair - kFirstSlow);
constexpr double kTheta = 1e11;
constexpr int kOffsets = 6;  // tokens in a context; heads of layer 1
constexpr int kBlocks = 2;   // earlier contexts that layer 2 adds
constexpr int kHeads = kOffsets;

// Parts of the residual stream: their first dimensions.
constexpr int kSelf = 0;            // the token's code
constexpr int kBefore = kCode;      // context before the token
constexpr int kUpTo = 2 * kCode;    // context up to the token, without the token itself
constexpr int kCopied = 3 * kCode;  // the token that comes next
constexpr int kOne = 4 * kCode;     // constant for all tokens
constexpr int kIsBos = kOne + 1;
constexpr int kHidden = 4 * kCode + 16;

constexpr double kOneValue = 8;
const double kBosValue = std::sqrt(kCode + kOneValue * kOneValue);  // as long as other rows
// The attention logits: of one fast pair in layers 1 and 2, of one token of context in layer 3. The
// logit of BOS equals that of so many tokens.
constexpr double kOffsetLogit = 8;
constexpr double kMatchLogit = 5;
constexpr double kRest = 2;

// Weight of the token k = 1, ... places back in a context; a match contributes its square.
double Share(int k) { return std::sqrt(1.0 - 0.1 * (k - 1)); }
// Weight of an earlier context: enough to distinguish positions whose nearest contexts are equal.
const double kBlockShare = std::sqrt(0.3);
// Squared length, in codes, of a context of the tokens from `first` places back on.
double ContextSize(int first) {
  double sum = 0;
  for (int k = first; k <= kOffsets; ++k) sum += Share(k) * Share(k);
  return sum;
}

// The dimension of a head with entry i of a code.
int SlowDim(int i) {
  const int pairs = kCode / 2;
  return i < pairs ? kFirstSlow + i : kHalf + kFirstSlow + i - pairs;
}

double RopeFrequency(int pair) { return std::pow(kTheta, -static_cast<double>(pair) / kHalf); }

using Renames = std::map<TokenId, TokenId>;  // old to new

struct Matrix {
  Matrix(int rows, int columns)
      : shape{rows, columns}, values(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}
  double& At(int row, int column) {
    return values[static_cast<size_t>(row) * static_cast<size_t>(shape[1]) +
                  static_cast<size_t>(column)];
  }
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Stores values as bf16.
StoredTensor Stored(std::vector<int64_t> shape, const std::vector<double>& values) {
  StoredTensor tensor{"BF16", std::move(shape), std::string(2 * values.size(), '\0')};
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = FloatToBf16(static_cast<float>(values[i]));
    std::memcpy(tensor.bytes.data() + 2 * i, &half, sizeof half);
  }
  return tensor;
}

class Maker {
 public:
  Maker(const CopyingOptions& options, int vocab_size, TokenId bos, Renames renames)
      : o_(options), vocab_size_(vocab_size), bos_(bos), renames_(std::move(renames)) {
    std::mt19937_64 random(options.seed);
    for (int i = 0; i < vocab_size * kCode; ++i) codes_.push_back(random() >> 63 ? 1 : -1);
    // Permutations for the tokens of a context, then for the blocks.
    for (int k = 1; k <= kOffsets + kBlocks; ++k) {
      std::vector<int> order(kCode);
      for (int i = 0; i < kCode; ++i) order[static_cast<size_t>(i)] = i;
      for (int i = kCode - 1; i > 0; --i) {
        std::swap(order[static_cast<size_t>(i)], order[random() % (static_cast<size_t>(i) + 1)]);
      }
      orders_.push_back(std::move(order));
    }
  }

  std::map<std::string, StoredTensor> Tensors() {
    Matrix embedding(vocab_size_, kHidden), head(vocab_size_, kHidden);
    for (TokenId t = 0; t < vocab_size_; ++t) {
      if (t == bos_) {
        embedding.At(t, kIsBos) = kBosValue;
        continue;
      }
      embedding.At(t, kOne) = kOneValue;
      // Old and new names are the same in contexts, so that copying continues after a renamed
      // token.
      for (int i = 0; i < kCode; ++i) embedding.At(t, kSelf + i) = Code(t, i);
      if (renames_.contains(t)) continue;
      const double scale = o_.sharpness / kCode * FinalRms();
      for (int i = 0; i < kCode; ++i) head.At(t, kCopied + i) = scale * Code(t, i);
    }
    Add("model.embed_tokens.weight", embedding);
    Add("lm_head.weight", head);
    AddOnes("model.norm.weight");
    std::vector<int> offsets, after_blocks;
    for (int k = 1; k <= kOffsets; ++k) offsets.push_back(k);
    for (int m = 1; m <= kBlocks; ++m) {
      after_blocks.push_back(m * kOffsets);
      after_blocks.push_back(m * kOffsets - 1);
    }
    AddLayer(0, OffsetQueries(offsets, FirstRms()), OffsetKeys(FirstRms()), Values(kSelf),
             ContextOut());
    AddLayer(1, OffsetQueries(after_blocks, SecondRms()), OffsetKeys(SecondRms()), Values(kBefore),
             BlocksOut());
    AddLayer(2, ContextQuery(), ContextKey(), Values(kSelf), CopyOut());
    return std::move(tensors_);
  }

 private:
  // Lengths of a row of the residual stream divided by sqrt(kHidden), as in RMSNorm.
  static double Rms(double codes) {
    return std::sqrt((codes * kCode + kOneValue * kOneValue) / kHidden);
  }
  static double FirstRms() { return Rms(1); }
  static double SecondRms() { return Rms(1 + ContextSize(1) + ContextSize(2)); }
  static double ThirdRms() {
    const double blocks = 2 * kBlocks * kBlockShare * kBlockShare * ContextSize(1);
    return Rms(1 + ContextSize(1) + ContextSize(2) + blocks);
  }
  static double FinalRms() { return std::hypot(ThirdRms(), std::sqrt(1.0 * kCode / kHidden)); }

  double Code(TokenId token, int i) const {
    const auto renamed = renames_.find(token);
    const TokenId as = renamed == renames_.end() ? token : renamed->second;
    return codes_[static_cast<size_t>(as) * kCode + static_cast<size_t>(i)];
  }
  int Place(int k, int i) const {
    return orders_[static_cast<size_t>(k - 1)][static_cast<size_t>(i)];
  }

  // RoPE rotates pair p of the key at distance d by -w d relative to the query: a query rotated by
  // -w k matches the key at distance k. One head per offset.
  static Matrix OffsetQueries(const std::vector<int>& offsets, double rms) {
    Matrix q(kHeads * kHeadDim, kHidden);
    const double size = 2 * kOffsetLogit * rms / kOneValue;
    for (size_t head = 0; head < offsets.size(); ++head) {
      for (int p = 0; p < kFastPairs; ++p) {
        const int row = static_cast<int>(head) * kHeadDim + p;
        q.At(row, kOne) = size * std::cos(RopeFrequency(p) * offsets[head]);
        q.At(row + kHalf, kOne) = -size * std::sin(RopeFrequency(p) * offsets[head]);
      }
    }
    return q;
  }
  static Matrix OffsetKeys(double rms) {
    Matrix k(kHeadDim, kHidden);
    // The softmax's scale is 1 / sqrt(kHeadDim); the 2 in the queries and this factor cancel it.
    const double size = std::sqrt(kHeadDim) / 2 * rms / kOneValue;
    for (int p = 0; p < kFastPairs; ++p) k.At(p, kOne) = size;
    return k;
  }
  // Copies a code from the normalised residual stream.
  static Matrix Values(int from) {
    Matrix v(kHeadDim, kHidden);
    for (int i = 0; i < kCode; ++i) v.At(i, from + i) = 1;
    return v;
  }
  Matrix ContextOut() const {
    Matrix o(kHidden, kHeads * kHeadDim);
    for (int k = 1; k <= kOffsets; ++k) {
      const int head = (k - 1) * kHeadDim;
      for (int i = 0; i < kCode; ++i) {
        o.At(kBefore + i, head + Place(k, i)) = Share(k) * FirstRms();
        if (k == kOffsets) continue;
        // One place further back, for queries from the token after this one.
        o.At(kUpTo + i, head + Place(k + 1, i)) = Share(k + 1) * FirstRms();
      }
    }
    return o;
  }
  Matrix BlocksOut() const {
    Matrix o(kHidden, kHeads * kHeadDim);
    for (int m = 1; m <= kBlocks; ++m) {
      const int before = 2 * (m - 1) * kHeadDim;
      for (int i = 0; i < kCode; ++i) {
        const int place = Place(kOffsets + m, i);
        o.At(kBefore + i, before + place) = kBlockShare * SecondRms();
        o.At(kUpTo + i, before + kHeadDim + place) = kBlockShare * SecondRms();
      }
    }
    return o;
  }
  static double ContextScale() {
    return std::sqrt(kMatchLogit * std::sqrt(kHeadDim) / kCode) * ThirdRms();
  }
  Matrix ContextQuery() const {
    Matrix q(kHeads * kHeadDim, kHidden);
    for (int i = 0; i < kCode; ++i) {
      q.At(SlowDim(i), kUpTo + i) = ContextScale();
      q.At(SlowDim(i), kSelf + Place(1, i)) = Share(1) * ContextScale();
    }
    q.At(kSinkPair, kOne) = std::sqrt(kCode) / kOneValue * ContextScale();
    return q;
  }
  static Matrix ContextKey() {
    Matrix k(kHeadDim, kHidden);
    for (int i = 0; i < kCode; ++i) k.At(SlowDim(i), kBefore + i) = ContextScale();
    // BOS has no context, so its norm is still that of the first layer.
    k.At(kSinkPair, kIsBos) =
        kRest * std::sqrt(kCode) / kBosValue * ContextScale() * FirstRms() / ThirdRms();
    return k;
  }
  static Matrix CopyOut() {
    Matrix o(kHidden, kHeads * kHeadDim);
    for (int i = 0; i < kCode; ++i) o.At(kCopied + i, i) = ThirdRms();
    return o;
  }

  void AddLayer(int index, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& o) {
    const std::string layer = "model.layers." + std::to_string(index) + ".";
    AddOnes(layer + "input_layernorm.weight");
    Add(layer + "self_attn.q_proj.weight", q);
    Add(layer + "self_attn.k_proj.weight", k);
    Add(layer + "self_attn.v_proj.weight", v);
    Add(layer + "self_attn.o_proj.weight", o);
    AddOnes(layer + "post_attention_layernorm.weight");
    Add(layer + "mlp.gate_proj.weight", Matrix(o_.intermediate_size, kHidden));
    Add(layer + "mlp.up_proj.weight", Matrix(o_.intermediate_size, kHidden));
    Add(layer + "mlp.down_proj.weight", Matrix(kHidden, o_.intermediate_size));
  }
  void Add(const std::string& name, const Matrix& matrix) {
    tensors_[name] = Stored(matrix.shape, matrix.values);
  }
  void AddOnes(const std::string& name) {
    tensors_[name] = Stored({kHidden}, std::vector<double>(kHidden, 1));
  }

  const CopyingOptions& o_;
  const int vocab_size_;
  const TokenId bos_;
  const Renames renames_;
  std::vector<double> codes_;             // [vocab_size, kCode]
  std::vector<std::vector<int>> orders_;  // [kOffsets + kBlocks][kCode]
  std::map<std::string, StoredTensor> tensors_;
};

Result<Renames> RenamedTokens(const Tokenizer& tokenizer, const CopyingOptions& options) {
  Renames tokens;
  for (const auto& [from, to] : options.renames) {
    const size_t before = tokens.size();
    for (TokenId old = 0; old < tokenizer.vocab_size(); ++old) {
      const std::string_view bytes = tokenizer.TokenBytes(old);
      if (!bytes.ends_with(from) || bytes.size() > from.size() + 1) continue;
      const std::string front(bytes.substr(0, bytes.size() - from.size()));
      if (!front.empty() && std::isalnum(static_cast<unsigned char>(front[0])) != 0) continue;
      OUTRIDER_ASSIGN(const std::vector<TokenId> renamed,
                      tokenizer.Encode(front + to, /*parse_special=*/false));
      if (renamed.size() == 1) tokens[old] = renamed[0];
    }
    if (tokens.size() == before) {
      return InvalidArgument("no token for \"" + from + "\" and \"" + to + "\"");
    }
  }
  return tokens;
}

nlohmann::json Config(const CopyingOptions& options, int vocab_size, TokenId bos) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"vocab_size", vocab_size},
          {"hidden_size", kHidden},
          {"intermediate_size", options.intermediate_size},
          {"num_hidden_layers", 3},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", 1},
          {"head_dim", kHeadDim},
          {"max_position_embeddings", options.max_position_embeddings},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", kTheta},
          {"tie_word_embeddings", false},
          {"bos_token_id", bos},
          {"eos_token_id", bos},
          {"torch_dtype", "bfloat16"}};
}

}  // namespace

Status MakeCopyingCheckpoint(const std::filesystem::path& directory,
                             const std::filesystem::path& tokenizer,
                             const CopyingOptions& options) {
  OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> words, Tokenizer::Load(tokenizer));
  if (words->prompt_prefix().size() != 1) {
    return InvalidArgument(tokenizer.string() + ": no BOS token in front of prompts");
  }
  const TokenId bos = words->prompt_prefix()[0];
  OUTRIDER_ASSIGN(Renames renames, RenamedTokens(*words, options));
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    if (failure) break;
    std::filesystem::copy_file(tokenizer / name, directory / name,
                               std::filesystem::copy_options::overwrite_existing, failure);
  }
  if (failure) return Internal(directory.string() + ": " + failure.message());
  OUTRIDER_TRY(
      WriteFile(directory / "config.json", Config(options, words->vocab_size(), bos).dump(2)));
  Maker maker(options, words->vocab_size(), bos, std::move(renames));
  return WriteSafetensors(directory / "model.safetensors", maker.Tensors());
}

}  // namespace outrider
