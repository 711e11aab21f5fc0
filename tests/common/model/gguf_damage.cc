#include "tests/common/model/gguf_damage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>

#include "common/backend/cpu/cpu_backend.h"
#include "common/gguf/gguf_file.h"
#include "common/model/weights.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

void Write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

Status LoadChanged(const std::filesystem::path& file,
                   const std::function<void(std::string& bytes)>& change) {
  std::ifstream in(file, std::ios::binary);
  const std::string before(std::istreambuf_iterator<char>(in), {});
  std::string bytes = before;
  change(bytes);
  Write(file, bytes);
  const Status status = LoadModel(file, CreateCpuBackend({}).value(), kExactOptions).status();
  Write(file, before);
  return status;
}

std::string WordsOf(const std::filesystem::path& file, const std::string& from,
                    const std::string& to) {
  const Status status = LoadChanged(file, [&](std::string& bytes) {
    ASSERT_EQ(from.size(), to.size());
    const size_t pos = bytes.find(from);
    ASSERT_NE(pos, std::string::npos);
    bytes.replace(pos, to.size(), to);
  });
  EXPECT_FALSE(status.ok());
  return status.message();
}

size_t PlaceOf(const std::string& bytes, const std::string& tensor) {
  const GgufFile parsed = GgufFile::Parse(std::as_bytes(std::span(bytes)), "small.gguf").value();
  return static_cast<size_t>(parsed.Tensor(tensor)->bytes.data() -
                             reinterpret_cast<const std::byte*>(bytes.data()));
}

}  // namespace outrider
