#include "common/text/pre_tokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/text/unicode.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

struct Part {
  TextSpan span;
  bool match;
};

// The matches and the parts between them.
std::vector<Part> Cover(size_t size, const std::vector<TextSpan>& matches, bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const TextSpan& match : matches) {
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (size > done) parts.push_back({{done, size}, invert});
  return parts;
}

// Only the match next to a neighbour is merged with it; the others of a run stay alone.
void JoinPrevious(const std::vector<Part>& parts, std::vector<TextSpan>& out) {
  bool previous_match = false;
  const size_t first = out.size();
  for (const Part& part : parts) {
    if (part.match && !previous_match && out.size() > first) {
      out.back().end = part.span.end;
    } else {
      out.push_back(part.span);
    }
    previous_match = part.match;
  }
}

void JoinNext(const std::vector<Part>& parts, std::vector<TextSpan>& out) {
  bool next_match = false;
  const size_t first = out.size();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->match && !next_match && out.size() > first) {
      out.back().begin = part->span.begin;
    } else {
      out.push_back(part->span);
    }
    next_match = part->match;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

void JoinRuns(const std::vector<Part>& parts, std::vector<TextSpan>& out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i].match == parts[i - 1].match) {
      out.back().end = parts[i].span.end;
    } else {
      out.push_back(parts[i].span);
    }
  }
}

void Arrange(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<TextSpan>& out) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Part& part : parts) out.push_back(part.span);
      return;
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.match) out.push_back(part.span);
      }
      return;
    case SplitBehavior::kMergedWithPrevious: return JoinPrevious(parts, out);
    case SplitBehavior::kMergedWithNext: return JoinNext(parts, out);
    case SplitBehavior::kContiguous: return JoinRuns(parts, out);
  }
}

Status CutPieces(const Pattern& pattern, SplitBehavior behavior, bool invert, MatchBudget* budget,
                 Pieces& pieces) {
  std::vector<TextSpan> spans;
  for (const TextSpan& piece : pieces.spans) {
    const auto text = std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin);
    OUTRIDER_ASSIGN(const std::vector<TextSpan> matches, pattern.FindAll(text, budget));
    const size_t first = spans.size();
    Arrange(Cover(text.size(), matches, invert), behavior, spans);
    for (size_t i = first; i < spans.size(); ++i) {
      spans[i].begin += piece.begin;
      spans[i].end += piece.begin;
    }
  }
  std::erase_if(spans, [](const TextSpan& span) { return span.begin == span.end; });
  pieces.spans = std::move(spans);
  return Status();
}

// `rewrite(piece, is_first, out)` appends what the piece becomes.
template <class Rewrite>
void RewritePieces(Pieces& pieces, Rewrite rewrite) {
  Pieces out;
  for (const TextSpan& piece : pieces.spans) {
    const size_t begin = out.text.size();
    rewrite(std::string_view(pieces.text).substr(piece.begin, piece.end - piece.begin),
            piece.begin == 0, out.text);
    out.spans.push_back({begin, out.text.size()});
  }
  pieces = std::move(out);
}

Status ApplyMetaspace(const MetaspaceStep& step, bool at_text_start, MatchBudget* budget,
                      Pieces& pieces) {
  RewritePieces(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool wanted = step.prepend_scheme == PrependScheme::kAlways ||
                        (step.prepend_scheme == PrependScheme::kFirst && at_text_start && is_first);
    // Spaces have already become replacements when the start is checked.
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(step.replacement)) {
      out += step.replacement;
    }
    for (const char c : piece) {
      if (c == ' ') {
        out += step.replacement;
      } else {
        out += c;
      }
    }
  });
  if (!step.split) return Status();
  OUTRIDER_ASSIGN(const Pattern mark, Pattern::Create({.text = step.replacement, .regex = false}));
  return CutPieces(mark, SplitBehavior::kMergedWithNext, false, budget, pieces);
}

void CutByScript(Pieces& pieces) {
  std::vector<TextSpan> spans;
  for (const TextSpan& piece : pieces.spans) {
    int script = 0;  // of the span that is open; 0: none is
    for (size_t pos = piece.begin; pos < piece.end;) {
      const auto [code, size] = FirstCharacter(std::string_view(pieces.text).substr(pos));
      const int next = ScriptOf(code);
      if (next != 0 && next != script) {
        spans.push_back({pos, pos});
        script = next;
      }
      pos += size;
      if (script != 0) spans.back().end = pos;
    }
  }
  pieces.spans = std::move(spans);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer pre_tokenizer;
  for (const PreTokenizerStep& step : steps) {
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      OUTRIDER_ASSIGN(Pattern pattern, Pattern::Create(split->pattern));
      pre_tokenizer.steps_.emplace_back(Cut{std::move(pattern), split->behavior, split->invert});
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      pre_tokenizer.steps_.emplace_back(*metaspace);
    } else if (std::holds_alternative<ScriptsStep>(step)) {
      pre_tokenizer.steps_.emplace_back(ScriptsStep{});
    } else {
      pre_tokenizer.steps_.emplace_back(PrefixSpaceStep{});
    }
  }
  return pre_tokenizer;
}

Result<Pieces> PreTokenizer::Split(std::string text, bool at_text_start,
                                   MatchBudget* budget) const {
  Pieces pieces{std::move(text), {}};
  if (!pieces.text.empty()) pieces.spans.push_back({0, pieces.text.size()});
  for (const auto& step : steps_) {
    if (const auto* cut = std::get_if<Cut>(&step)) {
      OUTRIDER_TRY(CutPieces(cut->pattern, cut->behavior, cut->invert, budget, pieces));
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      OUTRIDER_TRY(ApplyMetaspace(*metaspace, at_text_start, budget, pieces));
    } else if (std::holds_alternative<ScriptsStep>(step)) {
      CutByScript(pieces);
    } else {
      RewritePieces(pieces, [](std::string_view piece, bool, std::string& out) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    }
  }
  return pieces;
}

}  // namespace outrider
