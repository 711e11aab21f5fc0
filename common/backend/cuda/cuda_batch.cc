#include "common/backend/cuda/cuda_batch.h"

namespace outrider {
namespace {

bool Same(const AttentionShape& a, const AttentionShape& b) {
  return a.num_heads == b.num_heads && a.num_kv_heads == b.num_kv_heads &&
         a.head_dim == b.head_dim && a.page_tokens == b.page_tokens &&
         a.sliding_window == b.sliding_window;
}

}  // namespace

void CudaBatch::Begin(const BatchLayout& batch) {
  SendRows(batch);
  begun_ = true;
}

void CudaBatch::Forget() {
  begun_ = planned_ = false;
  ring_.Reset();
}

void CudaBatch::SendRows(const BatchLayout& batch) {
  host_ = device_ = batch;
  planned_ = false;
  const auto rows = static_cast<size_t>(batch.rows);
  const auto sequences = static_cast<size_t>(batch.sequences);
  device_.tokens = batch.tokens == nullptr ? nullptr : ring_.Add(batch.tokens, rows);
  device_.positions = ring_.Add(batch.positions, rows);
  device_.slots = ring_.Add(batch.slots, rows);
  device_.row_begin = ring_.Add(batch.row_begin, sequences + 1);
  device_.context = ring_.Add(batch.context, sequences);
  device_.page_begin = ring_.Add(batch.page_begin, sequences + 1);
  device_.pages = ring_.Add(batch.pages, static_cast<size_t>(batch.page_begin[sequences]));
  device_.logit_rows = ring_.Add(batch.logit_rows, static_cast<size_t>(batch.logit_row_count));
  device_.row_sequence = nullptr;
  device_.parents = nullptr;
  ring_.Send();
}

const BatchLayout& CudaBatch::Rows(const BatchLayout& batch) {
  if (!Holds(batch)) {
    begun_ = false;
    SendRows(batch);
  }
  return device_;
}

AttentionCall CudaBatch::Attention(const BatchLayout& batch, const AttentionShape& shape,
                                   const AttentionLimits& limits, const AttentionPlan** plan) {
  Rows(batch);
  *plan = &plan_;
  if (planned_ && Same(shape, shape_)) return call_;
  PlanAttention(batch, shape, limits, &plan_);
  shape_ = shape;
  planned_ = true;
  call_ = {.positions = device_.positions,
           .row_begin = device_.row_begin,
           .context = device_.context,
           .page_begin = device_.page_begin,
           .pages = device_.pages,
           .is_tree = ring_.Add(plan_.is_tree.data(), plan_.is_tree.size()),
           .path_begin = ring_.Add(plan_.path_begin.data(), plan_.path_begin.size()),
           .paths = ring_.Add(plan_.paths.data(), plan_.paths.size()),
           .passes = ring_.Add(plan_.passes.data(), plan_.passes.size()),
           .units = ring_.Add(plan_.units.data(), plan_.units.size()),
           .merges = ring_.Add(plan_.merges.data(), plan_.merges.size()),
           .shape = shape};
  ring_.Send();
  return call_;
}

const int32_t* CudaBatch::Indices(const int32_t* host, int count) {
  if (begun_ && host == host_.tokens) return device_.tokens;
  if (begun_ && host == host_.logit_rows) return device_.logit_rows;
  return Send(std::span(host, static_cast<size_t>(count)));
}

}  // namespace outrider
