// A JSON text that is made a piece at a time, so that no thread works on a large answer for long
// and none of it waits in memory.
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
  // A piece ends after the part or entry with which it has so many bytes.
  static constexpr size_t kPieceBytes = 64 << 10;

  // The parts follow one another. Each function is called once, when its part's turn comes.
  void Add(std::function<std::string()> text);
  void Add(std::string text);
  // Of an array, without its brackets. Called for 0, 1, ..
  void AddEntries(size_t count, std::function<std::string(size_t index)> entry);

  // The next piece; "" once there is no more.
  std::string Next();
  bool done() const { return part_ == parts_.size(); }
  // The rest.
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
