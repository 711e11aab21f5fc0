// Reads the tensors of a checkpoint and packs them for a backend. The names of the tensors come
// from the caller (weights.cc).
//
//   WeightLoader loader(config, checkpoint, WeightType::kBf16, backend, progress);
//   OUTRIDER_ASSIGN(out.norm, loader.LoadNorm("model.norm", hidden));
//   OUTRIDER_ASSIGN(out.head, loader.LoadMatrix("lm_head.weight", vocab, hidden));
//   loader.LogTypes();
//
// Thread: one. Errors: those of LoadWeights (weights.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/quantized_tensors.h"
#include "common/model/safetensors.h"
#include "common/model/stacked_experts.h"
#include "common/model/weights.h"

namespace outrider {

class WeightLoader {
 public:
  // A part of a matrix: some of its rows, which are a tensor of the checkpoint.
  struct Part {
    std::string name;
    int64_t rows = 0;
  };

  // `type`: the type of floats, and of codes where there is a choice. All references must outlive
  // the loader.
  WeightLoader(const ModelConfig& config, const Checkpoint& checkpoint, WeightType type,
               Backend& backend, const LoadProgress& progress);

  // A matrix [rows, columns].
  Result<std::unique_ptr<PackedMatrix>> LoadMatrix(const std::string& name, int64_t rows,
                                                   int64_t columns);
  // Stacks the parts' rows. All have `columns` columns.
  Result<std::unique_ptr<PackedMatrix>> LoadMatrix(const std::vector<Part>& parts, int64_t columns);

  // A matrix with one row per token, for which 4 bits are too few.
  Result<std::unique_ptr<PackedMatrix>> LoadTokenTable(const std::string& name, int64_t rows,
                                                       int64_t columns);

  // A mixture's router is kept in f32, so that the choice of experts is not affected by rounding.
  Result<std::unique_ptr<PackedMatrix>> LoadRouter(const std::string& name, int64_t rows,
                                                   int64_t columns);

  // One projection of all experts; `parts` gives the parts of each expert's matrix.
  Result<std::unique_ptr<ExpertMatrices>> LoadExperts(
      int experts, int64_t columns, const std::function<std::vector<Part>(int expert)>& parts);
  // The same for experts that are stacked in the tensor `name`.
  Result<std::unique_ptr<ExpertMatrices>> LoadStackedExperts(const std::string& name,
                                                             const StackedShape& shape);
  // The biases of such experts, [experts, rows], in the order of their matrices' rows.
  Result<std::unique_ptr<Buffer>> LoadStackedBiases(const std::string& name,
                                                    const StackedShape& shape);

  // Concatenates the named vectors, adds `offset`, and uploads them as f32.
  Result<std::unique_ptr<Buffer>> LoadVector(
      const std::vector<std::pair<std::string, int64_t>>& names_and_sizes, float offset = 0);
  // The gain of a norm, [size]. `name` lacks ".weight".
  Result<std::unique_ptr<Buffer>> LoadNorm(const std::string& name, int64_t size);

  // Logs the types of the matrices in the files and in memory.
  void LogTypes() const;

 private:
  Result<std::unique_ptr<PackedMatrix>> Load(const std::vector<Part>& parts, int64_t columns,
                                             WeightType type);
  // Whether the blocks of a GGUF file are kept as codes.
  bool KeepsGgufCodes(const std::vector<Part>& parts) const;
  // Whether all parts, of a GGUF file, are blocks of one type.
  bool HaveOneGgufType(const std::vector<Part>& parts) const;
  Result<QuantizedMatrix> ReadCodes(const std::vector<Part>& parts, int64_t columns);
  // `values` may be overwritten when this returns.
  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& values, WeightType type,
                                             const std::vector<Part>& parts);
  Result<std::unique_ptr<PackedMatrix>> PackFloats(const std::vector<Part>& parts, int64_t columns,
                                                   WeightType type);
  // Keeps the codes as they are if the backend has a product for them, otherwise as floats of the
  // requested type.
  Result<std::unique_ptr<PackedMatrix>> PackCodes(const std::vector<Part>& parts, int64_t columns);
  Result<std::unique_ptr<PackedMatrix>> PackCodes(const QuantizedMatrix& matrix,
                                                  const std::vector<Part>& parts);
  // Records that a matrix of this type is stored; a GGUF file has more type names. Returns whether
  // it is stored in blocks.
  bool NoteStored(const std::string& name, const char* type);
  Result<std::unique_ptr<Buffer>> Upload(const std::vector<float>& values);
  // Finds a tensor of this shape. `blocks_as` and `storage` as in Checkpoint::FindWidened.
  Result<TensorView> Find(const std::string& name, const std::vector<int64_t>& shape,
                          Dtype blocks_as, std::vector<std::byte>* storage);
  void ReportProgress() const;

  const ModelConfig& config_;
  const Checkpoint& checkpoint_;
  QuantizedTensors codes_;
  const WeightType type_;
  Backend& backend_;
  const LoadProgress& progress_;
  const int64_t all_bytes_;  // of the files
  int64_t done_bytes_ = 0;   // of those, processed so far, without what codes_ has read
  // For the matrices: types in the files and in memory, and whether any lost precision in between.
  std::set<std::string> stored_, kept_;
  bool rounds_ = false;
};

}  // namespace outrider
