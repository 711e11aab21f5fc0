// Global functions.
#include <algorithm>
#include <ctime>

#include "common/base/printable.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/runtime.h"

namespace outrider::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // Jinja's sandbox has the same

Result<Value> Range(Runtime& runtime, const Value& /*self*/, const Bound& bound) {
  OUTRIDER_ASSIGN(const int64_t first, IntArgument(*bound.at[0], "a range's bound"));
  const bool one = bound.at[1] == nullptr;
  OUTRIDER_ASSIGN(const int64_t second, one ? first : IntArgument(*bound.at[1], "a range's bound"));
  OUTRIDER_ASSIGN(const int64_t step, bound.at[2] == nullptr
                                          ? Result<int64_t>(1)
                                          : IntArgument(*bound.at[2], "a range's step"));
  if (step == 0) return InvalidArgument("a range's step must not be 0");
  const int64_t from = one ? 0 : first;
  std::vector<Value> items;
  int64_t pos = from;
  while (step > 0 ? pos < second : pos > second) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      return InvalidArgument("a range of more than " + std::to_string(kMaxRange) + " numbers");
    }
    items.push_back(Value::Int(pos));
    if (__builtin_add_overflow(pos, step, &pos)) break;
  }
  return runtime.NewItems(Sequence::Flavor::kRange, std::move(items));
}

// dict(mapping or pairs, name=value ..)
Result<Dict> DictOf(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return InvalidArgument("takes one argument at most");
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional.front();
    std::vector<Value> entries;
    if (given.Is(Value::Kind::kDict)) {
      OUTRIDER_ASSIGN(entries, EntriesOf(runtime, given.dict()));
    } else {
      OUTRIDER_ASSIGN(entries, runtime.ItemsOf(given));
    }
    for (const Value& entry : entries) {
      OUTRIDER_ASSIGN(const std::vector<Value> pair, runtime.ItemsOf(entry));
      if (pair.size() != 2) return InvalidArgument("a dictionary is made of pairs");
      if (!IsHashable(pair[0])) return InvalidArgument("an unhashable value cannot be a key");
      dict.Set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(Value::Text(name), value);
  OUTRIDER_TRY(runtime.CountBytes(dict.size() * sizeof(Dict::Entry)));
  return dict;
}

Result<Value> MakeDict(Runtime& runtime, const Value& /*self*/, const Bound& bound) {
  OUTRIDER_ASSIGN(Dict dict, DictOf(runtime, *bound.all));
  return NewDict(std::move(dict));
}

Result<Value> MakeNamespace(Runtime& runtime, const Value& /*self*/, const Bound& bound) {
  OUTRIDER_ASSIGN(const Dict dict, DictOf(runtime, *bound.all));
  OUTRIDER_TRY(runtime.CountBytes(sizeof(Namespace)));
  Namespace* const space = runtime.NewNamespace();
  for (const Dict::Entry& entry : dict.entries()) {
    if (entry.key.is_string()) space->Set(entry.key.text(), entry.value);
  }
  return Value::Of(space);
}

Result<Value> RaiseException(Runtime& runtime, const Value& /*self*/, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText message, runtime.TextOf(*bound.at[0]));
  constexpr size_t kMostBytes = 1000;
  return InvalidArgument("the chat template refuses: " + Printable(message.text(), kMostBytes));
}

Result<Value> StrftimeNow(Runtime& runtime, const Value& /*self*/, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const format, TextArgument(*bound.at[0], "format"));
  constexpr size_t kMostBytes = 4096;
  if (format->size() > 256) return InvalidArgument("format is longer than 256 bytes");
  const std::time_t now = runtime.limits().now != 0 ? runtime.limits().now : std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[kMostBytes];
  // The text is never empty, because the library also returns 0 for an error.
  const size_t size = std::strftime(text, sizeof(text), (format->text() + "x").c_str(), &local);
  if (size == 0) return InvalidArgument("format gives a text of more than 4096 bytes");
  return runtime.NewText(MarkedText(std::string(text, size - 1), format->HasRequestText()));
}

constexpr Builtin kGlobals[] = {
    {"dict", "*", MakeDict},
    {"namespace", "*", MakeNamespace},
    {"raise_exception", "message", RaiseException},
    {"range", "/start stop? step?", Range},
    {"strftime_now", "format", StrftimeNow},
};

}  // namespace

const Builtin* FindGlobal(std::string_view name) {
  const auto found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                  [name](const Builtin& global) { return global.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace outrider::jinja
