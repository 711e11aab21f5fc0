// The packed product, attention and a whole decode step of the CPU backend, each compared with a
// streaming read of the same weights in the same cache state.
//
// Both are timed alternately in one loop, in CPU time of the thread, and the counters are medians
// over the turns: on a busy machine only such a ratio is meaningful.
//   of_stream  streaming time / kernel time: 1 is the speed of memory (or of the cache level); for
//     a step the time of the weights alone, so that keys and values count as overhead
//     The bytes are those of the packed weights, scales and offsets included.
//   x_one_row  time / time of the same product with one row
//   TYPE_speed_x_bf16  (SideBySide) time with bf16 weights / time with weights of this type;
//     int4_int8: with activations in 8 bits
// Run on one core: taskset -c 0 kernel_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "common/backend/cpu/packed_panels.h"
#include "common/math/fp8.h"
#include "tests/bench/bench_support.h"
#include "tests/bench/stream_read.h"

namespace outrider {
namespace {

constexpr size_t kColdBytes = size_t{272} << 20;  // several times any expected last-level cache
constexpr size_t kTurnBytes = size_t{24} << 20;   // per timed turn: milliseconds, not microseconds

// `rounds_activations`: to bf16 with bf16 weights, to 8 bits with integer codes and MXFP4.
Backend& Cpu(bool rounds_activations = false) {
  static const std::unique_ptr<Backend> exact = Take(CreateCpuBackend({}));
  static const std::unique_ptr<Backend> rounded = Take(CreateCpuBackend(
      {.threads = 1, .cores = {}, .bf16_activations = true, .int8_activations = true}));
  return rounds_activations ? *rounded : *exact;
}

// A type, and for codes with a scale for each group of inputs, the size of a group; 0: as Pack
// rounds floats.
struct Format {
  WeightType type;
  int64_t group_size = 0;
  int64_t unit_groups = 0;  // as in QuantizedMatrix
};

// Random codes: which they are does not matter.
QuantizedMatrix RandomCodes(const TensorView& view, const Format& format) {
  QuantizedMatrix out = RoundMatrix(view, CodeType::kInt8);
  const bool is_8_bits = format.type == WeightType::kFp8 || format.type == WeightType::kW8A16;
  if (format.type == WeightType::kFp8) out.type = CodeType::kFp8E4M3;
  if (format.type == WeightType::kMxfp4) out.type = CodeType::kFp4E2M1;
  if (format.type == WeightType::kW4A16) out.type = CodeType::kInt4;
  for (uint8_t& code : out.codes) {
    code &= is_8_bits ? 0xff : 0x0f;
    if (IsNanCode(out.type, code)) code = 1;
  }
  if (format.group_size > 0) out.group_size = format.group_size;
  out.scales.assign(static_cast<size_t>(out.rows * out.groups()), 0x1p-8f);
  if (format.type == WeightType::kW4A16) out.offsets.assign(out.scales.size(), -0x1p-5f);
  if (format.unit_groups > 0) {
    const size_t units = out.scales.size() / static_cast<size_t>(format.unit_groups);
    out.unit_groups = format.unit_groups;
    out.scale_units.assign(units, 0x1p-12f);
    if (!out.offsets.empty()) out.offset_units.assign(units, 0x1p-9f);
  }
  return out;
}

std::unique_ptr<PackedMatrix> RandomMatrix(int out, int in, const Format& format) {
  // Values of realistic magnitude: denormal bit patterns would measure something else.
  std::vector<float> w(static_cast<size_t>(out) * in);
  uint32_t state = 1;
  for (float& v : w) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-36f;
  }
  const TensorView view = {w.data(), Dtype::kF32, {out, in}};
  if (format.type != WeightType::kFp8 && format.group_size == 0) {
    return Take(Cpu().Pack(view, format.type));
  }
  return Take(Cpu().Pack(RandomCodes(view, format), format.type, WeightType::kF32));
}

std::vector<float> Values(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

// Keys or values of a cache.
std::vector<std::byte> KvValues(size_t count, KvType type) {
  const std::vector<float> values = Values(count);
  std::vector<std::byte> bytes(count * KvTypeBytes(type));
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = FloatToBf16(values[i]);
    const uint8_t code = FloatToFp8(values[i]);
    const void* const from = type == KvType::kF32   ? static_cast<const void*>(&values[i])
                             : type == KvType::kFp8 ? static_cast<const void*>(&code)
                                                    : static_cast<const void*>(&half);
    std::memcpy(&bytes[i * KvTypeBytes(type)], from, KvTypeBytes(type));
  }
  return bytes;
}

// Reads panels, scales and offsets.
void ReadAll(const PackedMatrix& matrix) {
  const auto& packed = static_cast<const PanelMatrix&>(matrix);
  const size_t bytes = packed.panel_count() * packed.panel_bytes();
  benchmark::DoNotOptimize(StreamRead(packed.panels(), bytes));
  if (packed.bytes() == bytes) return;
  benchmark::DoNotOptimize(
      StreamRead(reinterpret_cast<const char*>(packed.scales(0, 0)), packed.bytes() - bytes));
}

using Matrices = std::vector<std::unique_ptr<PackedMatrix>>;

Matrices MakeMatrices(int out, int in, const Format& format, size_t bytes) {
  Matrices matrices;
  for (size_t have = 0; have < bytes || matrices.empty(); have += matrices.back()->bytes()) {
    matrices.push_back(RandomMatrix(out, in, format));
  }
  return matrices;
}

// A set of matrices of at least `bytes`; the last set is kept for the next call.
const Matrices& MatrixSet(int out, int in, const Format& format, size_t bytes) {
  static Matrices matrices;
  static std::string made;
  const std::string key = std::to_string(out) + " " + std::to_string(in) + " " +
                          std::to_string(static_cast<int>(format.type)) + " " +
                          std::to_string(format.group_size) + " " +
                          std::to_string(format.unit_groups) + " " + std::to_string(bytes);
  if (key != made) {
    matrices.clear();
    matrices = MakeMatrices(out, in, format, bytes);
    made = key;
  }
  return matrices;
}

// Times products with the matrices of a set, one after another.
class ProductTurns {
 public:
  ProductTurns(Backend* backend, const Matrices* matrices, int rows)
      : backend_(*backend),
        matrices_(*matrices),
        x_(Values(static_cast<size_t>(rows) * matrices_[0]->in_features())),
        y_(static_cast<size_t>(rows) * matrices_[0]->out_features()),
        products_(std::max<size_t>(1, kTurnBytes / matrices_[0]->bytes())) {
    Read();
  }

