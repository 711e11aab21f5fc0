#include "common/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "common/base/printable.h"

namespace outrider {
namespace {

using Type = GgufValue::Type;

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr int64_t kDefaultAlignmentBytes = 32;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint32_t kMaxDimensions = 4;
constexpr char kAlignmentKey[] = "general.alignment";

struct TypeInfo {
  uint32_t id;  // in the file
  GgmlType type;
  const char* name;
  int64_t elements, bytes;  // per block
};
constexpr TypeInfo kTypes[] = {
    {0, GgmlType::kF32, "F32", 1, 4},       {1, GgmlType::kF16, "F16", 1, 2},
    {30, GgmlType::kBf16, "BF16", 1, 2},    {8, GgmlType::kQ80, "Q8_0", 32, 34},
    {2, GgmlType::kQ40, "Q4_0", 32, 18},    {12, GgmlType::kQ4K, "Q4_K", 256, 144},
    {6, GgmlType::kQ50, "Q5_0", 32, 22},    {13, GgmlType::kQ5K, "Q5_K", 256, 176},
    {14, GgmlType::kQ6K, "Q6_K", 256, 210}, {39, GgmlType::kMxfp4, "MXFP4", 32, 17}};

// Types of which only the name is known.
constexpr std::pair<uint32_t, const char*> kOtherTypes[] = {
    {3, "Q4_1"},     {7, "Q5_1"},    {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},
    {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
    {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},   {26, "I32"},    {27, "I64"},
    {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"}};

const TypeInfo& InfoOf(GgmlType type) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const TypeInfo& info) { return info.type == type; });
}

const TypeInfo* FindType(uint32_t id) {
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](const TypeInfo& info) { return info.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string NameOfType(uint32_t id) {
  for (const auto& [other, name] : kOtherTypes) {
    if (other == id) return name;
  }
  return "of the type number " + std::to_string(id);
}

// 0 for types without a fixed size, and for unknown types.
uint64_t BytesOf(Type type) {
  switch (type) {
    case Type::kUint8:
    case Type::kInt8:
    case Type::kBool: return 1;
    case Type::kUint16:
    case Type::kInt16: return 2;
    case Type::kUint32:
    case Type::kInt32:
    case Type::kFloat32: return 4;
    case Type::kUint64:
    case Type::kInt64:
    case Type::kFloat64: return 8;
    case Type::kString:
    case Type::kArray: break;
  }
  return 0;
}

template <class T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);  // need not be aligned
  return value;
}

// nullopt: not an integer, or above int64's range.
std::optional<int64_t> Integer(Type type, const std::byte* bytes) {
  switch (type) {
    case Type::kUint8: return Load<uint8_t>(bytes);
    case Type::kInt8: return Load<int8_t>(bytes);
    case Type::kUint16: return Load<uint16_t>(bytes);
    case Type::kInt16: return Load<int16_t>(bytes);
    case Type::kUint32: return Load<uint32_t>(bytes);
    case Type::kInt32: return Load<int32_t>(bytes);
    case Type::kInt64: return Load<int64_t>(bytes);
    case Type::kUint64: {
      const auto value = Load<uint64_t>(bytes);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    case Type::kFloat32:
    case Type::kFloat64:
    case Type::kBool:
    case Type::kString:
    case Type::kArray: break;
  }
  return std::nullopt;
}

std::string_view Characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

const char* GgmlTypeName(GgmlType type) { return InfoOf(type).name; }
int64_t GgmlBlockElements(GgmlType type) { return InfoOf(type).elements; }
int64_t GgmlBlockBytes(GgmlType type) { return InfoOf(type).bytes; }

// A cursor over the file. Each step checks that the bytes it reads exist.
class GgufFile::Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  Status ReadInto(GgufFile* out);

 private:
  Result<std::span<const std::byte>> Take(uint64_t bytes, const char* what);
  template <class T>
  Result<T> Number(const char* what);
  Result<std::string_view> String(uint64_t max_bytes, const char* what);
  Status ReadVersion();
  Status ReadPair(GgufFile* out);
  Status ReadValue(GgufValue* value);
  Status ReadArray(GgufValue* value);
  Status ReadAlignment(const GgufFile& out);
  // `offset` is that of the tensor's bytes within the data.
  Result<GgufTensor> ReadTensor(uint64_t* offset);
  Result<std::vector<int64_t>> ReadShape();
  Status PlaceTensors(const std::vector<uint64_t>& offsets, GgufFile* out) const;

  std::span<const std::byte> file_;
  size_t at_ = 0;
  int64_t alignment_ = kDefaultAlignmentBytes;
};

Result<std::span<const std::byte>> GgufFile::Reader::Take(uint64_t bytes, const char* what) {
  if (bytes > file_.size() - at_) {
    return DataLoss("ends within " + std::string(what) + ": " + std::to_string(bytes) +
                    " bytes at byte " + std::to_string(at_) + ", the file has " +
                    std::to_string(file_.size()));
  }
  const auto taken = file_.subspan(at_, static_cast<size_t>(bytes));
  at_ += taken.size();
  return taken;
}

template <class T>
Result<T> GgufFile::Reader::Number(const char* what) {
  OUTRIDER_ASSIGN(const std::span<const std::byte> bytes, Take(sizeof(T), what));
  return Load<T>(bytes.data());
}

Result<std::string_view> GgufFile::Reader::String(uint64_t max_bytes, const char* what) {
  OUTRIDER_ASSIGN(const uint64_t length, Number<uint64_t>(what));
  if (length > max_bytes) {
    return InvalidArgument(std::string(what) + " of " + std::to_string(length) +
                           " bytes, at most " + std::to_string(max_bytes));
  }
  OUTRIDER_ASSIGN(const std::span<const std::byte> bytes, Take(length, what));
  return Characters(bytes);
}

Status GgufFile::Reader::ReadVersion() {
  OUTRIDER_ASSIGN(const uint32_t magic, Number<uint32_t>("its header"));
  if (magic != kMagic) return InvalidArgument("does not begin with GGUF; it is no GGUF file");
  OUTRIDER_ASSIGN(const uint32_t version, Number<uint32_t>("its header"));
  if (version == 2 || version == 3) return Status();
  if ((version & 0xffff) == 0) {
    return Unimplemented("is a big-endian GGUF file; little-endian ones are read");
  }
  return Unimplemented("is GGUF of version " + std::to_string(version) +
                       "; versions 2 and 3 are read");
}

Status GgufFile::Reader::ReadArray(GgufValue* value) {
  OUTRIDER_ASSIGN(const uint32_t element, Number<uint32_t>("the type of an array"));
  OUTRIDER_ASSIGN(value->count, Number<uint64_t>("the length of an array"));
  value->element = static_cast<Type>(element);
  if (value->element == Type::kArray) return Unimplemented("is an array of arrays");
  const size_t begin = at_;
  if (value->element == Type::kString) {
    for (uint64_t i = 0; i < value->count; ++i) {
      OUTRIDER_TRY(String(file_.size(), "a string of an array").status());
    }
  } else {
    const uint64_t each = BytesOf(value->element);
    if (each == 0) {
      return InvalidArgument("is an array of the unknown type number " + std::to_string(element));
    }
    if (value->count > file_.size() / each) {
      return DataLoss("is an array of " + std::to_string(value->count) +
                      " elements, more than the file's " + std::to_string(file_.size()) + " bytes");
    }
    OUTRIDER_TRY(Take(value->count * each, "an array").status());
  }
  value->bytes = file_.subspan(begin, at_ - begin);
  return Status();
}

Status GgufFile::Reader::ReadValue(GgufValue* value) {
  OUTRIDER_ASSIGN(const uint32_t type, Number<uint32_t>("the type of a value"));
  value->type = static_cast<Type>(type);
  if (value->type == Type::kArray) return ReadArray(value);
  if (value->type == Type::kString) {
    OUTRIDER_ASSIGN(const std::string_view text, String(file_.size(), "a string"));
    value->bytes = std::as_bytes(std::span(text));
    return Status();
  }
  const uint64_t size = BytesOf(value->type);
  if (size == 0) return InvalidArgument("is of the unknown type number " + std::to_string(type));
  OUTRIDER_ASSIGN(value->bytes, Take(size, "a value"));
  return Status();
}

Status GgufFile::Reader::ReadPair(GgufFile* out) {
  OUTRIDER_ASSIGN(const std::string_view key, String(kMaxKeyBytes, "a key"));
  if (key.empty()) return InvalidArgument("a key of the metadata is empty");
  GgufValue value;
  OUTRIDER_TRY(ReadValue(&value).Annotate(Printable(key)));
  if (!out->metadata_.emplace(key, value).second) {
    return InvalidArgument(Printable(key) + ": is in the metadata twice");
  }
  return Status();
}

Status GgufFile::Reader::ReadAlignment(const GgufFile& out) {
  if (!out.Has(kAlignmentKey)) return Status();
  constexpr int64_t kMin = 8, kMax = 1 << 16;  // the format requires a multiple of 8
  OUTRIDER_ASSIGN(alignment_, out.Int(kAlignmentKey, 0, INT64_MAX));
  if (alignment_ >= kMin && alignment_ <= kMax && (alignment_ & (alignment_ - 1)) == 0) {
    return Status();
  }
  return InvalidArgument(std::string(kAlignmentKey) + " is " + std::to_string(alignment_) +
                         ", must be a power of two from " + std::to_string(kMin) + " to " +
                         std::to_string(kMax));
}

Result<std::vector<int64_t>> GgufFile::Reader::ReadShape() {
  OUTRIDER_ASSIGN(const uint32_t rank, Number<uint32_t>("a tensor's shape"));
  if (rank < 1 || rank > kMaxDimensions) {
    return InvalidArgument("has " + std::to_string(rank) + " dimensions, must be 1 to " +
                           std::to_string(kMaxDimensions));
  }
  std::vector<int64_t> shape(rank);
  int64_t elements = 1;
  for (size_t i = rank; i-- > 0;) {
    OUTRIDER_ASSIGN(const uint64_t side, Number<uint64_t>("a tensor's shape"));
    if (side == 0 || side > INT64_MAX ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(side), &elements)) {
      return InvalidArgument("has a dimension of " + std::to_string(side) +
                             (side == 0 ? "" : ", which overflows"));
    }
    shape[i] = static_cast<int64_t>(side);
  }
  return shape;
}

