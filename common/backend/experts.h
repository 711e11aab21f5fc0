// A mixture of experts as a backend's ops see it: how a router chooses, which rows each expert
// takes, and the experts' matrices. A row and one of its experts are a pair. Pairs are ordered by
// expert and then by row; the index of a pair in that order is its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/backend/packed_matrix.h"

namespace outrider {

constexpr int kMaxExperts = 1024;      // of a mixture
constexpr int kMaxExpertsOfARow = 64;  // top_k

struct RouterShape {
  int experts = 0;
  int top_k = 0;  // experts of a row, at most all
  // The weights of a row's experts add up to 1: they are the softmax of their logits. Else they are
  // these experts' part of the softmax over all logits.
  bool normalizes = true;
};

// Views of one buffer of the backend's memory.
struct ExpertRouting {
  int32_t* chosen = nullptr;        // [rows, top_k] experts, the largest logit first
  float* weights = nullptr;         // [rows, top_k]
  int32_t* place_of = nullptr;      // [rows, top_k]
  int32_t* row_of_place = nullptr;  // [rows * top_k]
  int32_t* expert_begin = nullptr;  // [experts + 1] the places of expert e begin at element e
  int32_t* tiles = nullptr;         // [3 * rows * top_k] how a backend cuts its products

  // The views of a buffer of Bytes(), for batches of up to `rows` rows.
  static ExpertRouting At(void* memory, const RouterShape& shape, int rows) {
    const size_t pairs = static_cast<size_t>(rows) * static_cast<size_t>(shape.top_k);
    auto* const first = static_cast<int32_t*>(memory);
    ExpertRouting routing;
    routing.chosen = first;
    routing.weights = reinterpret_cast<float*>(first + pairs);
    routing.place_of = first + 2 * pairs;
    routing.row_of_place = first + 3 * pairs;
    routing.tiles = first + 4 * pairs;
    routing.expert_begin = first + 7 * pairs;
    return routing;
  }
  static size_t Bytes(const RouterShape& shape, int rows) {
    const size_t pairs = static_cast<size_t>(rows) * static_cast<size_t>(shape.top_k);
    return (7 * pairs + static_cast<size_t>(shape.experts) + 1) * sizeof(int32_t);
  }
};

// One projection of every expert of a mixture: matrices of equal sides.
//
// Owner: the model. Thread: the backend's owner.
class ExpertMatrices {
 public:
  // REQUIRES: one matrix at least, all of equal sides.
  explicit ExpertMatrices(std::vector<std::unique_ptr<PackedMatrix>> matrices)
      : matrices_(std::move(matrices)) {}
  virtual ~ExpertMatrices() = default;

  int experts() const { return static_cast<int>(matrices_.size()); }
  const PackedMatrix& operator[](int expert) const {
    return *matrices_[static_cast<size_t>(expert)];
  }
  int out_features() const { return matrices_[0]->out_features(); }
  int in_features() const { return matrices_[0]->in_features(); }

 private:
  const std::vector<std::unique_ptr<PackedMatrix>> matrices_;
};

}  // namespace outrider
