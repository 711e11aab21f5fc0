#include "client/draft_marks.h"

namespace outrider {

std::string MarkAccepted(std::string_view chunk, std::string_view own, MarkStyle style) {
  const size_t accepted = chunk.ends_with(own) ? chunk.size() - own.size() : chunk.size();
  if (accepted == 0) return std::string(chunk);
  const bool colour = style == MarkStyle::kColour;
  std::string marked = colour ? "\x1b[32m" : "[";
  marked += chunk.substr(0, accepted);
  marked += colour ? "\x1b[0m" : "]";
  marked += chunk.substr(accepted);
  return marked;
}

}  // namespace outrider