  // Seconds of one product.
  double Multiply(int rows) {
    return Turn([&](const PackedMatrix& w) {
      backend_.MatMul(w, x_.data(), rows, nullptr, false, y_.data());
    });
  }
  // Seconds of a streaming read of one matrix.
  double Read() { return Turn(ReadAll); }

 private:
  template <class F>
  double Turn(const F& f) {
    const double start = CpuSeconds();
    for (size_t i = 0; i < products_; ++i) f(*matrices_[next_++ % matrices_.size()]);
    return (CpuSeconds() - start) / static_cast<double>(products_);
  }

  Backend& backend_;
  const Matrices& matrices_;
  std::vector<float> x_, y_;
  size_t products_, next_ = 0;
};

// Multiplies rows x[rows, in] by matrices that together have `set_bytes`, one after another.
void Product(benchmark::State& state, Backend& backend, const Format& format, int out, int in,
             size_t set_bytes) {
  const int rows = static_cast<int>(state.range(0));
  const Matrices& matrices = MatrixSet(out, in, format, set_bytes);
  ProductTurns turns(&backend, &matrices, rows);
  std::vector<double> times, of_stream, over_one_row;
  for (auto _ : state) {
    const double stream = turns.Read();
    const double time = turns.Multiply(rows);
    times.push_back(time);
    of_stream.push_back(stream / time);
    over_one_row.push_back(rows == 1 ? 1 : time / turns.Multiply(1));
    state.SetIterationTime(time);
  }
  const double time = Median(times);
  state.counters["us"] = time * 1e6;
  state.counters["GB_s"] = static_cast<double>(matrices[0]->bytes()) / time * 1e-9;
  state.counters["GFLOP_s"] = 2e-9 * rows * out * in / time;
  state.counters["of_stream"] = Median(of_stream);
  state.counters["x_one_row"] = Median(over_one_row);
}

// The same product with cold weights in bf16, in 8 bits and in 4 bits, in turn.
void SideBySide(benchmark::State& state) {
  constexpr int kOut = 8192, kIn = 2048;
  struct Kind {
    const char* name;
    size_t set;
    bool rounds_activations;
  };
  constexpr Kind kKinds[] = {{"bf16", 0, false},
                             {"int8", 1, false},
                             {"int4", 2, false},
                             {"int4_int8", 2, true},
                             {"w8a16", 3, false}};
  constexpr size_t kCount = std::size(kKinds);
  static std::vector<Matrices> sets;
  if (sets.empty()) {
    for (const WeightType type :
         {WeightType::kBf16, WeightType::kW8A8, WeightType::kW4A16, WeightType::kW8A16}) {
      sets.push_back(MakeMatrices(kOut, kIn, {type}, kColdBytes / 2));
    }
  }
  const int rows = static_cast<int>(state.range(0));
  std::vector<ProductTurns> turns;
  for (const Kind& kind : kKinds) {
    turns.emplace_back(&Cpu(kind.rounds_activations), &sets[kind.set], rows);
  }
  std::vector<double> of_stream[kCount], over_one_row[kCount], of_bf16[kCount];
  for (auto _ : state) {
    double times[kCount];
    for (size_t i = 0; i < kCount; ++i) {
      const double stream = turns[i].Read();
      times[i] = turns[i].Multiply(rows);
      of_stream[i].push_back(stream / times[i]);
      over_one_row[i].push_back(times[i] / turns[i].Multiply(1));
      of_bf16[i].push_back(times[0] / times[i]);
    }
    state.SetIterationTime(times[0]);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = kKinds[i].name;
    state.counters[name + "_of_stream"] = Median(of_stream[i]);
    state.counters[name + "_x_one_row"] = Median(over_one_row[i]);
    if (i > 0) state.counters[name + "_speed_x_bf16"] = Median(of_bf16[i]);
  }
}

void AddProduct(const char* type_name, Backend* backend, const Format& format, int out, int in,
                const char* level, size_t set_bytes, const std::vector<int64_t>& rows) {
  const std::string name = std::string("Product/") + type_name + "/" + std::to_string(out) + "x" +
                           std::to_string(in) + "/" + level;
  auto* benchmark = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    Product(state, *backend, format, out, in, set_bytes);
  });
  benchmark->ArgName("rows")->UseManualTime()->Iterations(21);
  for (const int64_t n : rows) benchmark->Arg(n);
}

