#include "common/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/backend/cuda/cuda_batch.h"
#include "common/backend/cuda/cuda_device.h"
#include "common/backend/cuda/cuda_experts.h"
#include "common/backend/cuda/cuda_matrix.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/device_picks.h"
#include "common/backend/cuda/device_rounds.h"
#include "common/backend/cuda/graph_cache.h"
#include "common/backend/cuda/graph_rows.h"
#include "common/backend/cuda/kernels/attention.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/experts.h"
#include "common/backend/cuda/kernels/kv.h"
#include "common/backend/cuda/kernels/rows.h"
#include "common/backend/cuda/kernels/tensor_product.h"
#include "common/backend/cuda/launch.h"
#include "common/backend/cuda/matrix_products.h"
#include "common/backend/cuda/nccl_communicator.h"
#include "common/backend/cuda/rounded_copies.h"
#include "common/backend/cuda/stream_capture.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int64_t kPartialBytes = int64_t{64} << 20;  // of attention split over blocks
constexpr int kBlocksPerMultiprocessor = 4;           // enough to hide the tails; not yet tuned
// Kinds of graphs.
constexpr int32_t kPassGraph = 1, kDraftGraph = 2;

const CudaMatrix& Matrix(const PackedMatrix& matrix) {
  return static_cast<const CudaMatrix&>(matrix);
}

class CudaBackend final : public Backend, public DeviceOps {
 public:
  CudaBackend(int device, std::string description, int multiprocessors, bool kernels_await,
              std::unique_ptr<Stream> stream, std::unique_ptr<StagedCopy> staging,
              std::unique_ptr<LargeProduct> product, CudaBackendSettings settings)
      : device_(device),
        description_(std::move(description)),
        multiprocessors_(multiprocessors),
        kernels_await_(kernels_await),
        nccl_(std::move(settings.nccl)),
        stream_(std::move(stream)),
        staging_(std::move(staging)),
        batch_(stream_.get()),
        rounds_(stream_.get()),
        picks_(stream_.get()),
        rounded_(stream_.get()),
        products_(stream_.get(), &rounded_, std::move(product),
                  {.enabled = settings.fp8_activations, .warn = settings.warn}),
        partials_(stream_.get()),
        graphs_(stream_.get(), {.enabled = settings.graphs, .warn = std::move(settings.warn)}) {}

  std::string Describe() const override { return description_; }
  DeviceOps* device() override { return this; }

  DeviceMemory Memory() const override {
    UseDevice();
    size_t free = 0, total = 0;
    MustSucceed(cudaMemGetInfo(&free, &total), "reading the free memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  std::string Kind() const override { return DescribeCudaDeviceKind(device_); }

  Status CheckShape(const AttentionShape& shape) const override {
    constexpr int kMaxHeadDim = 256;
    OUTRIDER_TRY(Backend::CheckShape(shape));
    if (shape.head_dim <= kMaxHeadDim) return {};
    return Unimplemented("head_dim " + std::to_string(shape.head_dim) +
                         " on a CUDA device: there are kernels up to " +
                         std::to_string(kMaxHeadDim) + "; --device cpu takes more");
  }

  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    UseDevice();
    OUTRIDER_ASSIGN(std::unique_ptr<CudaBuffer> buffer,
                    CudaBuffer::Allocate(MemoryKind::kDevice, bytes, stream_.get()));
    MustSucceed(cudaMemsetAsync(buffer->data(), 0, bytes, stream()), "clearing memory");
    rounded_.Forget();  // the address may have been another buffer's
    return std::unique_ptr<Buffer>(std::move(buffer));
  }

  Result<std::unique_ptr<Buffer>> AllocateHost(size_t bytes) override {
    UseDevice();
    OUTRIDER_ASSIGN(std::unique_ptr<CudaBuffer> buffer,
                    CudaBuffer::Allocate(MemoryKind::kPinnedHost, bytes, nullptr));
    return std::unique_ptr<Buffer>(std::move(buffer));
  }

  void CopyIn(void* device, const void* host, size_t bytes) override {
    UseDevice();
    if (StreamCapture::Invalidate("a host array is copied to the device")) return;
    rounded_.Forget();
    staging_->Write(device, bytes, 1, [&](std::byte* piece, size_t first, size_t count) {
      std::memcpy(piece, static_cast<const std::byte*>(host) + first, count);
    });
  }

  void CopyOut(void* host, const void* device, size_t bytes) override {
    MustSucceed(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream()),
                "copying from the device");
    bytes_to_host_ += static_cast<int64_t>(bytes);
  }

