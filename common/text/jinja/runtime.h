// What expressions, filters, tests and methods share: the limits of a rendering, and Python's
// operations that are not specific to one kind of value.
//
// Thread: that of the rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/value.h"

namespace outrider::jinja {

struct Arguments;

struct RenderLimits {
  size_t steps = 10'000'000;       // expressions, statements and items walked
  size_t value_bytes = 128 << 20;  // of all strings, lists and scopes made during the rendering
  size_t output_bytes = 16 << 20;  // of the rendered text
  std::time_t now = 0;             // for strftime_now; 0: the clock
};

class Runtime {
 public:
  explicit Runtime(const RenderLimits& limits) : limits_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const RenderLimits& limits() const { return limits_; }

  // Counts work before it is done. kInvalidArgument at the limit.
  Status CountSteps(size_t steps);
  // Counts bytes to be read: 16 are a step.
  Status CountReading(size_t bytes);
  // Counts bytes to be made: they are also read, and their total is limited.
  Status CountBytes(size_t bytes);
  // Counts bytes to be made whose steps are counted otherwise.
  Status CountMemory(size_t bytes);

  // --- strings ---
  Result<Value> NewText(MarkedText text);  // counts its bytes
  Result<Value> NewText(std::string text) { return NewText(MarkedText(std::move(text))); }
  // str(value) and repr(value), with marks.
  Result<MarkedText> TextOf(const Value& value);
  Status AppendRepr(const Value& value, MarkedText* out);

  // --- sequences ---
  // What a `for` over it iterates; empties a generator.
  Result<std::vector<Value>> ItemsOf(const Value& value);
  // len()
  Result<size_t> LengthOf(const Value& value);
  // Lists and generators of items made by filters; counts them.
  Result<Value> NewItems(Sequence::Flavor flavor, std::vector<Value> items);
  // Lives as long as the rendering.
  Namespace* NewNamespace();

  // --- attributes and items ---
  // object.name and object[key]; Undefined if there is none. kInvalidArgument for an Undefined
  // object.
  Result<Value> Attribute(const Value& object, std::string_view name);
  Result<Value> Item(const Value& object, const Value& key);
  Result<Value> Slice(const Value& object, const Value& from, const Value& to, const Value& step);
  // An attribute as filters name it: "function.name" or an index, looked up as items. `otherwise`:
  // replaces each missing one; nullptr: nothing does.
  Result<Value> ItemByPath(const Value& object, const Value& path,
                           const Value* otherwise = nullptr);

  // --- operators ---
  Result<bool> Equal(const Value& a, const Value& b);
  Result<bool> Less(const Value& a, const Value& b);
  Result<bool> Contains(const Value& container, const Value& item);
  // "==", "in" ..
  Result<bool> Compare(std::string_view comparison, const Value& a, const Value& b);
  // One of + - * / // % **.
  Result<Value> Binary(std::string_view symbol, const Value& a, const Value& b);

 private:
  Result<Value> Add(const Value& a, const Value& b);
  Result<Value> Repeat(const Value& value, int64_t times);

  const RenderLimits limits_;
  size_t steps_ = 0;
  size_t bytes_ = 0;
  std::deque<Namespace> spaces_;
};

// --- arguments of builtins: kInvalidArgument for another kind ---
Result<int64_t> IntArgument(const Value& value, std::string_view name);
// nullptr and None become `otherwise`.
Result<int64_t> IntArgument(const Value* value, std::string_view name, int64_t otherwise);
bool FlagArgument(const Value* value, bool otherwise);
// A string that is not made by `safe`, because Jinja escapes operations on these.
Result<const MarkedText*> TextArgument(const Value& value, std::string_view name);

// printf-style formatting (`%` and the filter `format`) and str.format.
Result<Value> FormatPercent(Runtime& runtime, const Value& format, const Value& arguments);
Result<Value> FormatBraces(Runtime& runtime, const Value& format, const Arguments& arguments);

// The positions of `keys` in ascending order (descending if `reverse`); equal ones keep their
// order. kInvalidArgument: the keys have no order.
Result<std::vector<size_t>> SortedOrder(Runtime& runtime, const std::vector<Value>& keys,
                                        bool reverse);

// The entries of a dictionary as tuples of two.
Result<std::vector<Value>> EntriesOf(Runtime& runtime, const Dict& dict);

// Jinja's `escape`: & < > ' " as HTML writes them.
Result<Value> EscapeText(Runtime& runtime, const Value& value);

Status NoSuchOperator(std::string_view symbol, const Value& a, const Value& b);

}  // namespace outrider::jinja