// A Llama-shaped model with random weights: only its cost matters.
struct Shape {
  int hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
};
// An earlier default pair, whose figures are in docs/benchmarks.md.
constexpr Shape kTarget = {256, 704, 6, 4, 2, 64, 4096};
constexpr Shape kDrafter = {96, 256, 2, 3, 1, 32, 4096};

class Decoder {
 public:
  Decoder(Backend* backend, const Shape& shape, int context, int rows, KvType kv = KvType::kF32)
      : backend_(*backend), s_(shape), rows_(rows), kv_type_(kv) {
    const int q = s_.heads * s_.head_dim;
    for (int i = 0; i < s_.layers; ++i) {
      matrices_.push_back(RandomMatrix(q + 2 * s_.kv_heads * s_.head_dim, s_.hidden, {kType}));
      matrices_.push_back(RandomMatrix(s_.hidden, q, {kType}));
      matrices_.push_back(RandomMatrix(2 * s_.intermediate, s_.hidden, {kType}));
      matrices_.push_back(RandomMatrix(s_.hidden, s_.intermediate, {kType}));
    }
    matrices_.push_back(RandomMatrix(s_.vocab, s_.hidden, {kType}));
    attention_ = {s_.heads, s_.kv_heads, s_.head_dim, kPageTokens, 0};
    const int pages = (context + rows + kPageTokens - 1) / kPageTokens;
    for (int i = 0; i < 2 * s_.layers; ++i) {
      const int values = pages * kPageTokens * s_.kv_heads * s_.head_dim;
      kv_.push_back(KvValues(static_cast<size_t>(values), kv));
    }
    for (int i = 0; i < pages; ++i) pages_.push_back(i);
    for (int i = 0; i < rows; ++i) {
      positions_.push_back(context + i);
      tokens_.push_back(i * 7);
    }
    row_begin_ = {0, rows};
    page_begin_ = {0, pages};
    context_ = {context};
    batch_.rows = rows;
    batch_.sequences = 1;
    batch_.tokens = tokens_.data();
    batch_.positions = positions_.data();
    batch_.slots = positions_.data();  // pages in order
    batch_.row_begin = row_begin_.data();
    batch_.context = context_.data();
    batch_.page_begin = page_begin_.data();
    batch_.pages = pages_.data();
    cos_sin_ = Values(static_cast<size_t>(context + rows) * s_.head_dim);
    gain_ = Values(s_.hidden);
    x_ = normed_ = Values(static_cast<size_t>(rows) * s_.hidden);
    qkv_ = Values(static_cast<size_t>(rows) * (q + 2 * s_.kv_heads * s_.head_dim));
    attended_ = Values(static_cast<size_t>(rows) * q);
    gate_up_ = Values(static_cast<size_t>(rows) * 2 * s_.intermediate);
    gated_ = Values(static_cast<size_t>(rows) * s_.intermediate);
    logits_ = Values(static_cast<size_t>(rows) * s_.vocab);
  }

