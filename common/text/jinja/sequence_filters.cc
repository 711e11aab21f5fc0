#include "common/text/jinja/sequence_filters.h"

#include <algorithm>
#include <utility>

#include "common/base/printable.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

bool IsGiven(const Value* argument) { return argument != nullptr && !argument->is_none(); }

// The key for sorting and comparing without case.
Result<Value> WithoutCase(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  OUTRIDER_TRY(runtime.CountBytes(value.text().size()));
  return Value::Text(Lower(value.text()));
}

// The attribute (nullptr or None: the item itself) of every item, without case unless
// `case_sensitive`.
Result<std::vector<Value>> KeysOf(Runtime& runtime, const std::vector<Value>& items,
                                  const Value* attribute, bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    OUTRIDER_TRY(runtime.CountSteps(1));
    Value key = item;
    if (IsGiven(attribute)) {
      OUTRIDER_ASSIGN(key, runtime.ItemByPath(item, *attribute));
    }
    if (!case_sensitive) {
      OUTRIDER_ASSIGN(key, WithoutCase(runtime, key));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> LengthFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const size_t length, runtime.LengthOf(self));
  return Value::Int(static_cast<int64_t>(length));
}

Result<Value> ListFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(std::vector<Value> items, runtime.ItemsOf(self));
  return NewList(std::move(items));
}

// A generator yields its first item and keeps the others.
Result<Value> FirstFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  if (self.Is(Kind::kSequence)) {
    Sequence& sequence = self.sequence();
    if (sequence.next == sequence.items.size()) {
      return Value::Undefined("there is no first item, the sequence is empty");
    }
    const size_t pos = sequence.next;
    if (sequence.flavor == Flavor::kGenerator) ++sequence.next;
    return sequence.items[pos];
  }
  if (self.is_string() && !self.text().empty()) return runtime.Item(self, Value::Int(0));
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  if (items.empty()) return Value::Undefined("there is no first item, the sequence is empty");
  return items.front();
}

Result<Value> LastFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  if (self.Is(Kind::kSequence)) {
    const Sequence& sequence = self.sequence();
    if (!sequence.HasLength())
      return InvalidArgument("a generator has no last item; use list first");
    if (!sequence.items.empty()) return sequence.items.back();
  } else if (self.is_string() && !self.text().empty()) {
    return runtime.Item(self, Value::Int(-1));
  } else {
    OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
    if (!items.empty()) return items.back();
  }
  return Value::Undefined("there is no last item, the sequence is empty");
}

Result<Value> JoinFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(std::vector<Value> items, runtime.ItemsOf(self));
  if (IsGiven(bound.at[1])) {
    OUTRIDER_ASSIGN(items, KeysOf(runtime, items, bound.at[1], /*case_sensitive=*/true));
  }
  MarkedText between;
  if (bound.at[0] != nullptr) {
    OUTRIDER_ASSIGN(between, runtime.TextOf(*bound.at[0]));
  }
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    OUTRIDER_ASSIGN(const MarkedText text, runtime.TextOf(items[i]));
    OUTRIDER_TRY(runtime.CountBytes(between.size()));
    if (i > 0) out.Append(between);
    out.Append(text);
  }
  return Value::Text(std::move(out));
}

Result<Value> ReverseFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  if (self.is_string()) {
    return runtime.Slice(self, Value(), Value(), Value::Int(-1));
  }
  const bool is_generator = self.Is(Kind::kSequence) && !self.sequence().HasLength();
  OUTRIDER_ASSIGN(std::vector<Value> items, runtime.ItemsOf(self));
  std::reverse(items.begin(), items.end());
  return NewSequence(is_generator ? Flavor::kList : Flavor::kGenerator, std::move(items));
}

Result<Value> ItemsFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  if (self.is_undefined()) return NewGenerator({});
  if (!self.Is(Kind::kDict)) return InvalidArgument("needs a mapping");
  OUTRIDER_ASSIGN(std::vector<Value> entries, EntriesOf(runtime, self.dict()));
  return NewGenerator(std::move(entries));
}

