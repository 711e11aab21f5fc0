// Attributes, items and slices.
#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/printable.h"
#include "common/base/utf8_bytes.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/loop.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

// The result of a failed lookup. `name`: as written in the template.
Value Missing(const Value& object, const std::string& name) {
  return Value::Undefined("'" + std::string(TypeName(object)) + "' has no attribute or item " +
                          Printable(name, 60));
}

// The attribute of our object, or of Python's type.
Result<std::optional<Value>> OwnAttribute(const Value& object, std::string_view name) {
  std::optional<Value> found;
  if (object.Is(Kind::kLoop)) found = object.loop()->Attribute(name);
  if (object.Is(Kind::kNamespace) && !name.starts_with('_')) {
    if (const Value* value = object.space()->Find(name)) found = *value;
  }
  if (object.Is(Kind::kSequence) && object.sequence().flavor == Flavor::kGroup) {
    if (name == "grouper") found = object.sequence().items[0];
    if (name == "list") found = object.sequence().items[1];
  }
  if (found.has_value()) return found;
  return FindMethod(object, name);
}

std::optional<size_t> PositionOf(int64_t index, size_t length) {
  if (index < 0) index += static_cast<int64_t>(length);
  if (index < 0 || index >= static_cast<int64_t>(length)) return std::nullopt;
  return static_cast<size_t>(index);
}

// Python's object[key]; nullopt if Python raises TypeError or LookupError.
std::optional<Value> Subscript(const Value& object, const Value& key) {
  if (object.Is(Kind::kDict)) {
    const Value* const found = IsHashable(key) ? object.dict().Find(key) : nullptr;
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const std::optional<int64_t> index = key.AsInt();
  if (!index.has_value()) return std::nullopt;
  if (object.is_string()) {
    const MarkedText& text = object.marked();
    const auto position = PositionOf(*index, CountCharacters(text.text()));
    if (!position.has_value()) return std::nullopt;
    const size_t begin = ByteOfCharacter(text.text(), *position);
    const size_t size = FirstCharacter(std::string_view(text.text()).substr(begin)).size;
    return Value::Text(text.Slice({begin, begin + size}));
  }
  if (!object.Is(Kind::kSequence) || !object.sequence().IsIndexed()) return std::nullopt;
  const auto& items = object.sequence().items;
  const auto pos = PositionOf(*index, items.size());
  return pos.has_value() ? std::optional(items[*pos]) : std::nullopt;
}

// The positions of a slice, as in Python's slice.indices().
struct Positions {
  int64_t from = 0;
  int64_t step = 1;
  size_t count = 0;
};

Result<std::optional<int64_t>> SliceBound(const Value& value) {
  if (value.is_none()) return std::optional<int64_t>();
  if (value.is_undefined()) return InvalidArgument(value.undefined_reason());
  OUTRIDER_ASSIGN(const int64_t bound, IntArgument(value, "a slice's bound"));
  return std::optional(bound);
}

Result<Positions> PositionsOf(const Value& from, const Value& to, const Value& step,
                              int64_t length) {
  OUTRIDER_ASSIGN(const auto first, SliceBound(from));
  OUTRIDER_ASSIGN(const auto last, SliceBound(to));
  OUTRIDER_ASSIGN(const auto stride, SliceBound(step));
  Positions out;
  // Steps longer than the sequence are equivalent; this keeps the sums below from overflowing.
  out.step = std::clamp(stride.value_or(1), -length - 1, length + 1);
  if (out.step == 0) return InvalidArgument("a slice's step must not be 0");
  const bool forward = out.step > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? length : length - 1;
  const auto within = [&](int64_t bound) {
    return std::clamp(bound < 0 ? bound + length : bound, lowest, highest);
  };
  out.from = first.has_value() ? within(*first) : forward ? lowest : highest;
  const int64_t end = last.has_value() ? within(*last) : forward ? highest : lowest;
  const int64_t distance = forward ? end - out.from : out.from - end;
  const int64_t size = forward ? out.step : -out.step;
  out.count = distance > 0 ? static_cast<size_t>((distance + size - 1) / size) : 0;
  return out;
}

Result<Value> SliceText(Runtime& runtime, const MarkedText& text, const Positions& positions,
                        size_t characters) {
  if (positions.step == 1) {
    const auto from = static_cast<size_t>(positions.from);
    const size_t begin = ByteOfCharacter(text.text(), std::min(from, characters));
    const size_t size =
        ByteOfCharacter(std::string_view(text.text()).substr(begin), positions.count);
    return runtime.NewText(text.Slice({begin, begin + size}));
  }
  OUTRIDER_TRY(runtime.CountBytes(text.size() * sizeof(size_t)));
  std::vector<size_t> begins;
  for (size_t position = 0; position < text.size();
       position += FirstCharacter(std::string_view(text.text()).substr(position)).size) {
    begins.push_back(position);
  }
  begins.push_back(text.size());
  MarkedText out;
  int64_t pos = positions.from;
  for (size_t i = 0; i < positions.count; ++i, pos += positions.step) {
    const auto character = static_cast<size_t>(pos);
    out.Append(text, {begins[character], begins[character + 1]});
  }
  return runtime.NewText(std::move(out));
}

}  // namespace

