#include "verifier/http/json_pieces.h"

#include <utility>

namespace outrider {

void JsonPieces::Add(std::function<std::string()> text) {
  AddEntries(1, [text = std::move(text)](size_t) { return text(); });
}

void JsonPieces::Add(std::string text) {
  Add([text = std::move(text)] { return text; });
}

void JsonPieces::AddEntries(size_t count, std::function<std::string(size_t)> entry) {
  if (count > 0) parts_.push_back({.count = count, .entry = std::move(entry)});
}

std::string JsonPieces::Next() {
  std::string piece;
  while (!done() && piece.size() < kPieceBytes) {
    Part& part = parts_[part_];
    if (entry_ > 0) piece += ',';
    piece += part.entry(entry_);
    if (++entry_ < part.count) continue;
    part.entry = nullptr;  // frees what it holds
    entry_ = 0;
    ++part_;
  }
  return piece;
}

std::string JsonPieces::All() {
  std::string text;
  while (!done()) text += Next();
  return text;
}

}  // namespace outrider