  void CopyKvSlots(std::span<const KvLayer> layers, const AttentionShape& shape,
                   std::span<const SlotCopy> copies) override {
    if (layers.empty() || copies.empty()) return;
    UseDevice();  // before memory is allocated for the arrays
    MustSucceed(
        LaunchCopyKvSlots(batch_.Send(layers), static_cast<int>(layers.size()), layers[0].type,
                          batch_.Send(copies), static_cast<int>(copies.size()), shape, stream()),
        "copying KV slots");
  }

  void Wait() override {
    UseDevice();
    if (StreamCapture::Invalidate("the host waits")) return;
    stream_->Wait();
    batch_.Clear();
  }

  void RunPass(const BatchLayout& batch, const AttentionShape& shape, KvType kv,
               const std::function<void()>& ops) override {
    UseDevice();
    RunAsGraph(BeginPasses(kPassGraph, {&batch, 1}, shape, kv), [&] {
      rounded_.BeginPass();  // a pass does not depend on the previous one
      ops();
    });
  }

  int max_graph_rows() const override { return graphs_.enabled() ? kMaxGraphRows : 0; }
  int PaddedRows(int rows) const override {
    return rows < 1 || rows > max_graph_rows() ? rows : GraphRows(rows);
  }

  void CapturePasses(const BatchLayout& batch, const AttentionShape& shape, KvType kv,
                     const std::function<void()>& ops) override {
    UseDevice();
    partials_.AtLeast(kPartialBytes);  // so that no later pass moves it
    const GraphKey own = BeginPasses(kPassGraph, {&batch, 1}, shape, kv);
    if (own.empty()) return;
    const auto run = [&] {
      rounded_.BeginPass();
      ops();
    };
    run();  // loads kernels, and lets the library choose its algorithms
    const AttentionLimits limits = Limits(shape, kv);
    for (const bool few : {true, false}) {
      if (!few && limits.few_queries == limits.tile_queries) break;  // the same kernel
      for (const bool merges : {false, true}) {
        batch_.PretendAttention(shape, limits, few, merges);
        graphs_.Prepare(KeyOf(kPassGraph), run);
      }
    }
    rounded_.Forget();
    Wait();
  }

  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& weight, WeightType type) override {
    UseDevice();
    return Keep(CudaMatrix::Pack(weight, type, staging_.get()));
  }

  Result<std::unique_ptr<PackedMatrix>> Pack(const QuantizedMatrix& weight, WeightType type,
                                             WeightType floats) override {
    UseDevice();
    return Keep(CudaMatrix::Pack(weight, type, floats, staging_.get()));
  }

  Result<std::unique_ptr<ExpertMatrices>> GroupExperts(
      std::vector<std::unique_ptr<PackedMatrix>> matrices) override {
    UseDevice();
    OUTRIDER_ASSIGN(std::unique_ptr<CudaExperts> experts,
                    CudaExperts::Create(std::move(matrices), staging_.get()));
    return std::unique_ptr<ExpertMatrices>(std::move(experts));
  }

  void Embed(const PackedMatrix& table, const TokenId* tokens, int rows, float* out) override {
    if (rows == 0) return;
    EmbedIds(Matrix(table), batch_.Indices(tokens, rows), rows, out);
  }

  void MatMul(const PackedMatrix& w, const float* x, int rows, const float* bias, bool accumulate,
              float* out) override {
    if (rows == 0) return;
    UseDevice();
    products_.Multiply(Matrix(w), x, rows, bias, accumulate, out);
  }

  void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
               bool accumulate, float* out, Consumers consumers) override {
    if (rows == 0) return;
    RoundedCopies::Output to = {.floats = out};
    if (stride == n && !accumulate) {
      to = rounded_.OutputFor(consumers, rows, n, out);
    } else {
      rounded_.Overwritten(out);
    }
    MustSucceed(LaunchRmsNorm(x, gain, rows, 1, n, stride, eps, accumulate, to.floats, to.rounded,
                              stream()),
                "RmsNorm");
  }

  void RmsNormHeads(float* x, const float* gain, int rows, int heads, int n, int stride,
                    float eps) override {
    if (rows == 0) return;
    rounded_.Overwritten(x);
    MustSucceed(LaunchRmsNorm(x, gain, rows, heads, n, stride, eps, false, x, {}, stream()),
                "RmsNorm of heads");
  }

  void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape, const HeadNorms& norms,
                      const float* cos_sin, float* qkv, const KvLayer& kv) override {
    const BatchLayout& device = batch_.Rows(batch);
    rounded_.Overwritten(qkv);
    MustSucceed(LaunchRopeAndWriteKv(device.positions, device.slots, batch.rows, shape, norms,
                                     cos_sin, qkv, kv, stream()),
                "RoPE");
  }

  void PagedAttention(const BatchLayout& batch, const AttentionShape& shape, const float* qkv,
                      const KvLayer& kv, float* out, Consumers consumers) override {
    OUTRIDER_CHECK(CheckShape(shape).ok());
    const PlannedAttention& plan = batch_.Attention(batch, shape, Limits(shape, kv.type));
    AttentionCall call = plan.call;
    call.shape = shape;
    call.qkv = qkv;
    const RoundedCopies::Output to =
        rounded_.OutputFor(consumers, batch.rows, shape.num_heads * shape.head_dim, out);
    call.out = to.floats;
    call.rounded = to.rounded;
    call.partials = static_cast<float*>(
        partials_.AtLeast(static_cast<size_t>(plan.partials * PartialBytes(shape))));
    MustSucceed(
        LaunchPagedAttention(call, kv, plan.units, plan.merges, plan.tile_queries, stream()),
        "attention");
  }

  // Always uses the product for few rows, however many there are: a library may sum in another
  // order.
  void RouterLogits(const PackedMatrix& router, const float* x, int rows, const float* bias,
                    float* logits) override {
    if (rows == 0) return;
    UseDevice();
    products_.MultiplyExactly(Matrix(router), x, rows, bias, logits);
  }

  void RouteRows(const float* logits, int rows, const RouterShape& shape,
                 const ExpertRouting& routing) override {
    if (rows == 0) return;
    MustSucceed(LaunchRouteRows(logits, rows, shape, routing, stream()), "choosing experts");
  }

  void ExpertMatMul(const ExpertMatrices& w, const RouterShape& shape, const ExpertRouting& routing,
                    int rows, const float* x, bool x_by_row, const float* bias,
                    float* out) override {
    if (rows == 0) return;
    UseDevice();
    const auto& experts = static_cast<const CudaExperts&>(w);
    ExpertProductCall call = experts.call();
    call.bias = bias;
    call.y = out;
    if (!experts.on_tensor_cores()) {
      MustSucceed(LaunchExpertProduct(call, x, x_by_row, shape, routing, rows, stream()),
                  "product of experts");
    } else {
      const int rows_of_x = x_by_row ? rows : rows * shape.top_k;
      const uint16_t* const rounded = rounded_.Of(x, rows_of_x, w.in_features(), experts.stride());
      MustSucceed(LaunchTensorExpertProduct(call, experts.any(), rounded, x_by_row, shape, routing,
                                            rows, stream()),
                  "product of experts");
    }
    rounded_.Overwritten(out);
  }

  void CombineExperts(const float* y, const RouterShape& shape, const ExpertRouting& routing,
                      int rows, int n, bool accumulate, float* out) override {
    if (rows == 0) return;
    rounded_.Overwritten(out);
    MustSucceed(LaunchCombineExperts(y, shape, routing, rows, n, accumulate, out, stream()),
                "adding up experts");
  }

  void Glu(Activation activation, const float* gate_up, int rows, int n, float* out,
           Consumers consumers) override {
    if (rows == 0) return;
    const RoundedCopies::Output to = rounded_.OutputFor(consumers, rows, n, out);
    MustSucceed(LaunchGlu(activation, gate_up, rows, n, to.floats, to.rounded, stream()), "Glu");
  }

  // Our own product of few rows applies the activation itself.
  void GatedMatMul(const PackedMatrix& w, const float* x, int rows, const float* bias,
                   Activation activation, float* gate_up, float* out,
                   Consumers consumers) override {
    const CudaMatrix& matrix = Matrix(w);
    if (rows == 0) return;
    if (!MatrixProducts::HasGated(matrix, rows)) {
      return Backend::GatedMatMul(w, x, rows, bias, activation, gate_up, out, consumers);
    }
    UseDevice();
    products_.MultiplyGated(matrix, x, rows, bias, activation, out, consumers);
  }

  void Scale(float* x, int rows, int n, float factor) override {
    if (rows == 0) return;
    rounded_.Overwritten(x);
    MustSucceed(LaunchScale(x, rows, n, factor, stream()), "scaling");
  }

  void SoftCap(float* x, int rows, int n, float cap) override {
    if (rows == 0) return;
    rounded_.Overwritten(x);
    MustSucceed(LaunchSoftCap(x, rows, n, cap, stream()), "soft cap");
  }

  void GatherRows(const float* x, const int32_t* rows, int count, int n, float* out) override {
    if (count == 0) return;
    const int32_t* indices = batch_.Indices(rows, count);
    const RoundedCopies::Output to = rounded_.OutputFor(Consumers::kAny, count, n, out);
    MustSucceed(LaunchGatherRows(x, indices, count, n, to.floats, to.rounded, stream()),
                "gathering rows");
  }

  Decisions Decide(const RoundBatch& batch, const LogitRows& rows) override {
    UseDevice();
    rounded_.Overwritten(rows.data);
    rounds_.Decide(batch, rows);
    bytes_to_host_ += static_cast<int64_t>(rounds_.bytes());
    Wait();
    return rounds_.Decided();
  }

  std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) override {
    UseDevice();
    rounded_.Overwritten(rows);
    picks_.Pick(batch, rows, vocab);
    bytes_to_host_ += static_cast<int64_t>(picks_.bytes());
    Wait();
    return picks_.Picked();
  }

  // The first pass is an ordinary one, since it processes all tokens since the last draft; the
  // passes after it are alike, so they and all the sampling form one graph. Their arrays are
  // planned while the device runs the first pass.
  std::span<const PickedRow> RunChains(std::span<const BatchLayout> passes,
                                       const AttentionShape& shape, KvType kv,
                                       const PickBatch& draws, float* rows, int vocab,
                                       const std::function<void(int)>& ops) override {
    RunPass(passes[0], shape, kv, [&] { ops(0); });
    picks_.BeginChains(draws, rows, vocab);
    GraphKey key = BeginPasses(kDraftGraph, passes.subspan(1), shape, kv);
    if (!key.empty()) key.insert(key.end(), picks_.key().begin(), picks_.key().end());
    RunAsGraph(key, [&] {
      for (int depth = 0; depth < static_cast<int>(passes.size()); ++depth) {
        rounded_.BeginPass();
        if (depth > 0) ops(depth);
        picks_.SampleDepth(depth);
      }
    });
    picks_.CopyBack();
    bytes_to_host_ += static_cast<int64_t>(picks_.bytes());
    Wait();
    return picks_.Picked();
  }

  void EmbedDrawn(const PackedMatrix& table, int rows, float* out) override {
    EmbedIds(Matrix(table), picks_.sampled(), rows, out);
  }

  Result<std::vector<std::byte>> NewGroup() override {
    UseDevice();
    return NewNcclGroup(nccl_);
  }
  Status PrepareGroup(int rank, int ranks) override {
    UseDevice();
    OUTRIDER_ASSIGN(gathered_, PrepareNcclGroup(nccl_, rank, ranks));
    return Status();
  }
  Result<std::unique_ptr<Communicator>> JoinGroup(std::span<const std::byte> group, int rank,
                                                  int ranks) override {
    UseDevice();
    if (gathered_ == nullptr) OUTRIDER_TRY(PrepareGroup(rank, ranks));
    const auto before = [this](const float* out) {
      UseDevice();
      rounded_.Overwritten(out);
    };
    return JoinNcclGroup(nccl_, group, rank, ranks, std::move(gathered_),
                         {.stream = stream_.get(), .graphs = &graphs_, .before = before});
  }

  int64_t bytes_to_host() const override { return bytes_to_host_; }
  GraphCounts graph_counts() const override { return graphs_.counts(); }
  Fp8Counts fp8_counts() const override { return products_.fp8_counts(); }

 private:
  void UseDevice() const {
    ReturnToCudaDevice(device_);
    kernels_overlap = kernels_await_;
  }
  cudaStream_t stream() const {
    UseDevice();
    return stream_->get();
  }

  AttentionLimits Limits(const AttentionShape& shape, KvType kv) const {
    return {.blocks = multiprocessors_ * kBlocksPerMultiprocessor,
            .max_partials = static_cast<int>(kPartialBytes / PartialBytes(shape)),
            .tile_queries = AttentionTileQueries(shape, kv),
            .few_queries = AttentionFewQueries(shape, kv)};
  }

  // The key of the graph of this `kind` for the passes; empty: they do not become a graph.
  GraphKey BeginPasses(int32_t kind, std::span<const BatchLayout> passes,
                       const AttentionShape& shape, KvType kv) {
    const AttentionLimits limits = Limits(shape, kv);
    const bool graph = graphs_.enabled() && !passes.empty() && passes[0].rows <= kMaxGraphRows;
    batch_.BeginPasses(passes, shape, limits, graph);
    // Large enough for a graph's first run and any later one, since a replay does not allocate.
    partials_.AtLeast(static_cast<size_t>(batch_.most_partials() * PartialBytes(shape)));
    return graph ? KeyOf(kind) : GraphKey();
  }
  // The key of the announced passes.
  GraphKey KeyOf(int32_t kind) const {
    GraphKey key = {kind};
    key.insert(key.end(), batch_.key().begin(), batch_.key().end());
    return key;
  }
  void RunAsGraph(const GraphKey& key, const std::function<void()>& ops) {
    if (key.empty()) {
      ops();
    } else {
      graphs_.Run(key, ops);
    }
    rounded_.Forget();  // a replay rewrites the scratch buffer without updating this
  }

  // Allocates what products with a new matrix need.
  Result<std::unique_ptr<PackedMatrix>> Keep(Result<std::unique_ptr<CudaMatrix>> packed) {
    if (!packed.ok()) return packed.status();
    OUTRIDER_TRY(products_.Prepare(**packed));
    return std::unique_ptr<PackedMatrix>(std::move(packed).value());
  }

  void EmbedIds(const CudaMatrix& matrix, const int32_t* ids, int rows, float* out) {
    rounded_.Overwritten(out);
    if (matrix.codes() != nullptr) {
      MustSucceed(
          LaunchWidenCodes(matrix.codes()->view(), ids, rows, matrix.in_features(), out, stream()),
          "embedding");
      return;
    }
    const auto launch = [&](auto element) {
      return LaunchEmbed(matrix.values<decltype(element)>(), matrix.stride(), ids, rows,
                         matrix.in_features(), out, stream());
    };
    switch (matrix.dtype()) {
      case Dtype::kF32: MustSucceed(launch(float{}), "embedding"); break;
      case Dtype::kF16: MustSucceed(launch(F16{}), "embedding"); break;
      case Dtype::kBf16: MustSucceed(launch(Bf16{}), "embedding"); break;
    }
  }

  const int device_;
  const std::string description_;
  const int multiprocessors_;
  const bool kernels_await_;
  const std::string nccl_;  // the library's file
  // Declared before everything that uses it, so that it is destroyed last.
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<StagedCopy> staging_;
  CudaBatch batch_;
  DeviceRounds rounds_;
  DevicePicks picks_;
  int64_t bytes_to_host_ = 0;
  RoundedCopies rounded_;
  MatrixProducts products_;
  Scratch partials_;
  GraphCache graphs_;
  std::unique_ptr<CudaBuffer> gathered_;  // of PrepareGroup, until JoinGroup
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                   std::unique_ptr<LargeProduct> product,
                                                   CudaBackendSettings settings) {
  cudaDeviceProp properties;
  MustSucceed(cudaGetDeviceProperties(&properties, device), "asking for the device");
  // The first call that needs a kernel's code.
  const cudaError_t prepared = PrepareAttention();
  if (prepared == cudaErrorNoKernelImageForDevice || prepared == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    return FailedPrecondition(DescribeCudaDevice(device) + ": " + cudaGetErrorString(prepared) +
                              ": the backend was built for other architectures "
                              "(OUTRIDER_CUDA_ARCHITECTURES)");
  }
  MustSucceed(prepared, "preparing attention");
  bool kernels_await = false;
  MustSucceed(ReadWhetherKernelsAwait(&kernels_await), "asking for a kernel's attributes");
  auto stream = std::make_unique<Stream>();
  OUTRIDER_ASSIGN(std::unique_ptr<StagedCopy> staging, StagedCopy::Create(stream.get()));
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(
      device, DescribeCudaDevice(device), properties.multiProcessorCount, kernels_await,
      std::move(stream), std::move(staging), std::move(product), std::move(settings)));
}

}  // namespace outrider
