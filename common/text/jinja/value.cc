#include "common/text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

// Dictionaries with this many entries have an index.
constexpr size_t kIndexedEntries = 12;

bool IsTuple(const Sequence& sequence) {
  return sequence.flavor == Flavor::kTuple || sequence.flavor == Flavor::kGroup;
}

bool HaveEqualItems(const Sequence& a, const Sequence& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), IsEqual);
}

// Compares two views of dictionaries as sets.
bool HoldSameEntries(const Sequence& a, const Sequence& b) {
  const bool pairs = a.flavor == Flavor::kItems;
  const auto key = [pairs](const Value& item) { return pairs ? item.sequence().items[0] : item; };
  const auto value = [pairs](const Value& item) {
    return pairs ? item.sequence().items[1] : Value();
  };
  Dict entries;
  for (const Value& item : b.items) entries.Set(key(item), value(item));
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const Value& item) {
           const Value* const found = entries.Find(key(item));
           return found != nullptr && IsEqual(*found, value(item));
         });
}

bool AreEqualSequences(const Value& a, const Value& b) {
  const Sequence &left = a.sequence(), &right = b.sequence();
  if (&left == &right) return true;
  if (IsTuple(left) && IsTuple(right)) return HaveEqualItems(left, right);
  if (left.flavor != right.flavor) return false;
  switch (left.flavor) {
    case Flavor::kList:
    case Flavor::kRange: return HaveEqualItems(left, right);
    case Flavor::kKeys:
    case Flavor::kItems: return HoldSameEntries(left, right);
    default: return false;
  }
}

bool AreEqualDicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* const other = b.Find(entry.key);
    return other != nullptr && IsEqual(entry.value, *other);
  });
}

// Compares an integer and a float as exact numbers, not as two doubles.
int CompareIntToFloat(int64_t a, double b) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (b >= kTwoTo63) return -1;
  if (b < -kTwoTo63) return 1;
  const auto whole = static_cast<int64_t>(std::floor(b));
  if (a != whole) return a < whole ? -1 : 1;
  return b > std::floor(b) ? -1 : 0;
}

// Whether both are numbers, and how they compare; NaN is unordered.
struct NumberOrder {
  bool numbers = false;
  bool less = false;
  bool equal = false;
};

NumberOrder OrderNumbers(const Value& a, const Value& b) {
  const std::optional<double> x = a.AsNumber(), y = b.AsNumber();
  if (!x.has_value() || !y.has_value()) return {};
  const std::optional<int64_t> i = a.AsInt(), j = b.AsInt();
  if (i.has_value() && j.has_value()) return {true, *i < *j, *i == *j};
  if (std::isnan(*x) || std::isnan(*y)) return {true, false, false};
  if (i.has_value()) {
    const int order = CompareIntToFloat(*i, *y);
    return {true, order < 0, order == 0};
  }
  if (j.has_value()) {
    const int order = CompareIntToFloat(*j, *x);
    return {true, order > 0, order == 0};
  }
  return {true, *x < *y, *x == *y};
}

// Adds `item` to `outer`.
void Include(const Extent& item, Extent* outer) {
  outer->depth = std::max(outer->depth, item.depth + 1);
  outer->weight += item.weight;
}

Status CheckExtent(const Extent& extent) {
  if (extent.depth > kMaxExtent.depth) {
    return InvalidArgument("makes lists and dictionaries nested deeper than " +
                           std::to_string(kMaxExtent.depth) + " levels");
  }
  if (extent.weight > kMaxExtent.weight) {
    return InvalidArgument("makes a list or dictionary of more than " +
                           std::to_string(kMaxExtent.weight) + " values");
  }
  return Status();
}

}  // namespace

Value Value::Undefined(std::string why) {
  return Value(UndefinedReason(std::make_shared<const std::string>(std::move(why))));
}

Value Value::LongInt(std::string digits) {
  return Value(Digits(std::make_shared<const LongInteger>(LongInteger{std::move(digits)})));
}

Value Value::Text(std::string text, bool from_request) {
  return Text(MarkedText(std::move(text), from_request));
}

Value Value::Text(MarkedText text) {
  return Of(std::make_shared<const String>(String{std::move(text), false}));
}

const MarkedText& Value::marked() const { return string().marked; }

std::optional<int64_t> Value::AsInt() const {
  if (Is(Kind::kInt)) return integer();
  if (Is(Kind::kBool)) return boolean() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::AsNumber() const {
  if (Is(Kind::kFloat)) return real();
  const std::optional<int64_t> value = AsInt();
  return value.has_value() ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

Extent Value::extent() const {
  if (Is(Kind::kSequence)) return sequence().extent;
  if (Is(Kind::kDict)) return dict().extent();
  return {0, is_string() ? 1 + text().size() / 64 : 1};
}

std::optional<size_t> Dict::IndexOf(const Value& key) const {
  if (entries_.size() < kIndexedEntries) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (IsEqual(entries_[i].key, key)) return i;
    }
    return std::nullopt;
  }
  if (key.is_string()) {
    const auto found = strings_.find(key.text());
    return found != strings_.end() ? std::optional(found->second) : std::nullopt;
  }
  const auto [first, last] = others_.equal_range(HashOf(key));
  for (auto it = first; it != last; ++it) {
    if (IsEqual(entries_[it->second].key, key)) return it->second;
  }
  return std::nullopt;
}

