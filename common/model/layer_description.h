// Describes what the layers of a decoder compute. A file of architectures/ reads it from
// config.json; loading (weights.h) and running (transformer.h) follow it and know no architectures.
//
// A layer has two halves, attention and the MLP. Each reads the normalised residual stream and adds
// its result, which may be normalised too, to it. Each half has a struct of its own. The MLP may be
// a mixture of experts: MlpDescription::mixture.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/backend/experts.h"

namespace outrider {

// How RoPE frequencies are rescaled for long contexts: the "rope_type" of config.json.
// rope_table.cc has the formulas.

// "linear": every frequency is divided by `factor`.
struct LinearRopeScaling {
  float factor = 1.f;

  bool operator==(const LinearRopeScaling&) const = default;
};

// "llama3", as in Llama 3.1.
struct Llama3RopeScaling {
  float factor = 1.f;
  float low_freq_factor = 1.f;
  float high_freq_factor = 4.f;
  int original_max_position_embeddings = 0;

  bool operator==(const Llama3RopeScaling&) const = default;
};

// "yarn" (Peng et al. 2023, "YaRN", section 3.2).
struct YarnRopeScaling {
  float factor = 1.f;
  float beta_fast = 32.f;
  float beta_slow = 1.f;
  int original_max_position_embeddings = 0;
  bool truncate = true;  // the ramp between the two betas begins and ends at whole pairs

  bool operator==(const YarnRopeScaling&) const = default;
};

// "longrope" (Ding et al. 2024, "LongRoPE"): each frequency is divided by its own factor.
struct LongRopeScaling {
  std::vector<float> factors;  // [dims / 2]

  bool operator==(const LongRopeScaling&) const = default;
};

struct RopeDescription {
  int dims = 0;  // leading values of each head of q and k that are rotated, even; 0: no rotation
  float theta = 10000.f;
  std::variant<std::monostate, LinearRopeScaling, Llama3RopeScaling, YarnRopeScaling,
               LongRopeScaling>
      scaling;
  float attention_factor = 1.f;  // factor of rotated values

  bool operator==(const RopeDescription&) const = default;
};

// How q and k are normalised before the rotation. kHeads: each head by itself, all with the same
// gains. kProjection: all heads together.
enum class QkNorm { kNone, kHeads, kProjection };

// Norms are RMS norms, given by the checkpoint's names for their gains.
struct AttentionDescription {
  const char* norm = "input_layernorm";  // of the half's input; null: none
  const char* norm_after = nullptr;      // of its result; null: none
  bool fused_qkv = false;                // the checkpoint has q, k and v as one matrix, qkv_proj
  bool qkv_bias = false;                 // q, k and v have biases
  bool out_bias = false;                 // the output projection has a bias
  QkNorm qk_norm = QkNorm::kNone;
  RopeDescription rope;
  int window = 0;          // positions that a token sees, itself the last; 0: all
  float soft_cap = 0;      // of scores, as in AttentionShape; 0: none
  float query_scalar = 0;  // scores are q.k / sqrt(query_scalar); 0: the head size is used
  bool sinks = false;      // each head's softmax has one more score, as in AttentionShape
};

// Several MLPs, of which a router chooses a few for each row. The result is the sum of their
// outputs, weighted by the router (Shazeer et al. 2017, "Outrageously Large Neural Networks").
struct MixtureDescription {
  RouterShape router;
  int intermediate_size = 0;  // of each expert
  // The names of the tensors, which all begin with `block`. Expert e's are
  // "experts.<e>.<gate>.weight".
  const char* block = "mlp.";
  const char* router_name = "gate";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  // The router and all projections have biases: "<router>.bias", "experts.<e>.<gate>.bias".
  bool biases = false;
  // gpt-oss: the checkpoint has one tensor per projection for all experts, with gate and up as
  // alternating rows of one matrix; the same for biases.
  bool stacked = false;
};

struct MlpDescription {
  const char* norm = "post_attention_layernorm";  // null: none
  const char* norm_after = nullptr;
  bool fused_gate_up = false;  // the checkpoint has gate and up as one matrix, gate_up_proj
  bool bias = false;           // all three projections have biases
  Activation activation = Activation::kSilu;
  // Replaces the one MLP of config.intermediate_size; fused_gate_up and `bias` are then ignored.
  std::optional<MixtureDescription> mixture;
};

struct LayerDescription {
  AttentionDescription attention;
  MlpDescription mlp;
};

}  // namespace outrider