Result<std::vector<Value>> InOrder(const std::vector<Value>& items,
                                   const std::vector<size_t>& order) {
  std::vector<Value> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Result<Value> DictSortFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  if (self.is_undefined()) return InvalidArgument(self.undefined_reason());
  if (!self.Is(Kind::kDict)) return InvalidArgument("needs a mapping");
  int64_t position = 0;
  if (bound.at[1] != nullptr) {
    OUTRIDER_ASSIGN(const MarkedText* const by, TextArgument(*bound.at[1], "by"));
    if (by->text() != "key" && by->text() != "value") {
      return InvalidArgument("by must be key or value");
    }
    position = by->text() == "value" ? 1 : 0;
  }
  OUTRIDER_ASSIGN(const std::vector<Value> entries, EntriesOf(runtime, self.dict()));
  const Value attribute = Value::Int(position);
  OUTRIDER_ASSIGN(const std::vector<Value> keys,
                  KeysOf(runtime, entries, &attribute, FlagArgument(bound.at[0], false)));
  OUTRIDER_ASSIGN(const std::vector<size_t> order,
                  SortedOrder(runtime, keys, FlagArgument(bound.at[2], false)));
  OUTRIDER_ASSIGN(std::vector<Value> sorted, InOrder(entries, order));
  return NewList(std::move(sorted));
}

// "a,b" sorts by a, then by b: a list of keys for every item.
Result<std::vector<Value>> SortKeysOf(Runtime& runtime, const std::vector<Value>& items,
                                      const Value* attribute, bool case_sensitive) {
  if (attribute == nullptr || !attribute->is_string()) {
    return KeysOf(runtime, items, attribute, case_sensitive);
  }
  std::vector<std::vector<Value>> keys(items.size());
  std::string_view rest = attribute->text();
  for (bool more = true; more;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const Value path = Value::Text(std::string(rest.substr(0, comma)));
    more = comma < rest.size();
    rest.remove_prefix(more ? comma + 1 : comma);
    OUTRIDER_ASSIGN(std::vector<Value> some, KeysOf(runtime, items, &path, case_sensitive));
    for (size_t i = 0; i < items.size(); ++i) keys[i].push_back(std::move(some[i]));
  }
  std::vector<Value> out;
  for (std::vector<Value>& key : keys) {
    OUTRIDER_ASSIGN(out.emplace_back(), runtime.NewItems(Flavor::kList, std::move(key)));
  }
  return out;
}

Result<Value> SortFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  OUTRIDER_ASSIGN(const std::vector<Value> keys,
                  SortKeysOf(runtime, items, bound.at[2], FlagArgument(bound.at[1], false)));
  OUTRIDER_ASSIGN(const std::vector<size_t> order,
                  SortedOrder(runtime, keys, FlagArgument(bound.at[0], false)));
  OUTRIDER_ASSIGN(std::vector<Value> sorted, InOrder(items, order));
  return NewList(std::move(sorted));
}

Result<Value> UniqueFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  OUTRIDER_ASSIGN(const std::vector<Value> keys,
                  KeysOf(runtime, items, bound.at[1], FlagArgument(bound.at[0], false)));
  Dict seen;
  std::vector<Value> unique;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!IsHashable(keys[i])) return InvalidArgument("needs hashable items");
    OUTRIDER_TRY(runtime.CountSteps(keys[i].extent().weight));
    if (seen.Find(keys[i]) != nullptr) continue;
    seen.Set(keys[i], Value());
    unique.push_back(items[i]);
  }
  return NewGenerator(std::move(unique));
}

template <bool largest>
Result<Value> ExtremeFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  if (items.empty()) return Value::Undefined("there is no item, the sequence is empty");
  OUTRIDER_ASSIGN(const std::vector<Value> keys,
                  KeysOf(runtime, items, bound.at[1], FlagArgument(bound.at[0], false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    OUTRIDER_ASSIGN(const bool better, largest ? runtime.Less(keys[best], keys[i])
                                               : runtime.Less(keys[i], keys[best]));
    if (better) best = i;
  }
  return items[best];
}

Result<Value> SumFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(std::vector<Value> items, runtime.ItemsOf(self));
  if (IsGiven(bound.at[0])) {
    OUTRIDER_ASSIGN(items, KeysOf(runtime, items, bound.at[0], /*case_sensitive=*/true));
  }
  Value sum = bound.at[1] == nullptr ? Value::Int(0) : *bound.at[1];
  if (sum.is_string()) return InvalidArgument("strings are not summed; use join");
  for (const Value& item : items) {
    OUTRIDER_ASSIGN(sum, runtime.Binary("+", sum, item));
  }
  return sum;
}

