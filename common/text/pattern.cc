#include "common/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <utility>

#include "common/base/printable.h"
#include "common/text/newer_characters.h"
#include "common/text/utf8.h"

namespace outrider {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
// A linear match backtracks at most once per character, and texts have at most 16 Mi of them.
constexpr uint32_t kMaxMatchSteps = 50'000'000;
constexpr uint32_t kMaxMatchKib = 64 << 10;
constexpr size_t kMostShownBytes = 200;  // of a pattern, in an error
// Reading a thread's CPU time takes as long as a match of a word.
constexpr int kMatchesPerCheck = 32;

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct CompileContextFree {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// The name of a property at the start of `text`, after \\p: "{Lu}" is Lu. "" if it is spelled in
// another way.
std::string_view PropertyName(std::string_view text) {
  const size_t end = text.find('}');
  if (!text.starts_with('{') || end == std::string_view::npos) return "";
  return text.substr(1, end - 1);
}

std::string_view NewerRanges(std::string_view property) {
  for (const NewerCharacters& newer : kNewerCharacters) {
    if (newer.property == property) return newer.ranges;
  }
  return "";
}

// Rewrites a regular expression for PCRE2.
class PatternRewriter {
 public:
  explicit PatternRewriter(std::string_view pattern) : pattern_(pattern), rest_(pattern) {}

  // kUnimplemented: PCRE2 would read a part of it in another way than Oniguruma.
  Result<std::string> Rewrite() {
    while (!rest_.empty()) {
      if (const std::string_view part = DifferentPart(); !part.empty()) {
        return Unimplemented("regular expression: " + std::string(part) + " at byte " +
                             std::to_string(pattern_.size() - rest_.size()) + " of " +
                             std::string(pattern_));
      }
      const char c = rest_.front();
      if (c == '\\' && rest_.size() > 1) {
        CopyEscape();
        continue;
      }
      if (in_class_ && IsPosixClass()) {
        Copy(rest_.find(":]") + 2);
        continue;
      }
      Copy(1);
      if (in_class_) {
        in_class_ = c != ']';
      } else if (c == '[') {
        in_class_ = true;
        // The first character is a member, even "]".
        if (rest_.starts_with('^')) Copy(1);
        if (rest_.starts_with(']')) Copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  // "[:alpha:]" within a class.
  bool IsPosixClass() const {
    return rest_.starts_with("[:") && rest_.find(":]") != std::string_view::npos;
  }

  // What the rest begins with if PCRE2 knows it as something else; "" if it does not.
  std::string_view DifferentPart() const {
    const bool is_escape = rest_.size() > 1 && rest_.front() == '\\';
    if (is_escape && std::string_view("hHvV").find(rest_[1]) != std::string_view::npos) {
      return rest_.substr(0, 2);
    }
    if (in_class_ && rest_.starts_with("&&")) return "&& in a class";
    if (in_class_ && rest_.starts_with('[') && !IsPosixClass()) return "[ in a class";
    return "";
  }

  void Copy(size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  void CopyEscape() {
    const char escaped = rest_[1];
    if (escaped == 's' || escaped == 'S') {
      out_ += escaped == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      rest_.remove_prefix(2);
      return;
    }
    const bool is_property = escaped == 'p' || escaped == 'P';
    const std::string_view name = is_property ? PropertyName(rest_.substr(2)) : "";
    const std::string_view newer = NewerRanges(name);
    const size_t bytes = newer.empty() ? 2 : 4 + name.size();
    if (newer.empty()) return Copy(2);
    // Within a class, nothing can be added to the complement of a property.
    if (in_class_ && escaped == 'P') return Copy(bytes);
    rest_.remove_prefix(bytes);
    if (!in_class_) out_ += escaped == 'p' ? "[" : "[^";
    out_ += "\\p{";
    out_ += name;
    out_ += "}";
    out_ += newer;
    if (!in_class_) out_ += "]";
  }

  const std::string_view pattern_;
  std::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

std::string ErrorText(int error) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(error, buffer, sizeof buffer) < 0) return std::to_string(error);
  return reinterpret_cast<const char*>(buffer);
}

double ThreadSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<TextSpan> FindLiteral(std::string_view text, std::string_view literal) {
  std::vector<TextSpan> spans;
  if (literal.empty()) return spans;
  for (size_t pos = text.find(literal); pos != std::string_view::npos;
       pos = text.find(literal, pos + literal.size())) {
    spans.push_back({pos, pos + literal.size()});
  }
  return spans;
}

}  // namespace

MatchBudget::MatchBudget(int milliseconds)
    : milliseconds_(milliseconds), end_(ThreadSeconds() + 1e-3 * milliseconds) {}

bool MatchBudget::CountMatch() {
  return ++matches_ % kMatchesPerCheck != 0 || ThreadSeconds() < end_;
}

struct Pattern::Regex {
  std::string source;
  std::unique_ptr<pcre2_code, CodeFree> code;
  std::unique_ptr<pcre2_match_context, MatchContextFree> limits;
};

Result<Pattern> Pattern::Create(const PatternSpec& spec) {
  Pattern pattern;
  if (!spec.regex) {
    pattern.literal_ = spec.text;
    return pattern;
  }
  if (spec.text.size() > kMaxPatternBytes) {
    return InvalidArgument("a regular expression of " + std::to_string(spec.text.size()) +
                           " bytes, limit " + std::to_string(kMaxPatternBytes));
  }
  OUTRIDER_ASSIGN(const std::string text, PatternRewriter(spec.text).Rewrite());
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto regex = std::make_shared<Regex>();
  regex->source = spec.text;
  // \C would match a single byte of a character.
  regex->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                  nullptr));
  if (regex->code == nullptr) {
    return InvalidArgument("regular expression: " + ErrorText(error) + " at byte " +
                           std::to_string(offset) + " of " + text);
  }
  // Without JIT (if the architecture or the kernel forbids it) PCRE2 interprets, with the same
  // results.
  (void)pcre2_jit_compile(regex->code.get(), PCRE2_JIT_COMPLETE);
  regex->limits.reset(pcre2_match_context_create(nullptr));
  if (regex->limits == nullptr) return ResourceExhausted("no memory for a regular expression");
  pcre2_set_match_limit(regex->limits.get(), kMaxMatchSteps);
  pcre2_set_heap_limit(regex->limits.get(), kMaxMatchKib);
  pattern.regex_ = std::move(regex);
  return pattern;
}

Result<std::vector<TextSpan>> Pattern::FindAll(std::string_view text, MatchBudget* budget) const {
  if (regex_ == nullptr) return FindLiteral(text, literal_);
  const std::unique_ptr<pcre2_match_data, MatchDataFree> match(
      pcre2_match_data_create_from_pattern(regex_->code.get(), nullptr));
  if (match == nullptr) return ResourceExhausted("no memory to match a regular expression");
  std::vector<TextSpan> spans;
  size_t pos = 0;
  while (pos <= text.size()) {
    if (!budget->CountMatch()) {
      return InvalidArgument("splitting the text at byte " + std::to_string(pos) + " by " +
                             Printable(regex_->source, kMostShownBytes) + " takes more than " +
                             std::to_string(budget->milliseconds()) +
                             " ms of CPU time; shorten the text");
    }
    const auto run = [&](uint32_t options) {
      // The caller has checked the text once; PCRE2 would do so again for every match.
      return pcre2_match(regex_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                         pos, PCRE2_NO_UTF_CHECK | options, match.get(), regex_->limits.get());
    };
    int count = run(0);
    // Compiled code has a stack of 32 KiB; the interpreter uses the heap.
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) {
      const std::string message =
          "splitting the text at byte " + std::to_string(pos) + ": " + ErrorText(count);
      // The same text always reaches the limit, so trying later does not help.
      return count == PCRE2_ERROR_NOMEMORY ? ResourceExhausted(message)
                                           : InvalidArgument(message + "; change the text there");
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    const TextSpan span{bounds[0], bounds[1]};
    // Only \K within a lookaround can cause such a match.
    if (span.begin < pos || span.end < span.begin) {
      return FailedPrecondition("the pattern matches backwards at byte " + std::to_string(pos));
    }
    spans.push_back(span);
    pos = span.end;
    if (span.begin == span.end) {
      if (pos == text.size()) break;
      pos += FirstCharacter(text.substr(pos)).size;
    }
  }
  return spans;
}

}  // namespace outrider