Result<Value> Runtime::Attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return InvalidArgument(object.undefined_reason());
  OUTRIDER_ASSIGN(std::optional<Value> own, OwnAttribute(object, name));
  if (own.has_value()) return std::move(*own);
  if (object.Is(Kind::kDict)) {
    if (const Value* found = object.dict().Find(name)) return *found;
  }
  return Missing(object, "'" + std::string(name) + "'");
}

Result<Value> Runtime::Item(const Value& object, const Value& key) {
  if (object.is_undefined()) return InvalidArgument(object.undefined_reason());
  if (object.is_string()) OUTRIDER_TRY(CountReading(object.text().size()));
  OUTRIDER_TRY(CountSteps(key.extent().weight));
  if (auto found = Subscript(object, key)) return std::move(*found);
  if (!key.is_string()) {
    const bool number = key.AsInt().has_value();
    return Missing(object, number ? std::to_string(*key.AsInt()) : "of this kind");
  }
  OUTRIDER_ASSIGN(std::optional<Value> own, OwnAttribute(object, key.text()));
  if (own.has_value()) return std::move(*own);
  return Missing(object, "'" + key.text() + "'");
}

Result<Value> Runtime::ItemByPath(const Value& object, const Value& path, const Value* otherwise) {
  const auto item_or = [&](const Value& from, const Value& key) -> Result<Value> {
    OUTRIDER_ASSIGN(Value item, Item(from, key));
    if (item.is_undefined() && otherwise != nullptr) return *otherwise;
    return item;
  };
  if (!path.is_string()) return item_or(object, path);
  Value item = object;
  std::string_view rest = path.text();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    bool too_large = false;
    const auto index = is_index ? ParseInt(part, 10, &too_large) : std::nullopt;
    OUTRIDER_ASSIGN(item,
                    item_or(item, index.has_value() ? Value::Int(*index) : Value::Text(part)));
    if (dot == rest.size()) return item;
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> Runtime::Slice(const Value& object, const Value& from, const Value& to,
                             const Value& step) {
  if (object.is_undefined()) return InvalidArgument(object.undefined_reason());
  if (object.is_string()) {
    OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(object, "what is sliced"));
    OUTRIDER_TRY(CountReading(text->size()));
    const size_t characters = CountCharacters(text->text());
    OUTRIDER_ASSIGN(const Positions positions,
                    PositionsOf(from, to, step, static_cast<int64_t>(characters)));
    return SliceText(*this, *text, positions, characters);
  }
  if (!object.Is(Kind::kSequence) || !object.sequence().IsIndexed()) {
    return InvalidArgument("a " + std::string(TypeName(object)) + " cannot be sliced");
  }
  const Sequence& sequence = object.sequence();
  OUTRIDER_ASSIGN(const Positions positions,
                  PositionsOf(from, to, step, static_cast<int64_t>(sequence.items.size())));
  std::vector<Value> items;
  int64_t pos = positions.from;
  for (size_t i = 0; i < positions.count; ++i, pos += positions.step) {
    items.push_back(sequence.items[static_cast<size_t>(pos)]);
  }
  const Flavor flavor = sequence.flavor == Flavor::kGroup ? Flavor::kTuple : sequence.flavor;
  return NewItems(flavor, std::move(items));
}

}  // namespace outrider::jinja