// Adjacent equal keys, after sorting, form a group.
Result<Value> GroupByFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  const Value& attribute = *bound.at[0];
  const bool case_sensitive = FlagArgument(bound.at[2], false);
  OUTRIDER_ASSIGN(std::vector<Value> names,
                  KeysOf(runtime, items, &attribute, /*case_sensitive=*/true));
  std::vector<Value> keys;
  for (Value& name : names) {
    if (name.is_undefined() && IsGiven(bound.at[1])) name = *bound.at[1];
    OUTRIDER_ASSIGN(keys.emplace_back(),
                    case_sensitive ? Result<Value>(name) : WithoutCase(runtime, name));
  }
  OUTRIDER_ASSIGN(const std::vector<size_t> order, SortedOrder(runtime, keys, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < order.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (bool same = true; same && end < order.size();) {
      members.push_back(items[order[end++]]);
      if (end == order.size()) break;
      OUTRIDER_ASSIGN(same, runtime.Equal(keys[order[begin]], keys[order[end]]));
    }
    OUTRIDER_ASSIGN(Value list, runtime.NewItems(Flavor::kList, std::move(members)));
    OUTRIDER_ASSIGN(groups.emplace_back(),
                    runtime.NewItems(Flavor::kGroup, {names[order[begin]], std::move(list)}));
    begin = end;
  }
  return NewList(std::move(groups));
}

Result<Value> BatchFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  OUTRIDER_ASSIGN(const int64_t size, IntArgument(*bound.at[0], "linecount"));
  // Python starts a new batch when the present one has exactly this size; one of size 0 never ends.
  if (size < 1) return InvalidArgument("linecount must be at least 1");
  std::vector<Value> batches, batch;
  const auto add = [&]() -> Status {
    OUTRIDER_ASSIGN(batches.emplace_back(),
                    runtime.NewItems(Flavor::kList, std::exchange(batch, {})));
    return Status();
  };
  for (const Value& item : items) {
    if (batch.size() == static_cast<size_t>(size)) OUTRIDER_TRY(add());
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (IsGiven(bound.at[1])) {
      const size_t missing = static_cast<size_t>(size) - batch.size();
      const size_t most = runtime.limits().value_bytes / sizeof(Value) + 1;
      OUTRIDER_TRY(runtime.CountBytes(std::min(missing, most) * sizeof(Value)));
      batch.resize(static_cast<size_t>(size), *bound.at[1]);
    }
    OUTRIDER_TRY(add());
  }
  return NewGenerator(std::move(batches));
}

Result<Value> SliceFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  OUTRIDER_ASSIGN(const int64_t slices, IntArgument(*bound.at[0], "slices"));
  if (slices == 0) return InvalidArgument("slices must not be 0");
  OUTRIDER_TRY(runtime.CountBytes(std::min(static_cast<size_t>(std::max<int64_t>(slices, 0)),
                                           runtime.limits().value_bytes + 1)));
  std::vector<Value> parts;
  const auto count = static_cast<int64_t>(items.size());
  size_t pos = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool longer = i < count % slices;
    std::vector<Value> part;
    for (int64_t j = 0; j < count / slices + (longer ? 1 : 0); ++j) part.push_back(items[pos++]);
    if (IsGiven(bound.at[1]) && !longer) part.push_back(*bound.at[1]);
    OUTRIDER_ASSIGN(parts.emplace_back(), runtime.NewItems(Flavor::kList, std::move(part)));
  }
  return NewGenerator(std::move(parts));
}

// --- filters that call others by name ---

// `all` without its first `count` positional arguments.
Arguments After(const Arguments& all, size_t count) {
  Arguments rest = all;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<ptrdiff_t>(count));
  return rest;
}

Result<const Builtin*> NamedBuiltin(const Value& name, bool is_test) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(name, "the name"));
  const Builtin* const found = is_test ? FindTest(text->text()) : FindFilter(text->text());
  if (found != nullptr) return found;
  return InvalidArgument((is_test ? "test '" : "filter '") + Printable(text->text(), 60) +
                         "' is not known");
}

Result<Value> MapAttribute(Runtime& runtime, const std::vector<Value>& items,
                           const Arguments& arguments) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;  // for items without the attribute
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      otherwise = value.is_none() ? nullptr : &value;
    } else {
      return InvalidArgument("there is no argument '" + Printable(name, 60) + "'");
    }
  }
  if (attribute == nullptr) return InvalidArgument("needs the name of a filter or an attribute");
  std::vector<Value> mapped;
  for (const Value& item : items) {
    OUTRIDER_TRY(runtime.CountSteps(1));
    OUTRIDER_ASSIGN(mapped.emplace_back(), attribute->is_none()
                                               ? Result<Value>(item)
                                               : runtime.ItemByPath(item, *attribute, otherwise));
  }
  return NewGenerator(std::move(mapped));
}

Result<Value> MapFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  if (!IsTrue(self)) return NewGenerator({});
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  if (bound.all->positional.empty()) return MapAttribute(runtime, items, *bound.all);
  OUTRIDER_ASSIGN(const Builtin* const filter,
                  NamedBuiltin(bound.all->positional.front(), /*is_test=*/false));
  const Arguments rest = After(*bound.all, 1);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    OUTRIDER_TRY(runtime.CountSteps(1));
    OUTRIDER_ASSIGN(mapped.emplace_back(), CallBuiltin(*filter, runtime, item, rest));
  }
  return NewGenerator(std::move(mapped));
}

