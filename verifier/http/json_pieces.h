// JSON text that is produced piece by piece, so that no thread works on a large answer for long and
// none of it waits in memory.
//
// Thread: not synchronised.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace outrider {

class JsonPieces {
 public:
  // A piece ends after the part or entry that brings it to this many bytes.
  static constexpr size_t kPieceBytes = 64 << 10;

  // Appends a part. Each function is called once, when its part's turn comes.
  void Add(std::function<std::string()> text);
  void Add(std::string text);
  // Appends the entries of an array, without its brackets. Called with 0, 1, ..
  void AddEntries(size_t count, std::function<std::string(size_t index)> entry);

  // The next piece; "" at the end.
  std::string Next();
  bool done() const { return part_ == parts_.size(); }
  // All remaining pieces.
  std::string All();

 private:
  struct Part {
    size_t count = 0;  // of entries
    std::function<std::string(size_t)> entry;
  };
  std::vector<Part> parts_;
  size_t part_ = 0, entry_ = 0;  // next
};

}  // namespace outrider