  void Step() {
    Backend& b = backend_;
    b.Embed(*matrices_.back(), tokens_.data(), rows_, x_.data());
    for (int i = 0; i < s_.layers; ++i) {
      Normalize(b);
      b.MatMul(*matrices_[4 * i], normed_.data(), rows_, nullptr, false, qkv_.data());
      Attend(b, i);
      b.MatMul(*matrices_[4 * i + 1], attended_.data(), rows_, nullptr, true, x_.data());
      Normalize(b);
      b.MatMul(*matrices_[4 * i + 2], normed_.data(), rows_, nullptr, false, gate_up_.data());
      b.Glu(Activation::kSilu, gate_up_.data(), rows_, s_.intermediate, gated_.data(),
            Consumers::kProducts);
      b.MatMul(*matrices_[4 * i + 3], gated_.data(), rows_, nullptr, true, x_.data());
    }
    Normalize(b);
    b.MatMul(*matrices_.back(), normed_.data(), rows_, nullptr, false, logits_.data());
  }

  void AttendAllLayers() {
    for (int i = 0; i < s_.layers; ++i) Attend(backend_, i);
  }

  void ReadWeights() const {
    for (const auto& matrix : matrices_) ReadAll(*matrix);
  }

  size_t weight_bytes() const {
    size_t bytes = 0;
    for (const auto& matrix : matrices_) bytes += matrix->bytes();
    return bytes;
  }

 private:
  static constexpr WeightType kType = WeightType::kBf16;
  static constexpr int kPageTokens = 16;

  void Normalize(Backend& b) {
    b.RmsNorm(x_.data(), gain_.data(), rows_, s_.hidden, s_.hidden, 1e-5f, false, normed_.data(),
              Consumers::kProducts);
  }
  void Attend(Backend& b, int layer) {
    const KvLayer kv{kv_[2 * layer].data(), kv_[2 * layer + 1].data(), kv_type_};
    b.RopeAndWriteKv(batch_, attention_, {}, cos_sin_.data(), qkv_.data(), kv);
    b.PagedAttention(batch_, attention_, qkv_.data(), kv, attended_.data(), Consumers::kProducts);
  }

  Backend& backend_;
  Shape s_;
  int rows_;
  KvType kv_type_;
  Matrices matrices_;
  AttentionShape attention_;
  BatchLayout batch_;
  std::vector<std::vector<std::byte>> kv_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, row_begin_, page_begin_, context_, pages_;
  std::vector<float> cos_sin_, gain_, x_, normed_, qkv_, attended_, gate_up_, gated_, logits_;
};

// One forward pass over `rows` new tokens after `context` cached ones.
void DecodeStep(benchmark::State& state, Backend* backend, const Shape& shape) {
  const int rows = static_cast<int>(state.range(0));
  Decoder decoder(backend, shape, static_cast<int>(state.range(1)), rows);
  const size_t bytes = decoder.weight_bytes();
  const size_t steps = std::max<size_t>(1, kTurnBytes / bytes);
  const auto turn = [&](auto&& f) {
    const double start = CpuSeconds();
    for (size_t i = 0; i < steps; ++i) f();
    return (CpuSeconds() - start) / static_cast<double>(steps);
  };
  turn([&] { decoder.Step(); });
  std::vector<double> times, of_stream, attention;
  for (auto _ : state) {
    const double stream = turn([&] { decoder.ReadWeights(); });
    const double time = turn([&] { decoder.Step(); });
    attention.push_back(turn([&] { decoder.AttendAllLayers(); }));
    times.push_back(time);
    of_stream.push_back(stream / time);
    state.SetIterationTime(time);
  }
  state.counters["us"] = Median(times) * 1e6;
  state.counters["us_per_row"] = Median(times) * 1e6 / rows;
  state.counters["attention_us"] = Median(attention) * 1e6;
  state.counters["of_stream"] = Median(of_stream);
}

