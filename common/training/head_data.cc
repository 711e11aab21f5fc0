#include "common/training/head_data.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/fnv_hash.h"
#include "common/base/input_file.h"

namespace outrider {
namespace {

static_assert(std::endian::native == std::endian::little);

// Version 1: an example's features are the last hidden state of its token.
constexpr char kMagic[8] = {'O', 'U', 'T', 'R', 'H', 'E', 'A', 'D'};
constexpr uint32_t kVersion = 1;
constexpr int kMostWidth = 1 << 20;

struct WireHeader {
  char magic[8];
  uint32_t version;
  int32_t width;
  uint64_t model;
  float temperature;
  int32_t top_k;
  float top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  float distribution_mass;
  int32_t distribution_entries;
  uint32_t unused;
  uint64_t sum;  // checksum of what precedes it
};
static_assert(sizeof(WireHeader) == 72);

// Followed by [width] floats.
struct WireExample {
  uint64_t prompt;
  float label;
  uint32_t sum;  // checksum of the prompt, the label and the floats
};
static_assert(sizeof(WireExample) == 16);

size_t ExampleBytes(int width) {
  return sizeof(WireExample) + static_cast<size_t>(width) * sizeof(float);
}

template <class T>
std::string_view BytesOf(const T* data, size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof(T)};
}

uint64_t SumOf(const WireHeader& header) {
  FnvHash hash;
  hash.Add(BytesOf(&header, 1).substr(0, offsetof(WireHeader, sum)));
  return hash.value();
}

uint32_t SumOf(const WireExample& example, std::string_view hidden) {
  FnvHash hash;
  hash.Add(BytesOf(&example, 1).substr(0, offsetof(WireExample, sum)));
  hash.Add(hidden);
  return static_cast<uint32_t>(hash.value());
}

WireHeader ToWire(const HeadDataHeader& header) {
  const SamplingParams& s = header.transforms.sampling;
  WireHeader wire{.magic = {},
                  .version = kVersion,
                  .width = header.width,
                  .model = header.model,
                  .temperature = s.temperature,
                  .top_k = s.top_k,
                  .top_p = s.top_p,
                  .min_p = s.min_p,
                  .repetition_penalty = s.repetition_penalty,
                  .presence_penalty = s.presence_penalty,
                  .frequency_penalty = s.frequency_penalty,
                  .distribution_mass = header.transforms.distribution_limits.mass,
                  .distribution_entries = header.transforms.distribution_limits.max_entries,
                  .unused = 0,
                  .sum = 0};
  std::memcpy(wire.magic, kMagic, sizeof kMagic);
  wire.sum = SumOf(wire);
  return wire;
}

// `bytes`: the beginning of a file. nullopt: it was cut within its header.
Result<std::optional<HeadDataHeader>> ParseHeader(std::string_view bytes) {
  const std::string_view magic = BytesOf(kMagic, sizeof kMagic);
  if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) {
    return InvalidArgument("no file of head data");
  }
  if (bytes.size() < sizeof(WireHeader)) return std::optional<HeadDataHeader>();
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.version != kVersion) {
    return InvalidArgument("head data of version " + std::to_string(wire.version) + ", not " +
                           std::to_string(kVersion));
  }
  if (wire.sum != SumOf(wire) || wire.width < 1 || wire.width > kMostWidth) {
    return DataLoss("the header is damaged");
  }
  return std::optional(HeadDataHeader{
      .width = wire.width,
      .model = wire.model,
      .transforms = {.sampling = {.temperature = wire.temperature,
                                  .top_k = wire.top_k,
                                  .top_p = wire.top_p,
                                  .min_p = wire.min_p,
                                  .repetition_penalty = wire.repetition_penalty,
                                  .presence_penalty = wire.presence_penalty,
                                  .frequency_penalty = wire.frequency_penalty},
                     .distribution_limits = {.mass = wire.distribution_mass,
                                             .max_entries = wire.distribution_entries}}});
}

// Reads the header of an open file, and leaves the file positioned after it.
Result<HeadDataHeader> ReadHeader(InputFile& in, const std::string& path) {
  std::string bytes(sizeof(WireHeader), '\0');
  OUTRIDER_ASSIGN(const size_t size, in.Read(bytes.data(), bytes.size()));
  bytes.resize(size);
  Result<std::optional<HeadDataHeader>> header = ParseHeader(bytes);
  if (!header.ok()) return header.status().Annotate(path);
  if (!header->has_value()) return FailedPrecondition(path + ": no example has come yet");
  return **header;
}