Result<GgufTensor> GgufFile::Reader::ReadTensor(uint64_t* offset) {
  OUTRIDER_ASSIGN(const std::string_view name, String(kMaxNameBytes, "a tensor's name"));
  if (name.empty()) return InvalidArgument("a tensor's name is empty");
  GgufTensor tensor = {.name = std::string(name)};
  const std::string shown = Printable(name);
  Result<std::vector<int64_t>> shape = ReadShape();
  if (!shape.ok()) return shape.status().Annotate(shown);
  tensor.shape = std::move(shape).value();
  OUTRIDER_ASSIGN(const uint32_t id, Number<uint32_t>("a tensor's type"));
  OUTRIDER_ASSIGN(*offset, Number<uint64_t>("a tensor's offset"));
  const TypeInfo* const info = FindType(id);
  if (info == nullptr) {
    std::string all;
    for (const TypeInfo& known : kTypes) all += (all.empty() ? "" : ", ") + std::string(known.name);
    return Unimplemented(shown + " is " + NameOfType(id) + "; types that are read: " + all +
                         "; convert the file with llama-quantize");
  }
  tensor.type = info->type;
  const int64_t columns = tensor.shape.back();
  if (columns % info->elements != 0) {
    return InvalidArgument(shown + ": rows of " + std::to_string(columns) + " elements as " +
                           info->name + ", whose blocks have " + std::to_string(info->elements));
  }
  return tensor;
}