// Alternates decode steps of one row over caches of each type. x_bf16: tokens/s with an FP8 cache
// over those with a bf16 cache.
void KvTypes(benchmark::State& state) {
  const int context = static_cast<int>(state.range(0));
  constexpr KvType kTypes[] = {KvType::kF32, KvType::kBf16, KvType::kFp8};
  constexpr int kSteps = 20;
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (const KvType type : kTypes) {
    decoders.push_back(std::make_unique<Decoder>(&Cpu(), kTarget, context, 1, type));
    decoders.back()->Step();
  }
  std::vector<double> times[3], attention[3];
  const auto turn = [&](auto&& f) {
    const double start = CpuSeconds();
    for (int i = 0; i < kSteps; ++i) f();
    return (CpuSeconds() - start) / kSteps;
  };
  for (auto _ : state) {
    for (size_t i = 0; i < 3; ++i) {
      times[i].push_back(turn([&] { decoders[i]->Step(); }));
      attention[i].push_back(turn([&] { decoders[i]->AttendAllLayers(); }));
    }
    state.SetIterationTime(times[2].back());
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = KvTypeName(kTypes[i]);
    state.counters["us_" + name] = Median(times[i]) * 1e6;
    state.counters["attention_us_" + name] = Median(attention[i]) * 1e6;
  }
  state.counters["x_bf16"] = Median(times[1]) / Median(times[2]);
}

void Register() {
  const std::vector<int64_t> few = {1, 2, 4, 8};
  struct Kind {
    const char* name;
    Format format;
    Backend* backend;
  };
  for (const auto& [name, format, backend] :
       {Kind{"bf16", {WeightType::kBf16}, &Cpu()}, Kind{"f32", {WeightType::kF32}, &Cpu()},
        Kind{"int8", {WeightType::kW8A8}, &Cpu()}, Kind{"w8a16", {WeightType::kW8A16}, &Cpu()},
        Kind{"int4", {WeightType::kW4A16}, &Cpu()}, Kind{"fp8", {WeightType::kFp8}, &Cpu()},
        Kind{"mxfp4", {WeightType::kMxfp4, 32}, &Cpu()},
        Kind{"int4_short", {WeightType::kW4A16, 128}, &Cpu()},
        Kind{"q4_0", {WeightType::kW4A16, 32}, &Cpu()},
        Kind{"q8_0", {WeightType::kW8A16, 32}, &Cpu()},
        Kind{"q4_k", {WeightType::kW4A16, 32, 8}, &Cpu()},
        Kind{"q6_k", {WeightType::kW8A16, 16, 16}, &Cpu()},
        Kind{"bf16_activations", {WeightType::kBf16}, &Cpu(true)},
        Kind{"int4_int8_activations", {WeightType::kW4A16}, &Cpu(true)},
        Kind{"mxfp4_int8_activations", {WeightType::kMxfp4, 32}, &Cpu(true)},
        Kind{"q8_0_int8_activations", {WeightType::kW8A16, 32}, &Cpu(true)}}) {
    AddProduct(name, backend, format, 2048, 2048, "cold", kColdBytes, few);
    AddProduct(name, backend, format, 8192, 2048, "cold", kColdBytes, {1, 2, 4, 8, 12, 16, 24, 32});
    AddProduct(name, backend, format, 1408, 256, "L3", size_t{11} << 20, few);
    AddProduct(name, backend, format, 512, 256, "L2", 1, few);
    AddProduct(name, backend, format, 1408, 256, "prefill", size_t{11} << 20, {16, 64, 512});
  }
  benchmark::RegisterBenchmark("SideBySide/8192x2048/cold", SideBySide)
      ->ArgName("rows")
      ->ArgsProduct({{1, 2, 4, 8, 12, 16}})
      ->UseManualTime()
      ->Iterations(21);
  benchmark::RegisterBenchmark("KvTypes/target", KvTypes)
      ->ArgName("context")
      ->Arg(1024)
      ->Arg(8192)
      ->UseManualTime()
      ->Iterations(21);
  struct Step {
    const char* name;
    Backend* backend;
    Shape shape;
  };
  for (const auto& [name, backend, shape] :
       {Step{"target", &Cpu(), kTarget}, Step{"drafter", &Cpu(), kDrafter},
        Step{"target_bf16_activations", &Cpu(true), kTarget}}) {
    benchmark::RegisterBenchmark(
        (std::string("DecodeStep/") + name).c_str(),
        [=](benchmark::State& state) { DecodeStep(state, backend, shape); })
        ->ArgNames({"rows", "context"})
        ->ArgsProduct({{1, 4, 8}, {128}})
        ->Args({1, 480})
        ->Args({256, 0})
        ->UseManualTime()
        ->Iterations(21);
  }
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
