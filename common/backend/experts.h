// A mixture of experts as a backend's ops see it: the router, the rows of each expert, and the
// experts' matrices. A pair is a row and one of its experts. Pairs are sorted by expert and then by
// row; the sorted index of a pair is its index in that order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/backend/packed_matrix.h"

namespace outrider {

constexpr int kMaxExperts = 1024;      // per mixture
constexpr int kMaxExpertsOfARow = 64;  // top_k

struct RouterShape {
  int experts = 0;
  int top_k = 0;  // experts per row, at most all
  // If true, the weights of a row's experts sum to 1: they are the softmax over the chosen logits.
  // Otherwise they are these experts' probabilities in the softmax over all logits.
  bool normalizes = true;
};

// Views of one buffer of the backend's memory.
struct ExpertRouting {
  int32_t* chosen = nullptr;        // [rows, top_k] experts, in descending order of logits
  float* weights = nullptr;         // [rows, top_k]
  int32_t* sorted_index = nullptr;  // [rows, top_k] of each pair of each pair
  int32_t* sorted_rows = nullptr;   // [rows * top_k] the row of each pair, in sorted order
  int32_t* expert_begin = nullptr;  // [experts + 1] first sorted index of each expert
  int32_t* tiles = nullptr;         // [3 * rows * top_k] the backend's tiling of its products

  // Views of a buffer of Bytes() bytes, for batches of up to `rows` rows.
  static ExpertRouting At(void* memory, const RouterShape& shape, int rows) {
    const size_t pairs = static_cast<size_t>(rows) * static_cast<size_t>(shape.top_k);
    auto* const first = static_cast<int32_t*>(memory);
    ExpertRouting routing;
    routing.chosen = first;
    routing.weights = reinterpret_cast<float*>(first + pairs);
    routing.sorted_index = first + 2 * pairs;
    routing.sorted_rows = first + 3 * pairs;
    routing.tiles = first + 4 * pairs;
    routing.expert_begin = first + 7 * pairs;
    return routing;
  }
  static size_t Bytes(const RouterShape& shape, int rows) {
    const size_t pairs = static_cast<size_t>(rows) * static_cast<size_t>(shape.top_k);
    return (7 * pairs + static_cast<size_t>(shape.experts) + 1) * sizeof(int32_t);
  }
};

// One projection of every expert of a mixture: matrices of equal shape.
//
// Owner: the model. Thread: the backend's owner.
class ExpertMatrices {
 public:
  // REQUIRES: at least one matrix, all of equal shape.
  explicit ExpertMatrices(std::vector<std::unique_ptr<PackedMatrix>> matrices)
      : matrices_(std::move(matrices)) {}
  virtual ~ExpertMatrices() = default;

  const PackedMatrix& operator[](int expert) const {
    return *matrices_[static_cast<size_t>(expert)];
  }
  int out_features() const { return matrices_[0]->out_features(); }
  int in_features() const { return matrices_[0]->in_features(); }

 private:
  const std::vector<std::unique_ptr<PackedMatrix>> matrices_;
};

}  // namespace outrider