// select, reject, selectattr and rejectattr.
template <bool wanted, bool by_attribute>
Result<Value> SelectFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  if (!IsTrue(self)) return NewGenerator({});
  const auto& positional = bound.all->positional;
  if (by_attribute && positional.empty()) return InvalidArgument("needs the name of an attribute");
  constexpr size_t kTest = by_attribute ? 1 : 0;
  const Builtin* test = nullptr;
  if (positional.size() > kTest) {
    OUTRIDER_ASSIGN(test, NamedBuiltin(positional[kTest], /*is_test=*/true));
  }
  const Arguments rest = After(*bound.all, std::min(positional.size(), kTest + 1));
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(self));
  std::vector<Value> selected;
  for (const Value& item : items) {
    OUTRIDER_TRY(runtime.CountSteps(1));
    OUTRIDER_ASSIGN(Value value, by_attribute && !positional[0].is_none()
                                     ? runtime.ItemByPath(item, positional[0])
                                     : Result<Value>(item));
    if (test != nullptr) {
      OUTRIDER_ASSIGN(value, CallBuiltin(*test, runtime, value, rest));
    }
    if (IsTrue(value) == wanted) selected.push_back(item);
  }
  return NewGenerator(std::move(selected));
}

constexpr Builtin kSequenceFilters[] = {
    {"batch", "linecount fill_with?", BatchFilter},
    {"count", "", LengthFilter},
    {"dictsort", "case_sensitive? by? reverse?", DictSortFilter},
    {"first", "", FirstFilter},
    {"groupby", "attribute default? case_sensitive?", GroupByFilter},
    {"items", "", ItemsFilter},
    {"join", "d? attribute?", JoinFilter},
    {"last", "", LastFilter},
    {"length", "", LengthFilter},
    {"list", "", ListFilter},
    {"map", "*", MapFilter},
    {"max", "case_sensitive? attribute?", ExtremeFilter<true>},
    {"min", "case_sensitive? attribute?", ExtremeFilter<false>},
    {"reject", "*", SelectFilter<false, false>},
    {"rejectattr", "*", SelectFilter<false, true>},
    {"reverse", "", ReverseFilter},
    {"select", "*", SelectFilter<true, false>},
    {"selectattr", "*", SelectFilter<true, true>},
    {"slice", "slices fill_with?", SliceFilter},
    {"sort", "reverse? case_sensitive? attribute?", SortFilter},
    {"sum", "attribute? start?", SumFilter},
    {"unique", "case_sensitive? attribute?", UniqueFilter},
};

// Sorts positions [begin, end) of `order`, with `scratch` as memory. A merge sort, because it stays
// within its bounds whatever the comparison returns (NaN), and stops at its first error.
Status MergeSort(Runtime& runtime, const std::vector<Value>& keys, bool reverse, size_t begin,
                 size_t end, std::vector<size_t>* order, std::vector<size_t>* scratch) {
  if (end - begin < 2) return Status();
  const size_t middle = begin + (end - begin) / 2;
  OUTRIDER_TRY(MergeSort(runtime, keys, reverse, begin, middle, order, scratch));
  OUTRIDER_TRY(MergeSort(runtime, keys, reverse, middle, end, order, scratch));
  size_t left = begin, right = middle;
  for (size_t out = begin; out < end; ++out) {
    bool take_right = left == middle;
    if (!take_right && right < end) {
      const Value &a = keys[(*order)[left]], &b = keys[(*order)[right]];
      OUTRIDER_ASSIGN(take_right, reverse ? runtime.Less(a, b) : runtime.Less(b, a));
    }
    (*scratch)[out] = (*order)[take_right ? right++ : left++];
  }
  std::copy(scratch->begin() + static_cast<ptrdiff_t>(begin),
            scratch->begin() + static_cast<ptrdiff_t>(end),
            order->begin() + static_cast<ptrdiff_t>(begin));
  return Status();
}

}  // namespace

std::span<const Builtin> SequenceFilters() { return kSequenceFilters; }

Result<std::vector<size_t>> SortedOrder(Runtime& runtime, const std::vector<Value>& keys,
                                        bool reverse) {
  std::vector<size_t> order(keys.size()), scratch(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) order[i] = i;
  OUTRIDER_TRY(MergeSort(runtime, keys, reverse, 0, keys.size(), &order, &scratch));
  return order;
}

}  // namespace outrider::jinja
