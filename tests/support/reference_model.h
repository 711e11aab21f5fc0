// The oracle of the model tests: a decoder in plain float64 loops, with full attention over a token
// list, directly from the files of an HF directory. Shares no code with common/model or a backend,
// has no cache, and throws std::runtime_error on files that it does not support.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/dequantize.h"

namespace outrider {

class ReferenceModel {
 public:
  explicit ReferenceModel(const std::filesystem::path& directory);

  int vocab_size() const { return vocab_; }
  // Gives one layer another RoPE base.
  void SetRopeTheta(int layer, double theta);
  // From now on keys and values are rounded to FP8 (E4M3), with the scales under
  // compressed-tensors' names in the files, or 1.
  void RoundKvToFp8() { rounds_kv_ = true; }
  // For the last Logits after that: the smallest distance of a key or value from a boundary between
  // two codes, relative to the largest magnitude of its row. A float with a larger error may become
  // another code.
  double code_margin() const { return code_margin_; }
  // Logits [vocab_size] of every position of `tokens`.
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens) const;

 private:
  using Vector = std::vector<double>;

  struct Rope {
    Vector frequencies;  // of each rotated pair; a head's remaining values are not rotated
    double factor = 1;   // of rotated values
  };
  struct Layer {
    int window = 0;  // 0: none
    bool mixture = false;
    Rope rope;
  };
  // A mixture of experts, with the names of its tensors.
  struct Mixture {
    std::string block, gate, up, down;
    std::string router = "gate";
    size_t top_k = 0;
    bool normalize = true;
    bool stacked = false;  // one tensor per projection for all experts
  };
  // Names of a layer's norms; "": none.
  struct Norms {
    std::string attention = "input_layernorm", attention_after;
    std::string mlp = "post_attention_layernorm", mlp_after;
  };

  void ReadConfig(const std::filesystem::path& path);
  void ReadArchitecture(const nlohmann::json& config, const std::string& name);
  void ReadGemma(const nlohmann::json& config, bool third);
  void ReadGranite(const nlohmann::json& config);
  void ReadMixtures(const nlohmann::json& config, const std::string& name);
  void ReadWindows(const nlohmann::json& config, const std::string& name);
  void ReadRopes(const nlohmann::json& config, const std::string& name);
  // `scaling`: "rope_scaling" or "rope_parameters" of one kind of layers. `theta` is the default if
  // it has none.
  Rope ReadRope(const nlohmann::json& config, const nlohmann::json& scaling, double theta) const;
  void ReadWeights(const std::filesystem::path& path);
  const Vector& Weight(const std::string& name) const;
  // y = W x + b, with W named `name`.weight and b `name`.bias, if it exists.
  Vector Linear(const std::string& name, const Vector& x) const;
  Vector Norm(const Vector& x, const Vector& gain) const;
  // The same, given the gain's name without ".weight"; x itself if `suffix` is "".
  Vector NormNamed(const Vector& x, const std::string& prefix, const std::string& suffix) const;
  // The projections `names` (or one matrix of all of them, `fused`) of x.
  std::vector<Vector> Project(const std::string& prefix, const std::string& fused,
                              const std::vector<std::string>& names,
                              const std::vector<size_t>& sizes, const Vector& x) const;
  double Activate(double x) const;
  // Rounds the keys or the values of one position to codes with the scale of that name.
  void RoundToFp8(const std::string& scale, Vector& row) const;
  void Rotate(const Rope& rope, Vector& heads, int position) const;
  // Attention of the last row over all rows of keys and values. `sinks`: one per head, or null.
  Vector Attend(int window, const Vector* sinks, const Vector& query,
                const std::vector<Vector>& keys, const std::vector<Vector>& values) const;
  // Adds a layer's attention, or its MLP, to the states.
  void AddAttention(int layer, std::vector<Vector>& states) const;
  void AddMlp(int layer, std::vector<Vector>& states) const;
  // The output of a layer's MLP, or of its mixture, for x.
  Vector Mlp(const std::string& name, const Vector& x) const;
  Vector Mix(const std::string& name, const Vector& x) const;
  Vector StackedExpert(const std::string& experts, size_t expert, const Vector& x) const;
  Vector StackedLinear(const std::string& name, size_t expert, const Vector& x) const;
  // The experts of x with their weights.
  std::vector<std::pair<size_t, double>> Choose(const Vector& logits) const;

  int vocab_ = 0;
  int heads_ = 0;
  int kv_heads_ = 0;
  int head_dim_ = 0;
  int intermediate_ = 0;
  bool tied_ = false;
  std::vector<Layer> layers_;
  Norms norms_;
  Mixture mixture_;
  double gain_offset_ = 0;
  bool gelu_ = false;
  double score_scale_ = 0;
  double score_cap_ = 0, logit_cap_ = 0;  // 0: none
  double embedding_scale_ = 1, residual_scale_ = 1, logit_scale_ = 1;
  double eps_ = 0;
  std::map<std::string, WideTensor> tensors_;
  bool rounds_kv_ = false;
  mutable double code_margin_ = 0;
};

}  // namespace outrider
