// Drives a fuzz target without libFuzzer: runs every file of the given directories, then mutants of
// them from a fixed seed. Takes libFuzzer's options for both, and ignores its others:
//   config_fuzz [-runs=N] [-seed=N] [-max_len=N] directory-or-file...
// An input that breaks the target is saved as crash-input, which can be passed to run it again.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

const Bytes* g_running = nullptr;

void SaveAndDie(int signal) {
  if (std::FILE* file = std::fopen("crash-input", "wb"); file != nullptr) {
    std::fwrite(g_running->data(), 1, g_running->size(), file);
    std::fclose(file);
    std::fputs("the input is in crash-input; give its name to run it again\n", stderr);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const Bytes& input) {
  g_running = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

std::vector<Bytes> ReadAll(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> inputs;
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  Mutator(std::vector<Bytes> corpus, uint64_t seed, size_t max_size)
      : corpus_(std::move(corpus)), random_(seed), max_size_(max_size) {}

  Bytes Next() {
    Bytes input = corpus_.empty() ? Bytes() : corpus_[Below(corpus_.size())];
    for (size_t changes = 1 + Below(8); changes > 0; --changes) Change(input);
    if (input.size() > max_size_) input.resize(max_size_);
    return input;
  }

 private:
  size_t Below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  void Change(Bytes& input) {
    static constexpr uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '[', '{', '-', '9'};
    const size_t pos = Below(input.size() + 1);
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(pos);
    const size_t length = std::min(1 + Below(16), input.size() - pos);
    const auto end = place + static_cast<std::ptrdiff_t>(length);
    switch (Below(6)) {
      case 0:
        if (pos < input.size()) *place ^= static_cast<uint8_t>(1 << Below(8));
        break;
      case 1:
        if (pos < input.size()) *place = kTelling[Below(std::size(kTelling))];
        break;
      case 2: input.insert(place, static_cast<uint8_t>(random_())); break;
      case 3: input.erase(place, end); break;
      case 4: {
        const Bytes piece(place, end);
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(Below(input.size() + 1)),
                     piece.begin(), piece.end());
        break;
      }
      default:
        if (!corpus_.empty()) {  // the rest of another one
          const Bytes& other = corpus_[Below(corpus_.size())];
          const size_t from = Below(other.size() + 1);
          input.resize(pos);
          input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        }
    }
  }

  std::vector<Bytes> corpus_;
  std::mt19937_64 random_;
  size_t max_size_;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 0, seed = 1, max_size = 4096;
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    const auto number = [arg = argv[i]](const char* name, uint64_t* value) {
      const size_t length = std::strlen(name);
      if (std::strncmp(arg, name, length) == 0) *value = std::strtoull(arg + length, nullptr, 10);
    };
    number("-runs=", &runs);
    number("-seed=", &seed);
    number("-max_len=", &max_size);
    if (argv[i][0] != '-') paths.emplace_back(argv[i]);
  }
  // With abort_on_error=1, sanitizers end a process by SIGABRT.
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) {
    std::signal(signal, SaveAndDie);
  }
  std::vector<Bytes> corpus = ReadAll(paths);
  for (const Bytes& input : corpus) Run(input);
  std::printf("%zu inputs of the corpus\n", corpus.size());
  Mutator mutator(std::move(corpus), seed, max_size);
  for (uint64_t i = 0; i < runs; ++i) {
    const Bytes input = mutator.Next();
    Run(input);
  }
  std::printf("%llu mutants\n", static_cast<unsigned long long>(runs));
}