void Dict::Set(Value key, Value value) {
  Include(key.extent(), &extent_);
  Include(value.extent(), &extent_);
  if (const std::optional<size_t> index = IndexOf(key)) {
    entries_[*index].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() < kIndexedEntries) return;
  for (size_t i = strings_.size() + others_.size(); i < entries_.size(); ++i) {
    const Value& added = entries_[i].key;
    if (added.is_string()) {
      strings_.emplace(added.text(), i);
    } else {
      others_.emplace(HashOf(added), i);
    }
  }
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index.has_value() ? &entries_[*index].value : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (entries_.size() >= kIndexedEntries) {
    const auto found = strings_.find(key);
    return found != strings_.end() ? &entries_[found->second].value : nullptr;
  }
  for (const Entry& entry : entries_) {
    if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
  }
  return nullptr;
}

const Value* Namespace::Find(std::string_view name) const {
  const auto found = attributes.find(name);
  return found != attributes.end() ? &found->second : nullptr;
}

void Namespace::Set(const std::string& name, Value value) {
  attributes.insert_or_assign(name, std::move(value));
}

Result<Value> NewSequence(Flavor flavor, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->flavor = flavor;
  sequence->extent.depth = 1;
  for (const Value& item : items) Include(item.extent(), &sequence->extent);
  OUTRIDER_TRY(CheckExtent(sequence->extent));
  sequence->items = std::move(items);
  return Value::Of(std::move(sequence));
}

Result<Value> NewList(std::vector<Value> items) {
  return NewSequence(Flavor::kList, std::move(items));
}

Result<Value> NewTuple(std::vector<Value> items) {
  return NewSequence(Flavor::kTuple, std::move(items));
}

Result<Value> NewGenerator(std::vector<Value> items) {
  return NewSequence(Flavor::kGenerator, std::move(items));
}

Result<Value> NewDict(Dict dict) {
  OUTRIDER_TRY(CheckExtent(dict.extent()));
  return Value::Of(std::make_shared<const Dict>(std::move(dict)));
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return value.boolean();
    case Kind::kInt: return value.integer() != 0;
    case Kind::kFloat: return value.real() != 0;
    case Kind::kString: return !value.text().empty();
    case Kind::kSequence: {
      return !value.sequence().HasLength() || !value.sequence().items.empty();
    }
    case Kind::kDict: return value.dict().size() > 0;
    default: return true;
  }
}

bool IsHashable(const Value& value) {
  if (value.Is(Kind::kDict)) return false;
  if (!value.Is(Kind::kSequence)) return true;
  const Sequence& sequence = value.sequence();
  switch (sequence.flavor) {
    case Flavor::kTuple:
    case Flavor::kGroup:
      return std::all_of(sequence.items.begin(), sequence.items.end(), IsHashable);
    case Flavor::kRange:
    case Flavor::kValues:
    case Flavor::kGenerator: return true;
    default: return false;
  }
}

size_t HashOf(const Value& value) {
  if (const std::optional<double> number = value.AsNumber()) return std::hash<double>()(*number);
  switch (value.kind()) {
    case Kind::kLongInt: return std::hash<std::string_view>()(value.digits());
    case Kind::kString: return std::hash<std::string_view>()(value.text());
    case Kind::kSequence: {
      size_t hash = value.sequence().items.size();
      if (!IsTuple(value.sequence())) return hash;
      for (const Value& item : value.sequence().items) hash = hash * 1000003 ^ HashOf(item);
      return hash;
    }
    default: return static_cast<size_t>(value.kind());
  }
}

bool IsEqual(const Value& a, const Value& b) {
  if (const NumberOrder order = OrderNumbers(a, b); order.numbers) return order.equal;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kLongInt: return a.digits() == b.digits();
    case Kind::kString: return a.text() == b.text();
    case Kind::kSequence: return AreEqualSequences(a, b);
    case Kind::kDict: return a.IsSameObject(b) || AreEqualDicts(a.dict(), b.dict());
    default: return a.IsSameObject(b);
  }
}

Result<bool> IsLess(const Value& a, const Value& b) {
  if (const NumberOrder order = OrderNumbers(a, b); order.numbers) return order.less;
  // UTF-8 sorts in code point order.
  if (a.is_string() && b.is_string()) return a.text() < b.text();
  const bool sequences = a.Is(Kind::kSequence) && b.Is(Kind::kSequence);
  const bool ordered =
      sequences && ((IsTuple(a.sequence()) && IsTuple(b.sequence())) ||
                    (a.sequence().flavor == Flavor::kList && b.sequence().flavor == Flavor::kList));
  if (ordered) {
    const auto &x = a.sequence().items, &y = b.sequence().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!IsEqual(x[i], y[i])) return IsLess(x[i], y[i]);
    }
    return x.size() < y.size();
  }
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return InvalidArgument(value->undefined_reason());
  }
  return InvalidArgument("'<' is not defined between " + std::string(TypeName(a)) + " and " +
                         std::string(TypeName(b)));
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kLongInt: return "int beyond 64 bits";
    case Kind::kString: return "str";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kMacro: return "Macro";
    case Kind::kLoop: return "LoopContext";
    case Kind::kFunction: return "function";
    case Kind::kSequence: break;
  }
  switch (value.sequence().flavor) {
    case Flavor::kList: return "list";
    case Flavor::kTuple:
    case Flavor::kGroup: return "tuple";
    case Flavor::kRange: return "range";
    case Flavor::kKeys: return "dict_keys";
    case Flavor::kValues: return "dict_values";
    case Flavor::kItems: return "dict_items";
    case Flavor::kGenerator: return "generator";
  }
  return "";
}

}  // namespace outrider::jinja