Status GgufFile::Reader::PlaceTensors(const std::vector<uint64_t>& offsets, GgufFile* out) const {
  const auto alignment = static_cast<uint64_t>(alignment_);
  const uint64_t begin = (at_ + alignment - 1) / alignment * alignment;
  const auto data = begin <= file_.size() ? file_.subspan(begin) : std::span<const std::byte>();
  for (size_t i = 0; i < offsets.size(); ++i) {
    GgufTensor& tensor = out->tensors_[i];
    const std::string shown = Printable(tensor.name);
    if (offsets[i] % alignment != 0) {
      return InvalidArgument(shown + ": its offset " + std::to_string(offsets[i]) +
                             " is not a multiple of the alignment, " + std::to_string(alignment));
    }
    const TypeInfo& info = InfoOf(tensor.type);
    int64_t blocks = tensor.shape.back() / info.elements, bytes = 0;
    for (size_t k = 0; k + 1 < tensor.shape.size(); ++k) blocks *= tensor.shape[k];
    if (__builtin_mul_overflow(blocks, info.bytes, &bytes) || offsets[i] > data.size() ||
        static_cast<uint64_t>(bytes) > data.size() - offsets[i]) {
      return DataLoss(shown + ": " + std::to_string(blocks) + " blocks of " +
                      std::to_string(info.bytes) + " bytes at byte " + std::to_string(offsets[i]) +
                      " of the data, which has " + std::to_string(data.size()));
    }
    tensor.bytes = data.subspan(offsets[i], static_cast<size_t>(bytes));
  }
  std::sort(out->tensors_.begin(), out->tensors_.end(),
            [](const auto& a, const auto& b) { return a.bytes.data() < b.bytes.data(); });
  for (size_t i = 1; i < out->tensors_.size(); ++i) {
    const GgufTensor& before = out->tensors_[i - 1];
    if (before.bytes.data() + before.bytes.size() <= out->tensors_[i].bytes.data()) continue;
    return InvalidArgument(Printable(out->tensors_[i].name) + ": overlaps " +
                           Printable(before.name));
  }
  return Status();
}

