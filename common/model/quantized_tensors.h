// Reads a checkpoint's quantized matrices, in each of the published layouts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/model/quantization.h"
#include "common/model/safetensors.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

class QuantizedTensors {
 public:
  // Both must outlive this object.
  QuantizedTensors(const Checkpoint& checkpoint, const Quantization& quantization)
      : checkpoint_(checkpoint), quantization_(quantization) {}

  // Whether the matrix "X.weight" is quantized; every layout leaves some matrices as floats.
  bool Holds(const std::string& name) const;

  // Appends the rows of the matrix "X.weight" [rows, columns] below those of `matrix`, which have
  // the same layout. kInvalidArgument for a tensor that is missing or has another type or shape, or
  // for indices out of range; kDataLoss for a code or scale that is NaN or infinite, or a scale of
  // zero; kUnimplemented for parts whose inputs have different orders.
  Status Append(const std::string& name, int64_t rows, int64_t columns, QuantizedMatrix* matrix);

  // Bytes of the files read so far.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Part;  // a matrix being read

  std::string CodesName(const std::string& name) const;
  // The tensor `name`, provided it has this type and shape.
  Result<const SafetensorsEntry*> Find(const std::string& name, std::string_view dtype,
                                       std::initializer_list<int64_t> shape);
  // The values of a float tensor [first, second], in its own order.
  Result<std::vector<float>> FindScales(const std::string& name, int64_t first, int64_t second);

  // Whether the file's tensor of codes is of about that size, before as much memory is taken.
  Status CheckMemory(const std::string& name, int64_t rows, int64_t columns) const;
  Status AppendGguf(const std::string& name, int64_t rows, int64_t columns,
                    QuantizedMatrix* matrix);
  Status ReadBytes(const Part& part, std::string_view dtype, QuantizedMatrix* matrix);
  Status ReadRowScales(const Part& part, QuantizedMatrix* matrix);
  Status ReadFp8Scales(const Part& part, QuantizedMatrix* matrix);
  Status ReadPacked(const Part& part, QuantizedMatrix* matrix);
  Status ReadPackedScales(const Part& part, QuantizedMatrix* matrix);
  Status ReadByInput(const Part& part, QuantizedMatrix* matrix);
  Status ReadScalesByGroup(const Part& part, QuantizedMatrix* matrix);
  Status ReadOrder(const Part& part, const std::string& name, QuantizedMatrix* matrix);

  const Checkpoint& checkpoint_;
  const Quantization& quantization_;
  int64_t bytes_read_ = 0;
};

}  // namespace outrider
