// Reads the tensors of a checkpoint and packs them for a backend. The names of the tensors come
// from the caller (weights.cc).
//
//   WeightLoader loader(config, checkpoint, WeightType::kBf16, backend, progress);
//   OUTRIDER_ASSIGN(out.norm, loader.LoadNorm("model.norm", hidden));
//   OUTRIDER_ASSIGN(out.down, loader.LoadMatrix({{"down_proj.weight", hidden}}, inner));
//   loader.LogTypes();
//
// Thread: one. Errors: those of LoadWeights (weights.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/quantized_tensors.h"
#include "common/model/safetensors.h"
#include "common/model/stacked_experts.h"
#include "common/model/weights.h"
#include "common/tensor/slice.h"

namespace outrider {

class WeightLoader {
 public:
  // A part of a matrix (or of a vector): rows of a tensor of the checkpoint.
  struct Part {
    std::string name;
    int64_t rows = 0;          // of the tensor
    std::vector<Range> taken;  // those of the part, stacked; empty: all
  };

  // `type`: the type of floats, and of codes where there is a choice. All references must outlive
  // the loader.
  WeightLoader(const ModelConfig& config, const Checkpoint& checkpoint, WeightType type,
               Backend& backend, const LoadProgress& progress);

  // Stacks the parts' rows. All tensors have `columns` columns, of which the matrix has those
  // `taken`, or all.
  Result<std::unique_ptr<PackedMatrix>> LoadMatrix(const std::vector<Part>& parts, int64_t columns,
                                                   std::optional<Range> taken = std::nullopt);

  // A matrix with one row per token, for which 4 bits are too few.
  Result<std::unique_ptr<PackedMatrix>> LoadTokenTable(const Part& part, int64_t columns);

  // A mixture's router is kept in f32, so that the choice of experts is not affected by rounding.
  Result<std::unique_ptr<PackedMatrix>> LoadRouter(const std::string& name, int64_t rows,
                                                   int64_t columns);

  // One projection of all experts; `parts` gives the parts of each expert's matrix.
  Result<std::unique_ptr<ExpertMatrices>> LoadExperts(
      int experts, int64_t columns, const std::function<std::vector<Part>(int expert)>& parts,
      std::optional<Range> taken = std::nullopt);
  // The same for experts that are stacked in the tensor `name`, of whose matrices the ranges are
  // taken.
  Result<std::unique_ptr<ExpertMatrices>> LoadStackedExperts(const std::string& name,
                                                             const StackedShape& shape,
                                                             const std::vector<Range>& rows,
                                                             Range columns);
  // The biases of such experts, [experts, taken rows], in the order of their matrices' rows.
  Result<std::unique_ptr<Buffer>> LoadStackedBiases(const std::string& name,
                                                    const StackedShape& shape,
                                                    const std::vector<Range>& rows);

  // Concatenates the vectors, adds `offset`, and uploads them as f32.
  Result<std::unique_ptr<Buffer>> LoadVector(const std::vector<Part>& parts, float offset = 0);
  // The gain of a norm, [size]. `name` lacks ".weight".
  Result<std::unique_ptr<Buffer>> LoadNorm(const std::string& name, int64_t size);

  // Logs the types of the matrices in the files and in memory.
  void LogTypes() const;

 private:
  // Parts of a matrix's tensors.
  struct Wanted {
    std::vector<Part> parts;
    int64_t columns = 0;  // of the tensors
    Range taken;          // of those columns
  };

  Result<std::unique_ptr<PackedMatrix>> Load(const Wanted& wanted, WeightType type);
  // Whether the blocks of a GGUF file are kept as codes.
  bool KeepsGgufCodes(const std::vector<Part>& parts) const;
  // Whether all parts, of a GGUF file, are blocks of one type.
  bool HaveOneGgufType(const std::vector<Part>& parts) const;
  Result<QuantizedMatrix> ReadCodes(const Wanted& wanted);
  // `values` may be overwritten when this returns.
  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& values, WeightType type,
                                             const std::vector<Part>& parts);
  Result<std::unique_ptr<PackedMatrix>> PackFloats(const Wanted& wanted, WeightType type);
  // Keeps the codes as they are if the backend has a product for them, otherwise as floats of the
  // requested type.
  Result<std::unique_ptr<PackedMatrix>> PackCodes(const Wanted& wanted);
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