// Whether each of the floats in `bytes` is finite.
bool AreFinite(std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(float))) {
    float value = 0.f;
    std::memcpy(&value, bytes.data(), sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// `bytes`: of an example.
bool IsWhole(std::string_view bytes) {
  WireExample wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const std::string_view hidden = bytes.substr(sizeof wire);
  return wire.sum == SumOf(wire, hidden) && wire.label >= 0.f && wire.label <= 1.f &&
         AreFinite(hidden);
}

Status Failure(const std::string& path) { return Unavailable(path + ": " + std::strerror(errno)); }

}  // namespace

uint64_t PromptId(std::span<const TokenId> prompt) {
  FnvHash hash;
  for (const TokenId token : prompt) hash.Add(static_cast<uint64_t>(token));
  return hash.value();
}

Result<std::unique_ptr<HeadDataWriter>> HeadDataWriter::Open(const std::string& path, int width,
                                                             uint64_t model) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (file.get() < 0) return Failure(path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition(path + ": another process writes to it");
  }
  std::unique_ptr<HeadDataWriter> writer(new HeadDataWriter(std::move(file), path, width, model));
  OUTRIDER_TRY(writer->Read());
  return writer;
}

Status HeadDataWriter::Read() {
  struct stat info {};
  if (fstat(file_.get(), &info) != 0) return Failure(path_);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path_ + ": not a regular file");
  std::string bytes(std::min(static_cast<size_t>(info.st_size), sizeof(WireHeader)), '\0');
  if (pread(file_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Failure(path_);
  }
  Result<std::optional<HeadDataHeader>> header = ParseHeader(bytes);
  if (!header.ok()) return header.status().Annotate(path_);
  off_t end = 0;
  if (header->has_value()) {
    if ((*header)->width != width_ || (*header)->model != model_) {
      return FailedPrecondition(path_ + ": head data of another draft model");
    }
    transforms_ = (*header)->transforms;
    const size_t size = ExampleBytes(width_);
    examples_ = (static_cast<size_t>(info.st_size) - sizeof(WireHeader)) / size;
    std::string example(size, '\0');
    for (; examples_ > 0; --examples_) {
      const auto offset = static_cast<off_t>(sizeof(WireHeader) + (examples_ - 1) * size);
      if (pread(file_.get(), example.data(), size, offset) != static_cast<ssize_t>(size)) {
        return Failure(path_);
      }
      if (IsWhole(example)) break;
    }
    end = static_cast<off_t>(sizeof(WireHeader) + examples_ * size);
  }
  return ftruncate(file_.get(), end) == 0 ? Status() : Failure(path_);
}

Status HeadDataWriter::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

Status HeadDataWriter::Begin(const HeadTransforms& transforms) {
  OUTRIDER_CHECK(!transforms_.has_value());
  transforms_ = transforms;
  const WireHeader wire = ToWire({.width = width_, .model = model_, .transforms = transforms});
  return Write(BytesOf(&wire, 1));
}

Status HeadDataWriter::Append(std::span<const HeadExample> examples) {
  OUTRIDER_CHECK(transforms_.has_value());
  std::string bytes;
  bytes.reserve(examples.size() * ExampleBytes(width_));
  for (const HeadExample& example : examples) {
    OUTRIDER_CHECK(example.hidden.size() == static_cast<size_t>(width_));
    const std::string_view hidden = BytesOf(example.hidden.data(), example.hidden.size());
    WireExample wire{.prompt = example.prompt, .label = example.label, .sum = 0};
    wire.sum = SumOf(wire, hidden);
    bytes += BytesOf(&wire, 1);
    bytes += hidden;
  }
  OUTRIDER_TRY(Write(bytes));
  examples_ += examples.size();
  return Status();
}

Result<HeadData> ReadHeadData(const std::string& path, uint64_t max_examples) {
  OUTRIDER_ASSIGN(InputFile in, InputFile::Open(path));
  HeadData data;
  OUTRIDER_ASSIGN(data.header, ReadHeader(in, path));
  const auto width = static_cast<size_t>(data.header.width);
  std::string bytes(ExampleBytes(data.header.width), '\0');
  std::vector<float> hidden(width);
  FnvHash digest;
  const WireHeader header = ToWire(data.header);
  digest.Add(header.sum);
  bool torn = false;
  for (uint64_t i = 0; i < max_examples; ++i) {
    OUTRIDER_ASSIGN(const size_t got, in.Read(bytes.data(), bytes.size()));
    if (got < bytes.size()) break;
    if (!IsWhole(bytes)) {
      torn = true;
      continue;
    }
    if (torn)
      return DataLoss(path + ": an example before the " + std::to_string(i + 1) + "th is damaged");
    WireExample wire;
    std::memcpy(&wire, bytes.data(), sizeof wire);
    std::memcpy(hidden.data(), bytes.data() + sizeof wire, width * sizeof(float));
    data.prompts.push_back(wire.prompt);
    data.labels.push_back(wire.label);
    data.hidden.insert(data.hidden.end(), hidden.begin(), hidden.end());
    digest.Add(wire.sum);
  }
  data.digest = digest.value();
  return data;
}

Result<HeadDataSize> CountHeadData(const std::string& path) {
  OUTRIDER_ASSIGN(InputFile in, InputFile::Open(path));
  HeadDataSize size;
  OUTRIDER_ASSIGN(size.header, ReadHeader(in, path));
  // A header that was written after the file was opened is not in its size.
  const size_t bytes = std::max(in.size(), sizeof(WireHeader));
  size.examples = (bytes - sizeof(WireHeader)) / ExampleBytes(size.header.width);
  return size;
}

}  // namespace outrider
