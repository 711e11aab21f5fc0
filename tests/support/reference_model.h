// The oracle of the model tests: a dense decoder in plain float64 loops, with full attention over a
// token list, straight from the files of an HF directory. Shares no code with common/model or a
// backend, has no cache, and throws std::runtime_error on files it does not like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/support/dequantize.h"

namespace outrider {

class ReferenceModel {
 public:
  explicit ReferenceModel(const std::filesystem::path& directory);

  int vocab_size() const { return vocab_; }
  // Gives one layer another RoPE base.
  void SetRopeTheta(int layer, double theta);
  // Logits [vocab_size] of every position of `tokens`.
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens) const;

 private:
  using Vector = std::vector<double>;

  void ReadConfig(const std::filesystem::path& path);
  void ReadWeights(const std::filesystem::path& path);
  const Vector& Weight(const std::string& name) const;
  // y = W x + b, W named `name`.weight and b `name`.bias where there is one.
  Vector Linear(const std::string& name, const Vector& x) const;
  Vector Norm(const Vector& x, const Vector& gain) const;
  void ReadGemma2(const nlohmann::json& config);
  double Activate(double x) const;
  void Rotate(int layer, Vector& heads, int position) const;
  // Attention of the last row over all rows of keys and values.
  Vector Attend(int layer, const Vector& query, const std::vector<Vector>& keys,
                const std::vector<Vector>& values) const;

  int vocab_ = 0;
  int layers_ = 0;
  int heads_ = 0;
  int kv_heads_ = 0;
  int head_dim_ = 0;
  std::vector<int> windows_;  // by layer; 0: none
  bool tied_ = false;
  // Of Gemma 2: of its own norms, gains and activation too.
  bool gemma_ = false;
  double query_scalar_ = 0;
  double score_cap_ = 0, logit_cap_ = 0;  // 0: none
  double embedding_scale_ = 1;
  double eps_ = 0;
  std::vector<Vector> frequencies_;  // by layer
  std::map<std::string, WideTensor> tensors_;
};

}  // namespace outrider