Status GgufFile::Reader::ReadInto(GgufFile* out) {
  OUTRIDER_TRY(ReadVersion());
  OUTRIDER_ASSIGN(const uint64_t tensors, Number<uint64_t>("its header"));
  OUTRIDER_ASSIGN(const uint64_t pairs, Number<uint64_t>("its header"));
  if (tensors > kMaxGgufTensors) {
    return InvalidArgument(std::to_string(tensors) + " tensors, at most " +
                           std::to_string(kMaxGgufTensors));
  }
  if (pairs > kMaxGgufPairs) {
    return InvalidArgument(std::to_string(pairs) + " pairs of metadata, at most " +
                           std::to_string(kMaxGgufPairs));
  }
  for (uint64_t i = 0; i < pairs; ++i) OUTRIDER_TRY(ReadPair(out));
  OUTRIDER_TRY(ReadAlignment(*out));
  std::vector<uint64_t> offsets;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    uint64_t offset = 0;
    OUTRIDER_ASSIGN(GgufTensor tensor, ReadTensor(&offset));
    if (!names.insert(tensor.name).second) {
      return InvalidArgument(Printable(tensor.name) + ": two tensors have this name");
    }
    offsets.push_back(offset);
    out->tensors_.push_back(std::move(tensor));
  }
  return PlaceTensors(offsets, out);
}

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, const std::string& where) {
  GgufFile out;
  const Status status = Reader(bytes).ReadInto(&out);
  if (!status.ok()) return status.Annotate(where);
  out.where_ = where;
  return out;
}

Result<GgufFile> GgufFile::Open(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(MappedFile file, MappedFile::Open(path));
  OUTRIDER_ASSIGN(GgufFile out, Parse(file.bytes(), path.string()));
  out.file_.emplace(std::move(file));
  return out;
}

const GgufTensor* GgufFile::Tensor(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

Status GgufFile::Wrong(std::string_view key, const std::string& why) const {
  const std::string message = Printable(key) + " " + why;
  return InvalidArgument(where_.empty() ? message : where_ + ": " + message);
}

Status GgufFile::Unsupported(std::string_view key, const std::string& why) const {
  return Unimplemented(Wrong(key, why).message());
}

Result<const GgufValue*> GgufFile::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return Wrong(key, "is missing");
  return &found->second;
}

Result<const GgufValue*> GgufFile::FindArray(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, Find(key));
  if (value->type != Type::kArray) return Wrong(key, "must be an array");
  return value;
}

Result<std::string_view> GgufFile::Text(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, Find(key));
  if (value->type != Type::kString) return Wrong(key, "must be a string");
  return Characters(value->bytes);
}

