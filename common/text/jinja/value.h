// The values of a template: Python's, as far as templates need them. Strings, sequences and
// dictionaries are immutable, as in Jinja's immutable sandbox; copies share them.
//
// Thread: a value is used by one thread at a time, except strings, which any may share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/marked_text.h"

namespace outrider::jinja {

struct String;
struct Sequence;
class Dict;
struct Namespace;
struct Macro;
class Loop;
struct Function;

// The size of a value when it is traversed: what it contains twice counts twice.
struct Extent {
  int depth = 0;      // nesting of sequences and dictionaries
  size_t weight = 1;  // values, plus one per 64 bytes of text
};
inline constexpr Extent kMaxExtent = {64, size_t{1} << 22};

class Value {
 public:
  enum class Kind {  // in the order of `Variant`
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kLongInt,
    kString,
    kSequence,
    kDict,
    kNamespace,
    kMacro,
    kLoop,
    kFunction,
  };

  Value() : Value(None{}) {}
  // `why`: what an error about its use says ("'x' is undefined").
  static Value Undefined(std::string why);
  static Value Bool(bool value) { return Value(value); }
  static Value Int(int64_t value) { return Value(value); }
  static Value Float(double value) { return Value(value); }
  // An integer beyond 64 bits, of a request: it is printed, written as JSON and compared with ==,
  // but not computed with. `digits`: in decimal, after a sign if negative.
  static Value LongInt(std::string digits);
  // REQUIRES: well-formed UTF-8.
  static Value Text(std::string text, bool from_request = false);
  static Value Text(MarkedText text);
  static Value Of(std::shared_ptr<const String> string) { return Value(std::move(string)); }
  static Value Of(std::shared_ptr<Sequence> sequence) { return Value(std::move(sequence)); }
  static Value Of(std::shared_ptr<const Dict> dict) { return Value(std::move(dict)); }
  static Value Of(std::shared_ptr<const Function> function) { return Value(std::move(function)); }
  // Owned by the rendering, and destroyed with it.
  static Value Of(Namespace* space) { return Value(space); }
  static Value Of(Macro* macro) { return Value(macro); }
  static Value Of(Loop* loop) { return Value(loop); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool Is(Kind kind) const { return this->kind() == kind; }
  bool is_none() const { return Is(Kind::kNone); }
  bool is_undefined() const { return Is(Kind::kUndefined); }
  bool is_string() const { return Is(Kind::kString); }

  // REQUIRES: the kind.
  const std::string& undefined_reason() const { return *std::get<UndefinedReason>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return std::get<int64_t>(data_); }
  double real() const { return std::get<double>(data_); }
  const std::string& digits() const { return std::get<Digits>(data_)->text; }
  const String& string() const { return *std::get<std::shared_ptr<const String>>(data_); }
  const MarkedText& marked() const;
  const std::string& text() const { return marked().text(); }
  Sequence& sequence() const { return *std::get<std::shared_ptr<Sequence>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace* space() const { return std::get<Namespace*>(data_); }
  Macro* macro() const { return std::get<Macro*>(data_); }
  Loop* loop() const { return std::get<Loop*>(data_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(data_); }

  // An integer of 64 bits, or a boolean as 0 or 1, which Python treats as integers.
  std::optional<int64_t> AsInt() const;
  // The same, and floats.
  std::optional<double> AsNumber() const;
  // Whether both are the same object: Python's `is`.
  bool IsSameObject(const Value& other) const { return data_ == other.data_; }
  Extent extent() const;

 private:
  struct None {
    bool operator==(const None&) const = default;
  };
  using UndefinedReason = std::shared_ptr<const std::string>;
  struct LongInteger {
    std::string text;
  };
  using Digits = std::shared_ptr<const LongInteger>;
  using Variant = std::variant<UndefinedReason, None, bool, int64_t, double, Digits,
                               std::shared_ptr<const String>, std::shared_ptr<Sequence>,
                               std::shared_ptr<const Dict>, Namespace*, Macro*, Loop*,
                               std::shared_ptr<const Function>>;

  template <class T>
  explicit Value(T data) : data_(std::move(data)) {}

  Variant data_;
};

struct String {
  MarkedText marked;
  // Made by `safe` or `escape`: Jinja escapes what is added to it.
  bool markup = false;
};

// Everything that Python has between a list and an iterator.
struct Sequence {
  enum class Flavor {
    kList,
    kTuple,
    kGroup,  // of groupby: a tuple that also has .grouper and .list
    kRange,
    kKeys,
    kValues,
    kItems,      // these three: a dictionary's
    kGenerator,  // yields each item once, has no length
  };
  Flavor flavor = Flavor::kList;
  std::vector<Value> items;
  size_t next = 0;  // kGenerator: the next item
  Extent extent;

  bool HasLength() const { return flavor != Flavor::kGenerator; }
  // Whether it can be subscripted by position.
  bool IsIndexed() const { return flavor <= Flavor::kRange; }
};

// Keys in insertion order, found in constant time.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  // REQUIRES: IsHashable(key). Replaces the value of an existing key.
  void Set(Value key, Value value);
  // Returns nullptr if there is none. REQUIRES: IsHashable(key).
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  const Extent& extent() const { return extent_; }

 private:
  std::optional<size_t> IndexOf(const Value& key) const;

  std::vector<Entry> entries_;
  // Of keys to their entries, if there are many. Strings are ordered, as a client who chooses them
  // could make hashes collide; the keys are those of `entries_`, which copies share.
  std::map<std::string_view, size_t> strings_;
  std::unordered_multimap<size_t, size_t> others_;  // by hash
  Extent extent_ = {1, 1};
};

// A template's own objects, owned by the rendering.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;

  const Value* Find(std::string_view name) const;
  void Set(const std::string& name, Value value);
};

// kInvalidArgument: beyond kMaxExtent.
Result<Value> NewSequence(Sequence::Flavor flavor, std::vector<Value> items);
Result<Value> NewList(std::vector<Value> items);
Result<Value> NewTuple(std::vector<Value> items);
Result<Value> NewGenerator(std::vector<Value> items);
Result<Value> NewDict(Dict dict);

bool IsTrue(const Value& value);
bool IsHashable(const Value& value);
// Equal for equal values. REQUIRES: hashable.
size_t HashOf(const Value& value);
// Python's ==.
bool IsEqual(const Value& a, const Value& b);
// Python's <. kInvalidArgument: the kinds have no order.
Result<bool> IsLess(const Value& a, const Value& b);
// "int", "str", "list": the type's name in Python.
std::string_view TypeName(const Value& value);

}  // namespace outrider::jinja