Result<int64_t> GgufFile::Int(std::string_view key, int64_t low, int64_t high) const {
  OUTRIDER_ASSIGN(const GgufValue* value, Find(key));
  const std::optional<int64_t> number = Integer(value->type, value->bytes.data());
  if (number.has_value() && *number >= low && *number <= high) return *number;
  return Wrong(key, (number.has_value() ? "is " + std::to_string(*number) + ", " : "") +
                        "must be an integer from " + std::to_string(low) + " to " +
                        std::to_string(high));
}

Result<bool> GgufFile::Bool(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, Find(key));
  if (value->type != Type::kBool || Load<uint8_t>(value->bytes.data()) > 1) {
    return Wrong(key, "must be true or false");
  }
  return Load<uint8_t>(value->bytes.data()) == 1;
}

Result<double> GgufFile::Number(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, Find(key));
  double number = std::nan("");
  if (const auto integer = Integer(value->type, value->bytes.data())) {
    number = static_cast<double>(*integer);
  } else if (value->type == Type::kFloat32) {
    number = static_cast<double>(Load<float>(value->bytes.data()));
  } else if (value->type == Type::kFloat64) {
    number = Load<double>(value->bytes.data());
  }
  return std::isfinite(number) ? Result<double>(number) : Wrong(key, "must be a finite number");
}

Result<std::vector<std::string_view>> GgufFile::Texts(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, FindArray(key));
  if (value->element != Type::kString) return Wrong(key, "must be an array of strings");
  std::vector<std::string_view> texts;
  size_t offset = 0;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto length = static_cast<size_t>(Load<uint64_t>(value->bytes.data() + offset));
    offset += sizeof(uint64_t);
    texts.push_back(Characters(value->bytes.subspan(offset, length)));
    offset += length;
  }
  return texts;
}

Result<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, FindArray(key));
  std::vector<int64_t> numbers;
  const size_t each = BytesOf(value->element);
  for (size_t i = 0; i < value->count; ++i) {
    const auto number = Integer(value->element, value->bytes.data() + i * each);
    if (!number.has_value()) return Wrong(key, "must be an array of integers");
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<float>> GgufFile::Floats(std::string_view key) const {
  OUTRIDER_ASSIGN(const GgufValue* value, FindArray(key));
  if (value->element != Type::kFloat32) return Wrong(key, "must be an array of 32-bit floats");
  std::vector<float> numbers(static_cast<size_t>(value->count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = Load<float>(value->bytes.data() + i * sizeof(float));
    if (!std::isfinite(numbers[i])) {
      return Wrong(key, "has an element that is not finite, number " + std::to_string(i));
    }
  }
  return numbers;
}

Result<std::optional<int64_t>> GgufFile::MaybeInt(std::string_view key, int64_t low,
                                                  int64_t high) const {
  if (!Has(key)) return std::optional<int64_t>();
  OUTRIDER_ASSIGN(const int64_t number, Int(key, low, high));
  return std::optional(number);
}

Result<std::optional<bool>> GgufFile::MaybeBool(std::string_view key) const {
  if (!Has(key)) return std::optional<bool>();
  OUTRIDER_ASSIGN(const bool value, Bool(key));
  return std::optional(value);
}

Result<std::optional<int64_t>> GgufFile::MaybeToken(std::string_view key, int64_t limit) const {
  if (!Has(key)) return std::optional<int64_t>();
  OUTRIDER_ASSIGN(const int64_t token, Int(key, -1, UINT32_MAX));
  if (token == -1 || token == int64_t{UINT32_MAX}) return std::optional<int64_t>();
  return MaybeInt(key, 0, limit - 1);
}

std::optional<std::filesystem::path> FindGgufModel(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code failure;
  if (!fs::is_directory(path, failure)) {
    if (path.extension() == ".gguf" && fs::exists(path, failure)) return path;
    return std::nullopt;
  }
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(path / weights, failure)) return std::nullopt;
  }
  std::optional<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, failure)) {
    if (entry.path().extension() != ".gguf") continue;
    if (found.has_value()) return std::nullopt;
    found = entry.path();
  }
  return found;
}

}  // namespace outrider
