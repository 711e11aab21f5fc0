#include "common/text/jinja/runtime.h"

#include <utility>

#include "common/base/utf8_bytes.h"
#include "common/text/jinja/python_text.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

// A character that a `for` takes from a string becomes a value of its own.
constexpr size_t kCharacterBytes = 128;

Status CannotPrint(const Value& value) {
  return InvalidArgument("a " + std::string(TypeName(value)) + " cannot be printed");
}

// The brackets around the items of a sequence in repr().
std::pair<std::string_view, std::string_view> BracketsOf(const Sequence& sequence) {
  switch (sequence.flavor) {
    case Flavor::kList: return {"[", "]"};
    case Flavor::kTuple:
    case Flavor::kGroup: return {"(", sequence.items.size() == 1 ? ",)" : ")"};
    case Flavor::kKeys: return {"dict_keys([", "])"};
    case Flavor::kValues: return {"dict_values([", "])"};
    case Flavor::kItems: return {"dict_items([", "])"};
    case Flavor::kRange:
    case Flavor::kGenerator: break;
  }
  return {"", ""};
}

void AppendStringRepr(const String& string, MarkedText* out) {
  const char quote = ReprQuote(string.marked.text());
  out->Append(string.markup ? "Markup(" : "");
  out->Append(std::string_view(&quote, 1));
  string.marked.ForEachPart([&](std::string_view part, bool from_request) {
    std::string shown;
    for (size_t pos = 0; pos < part.size();) {
      const Utf8Character character = FirstCharacter(part.substr(pos));
      outrider::jinja::AppendRepr(character.code, quote, shown);
      pos += character.size;
    }
    out->Append(shown, from_request);
  });
  out->Append(std::string_view(&quote, 1));
  out->Append(string.markup ? ")" : "");
}

// The text of values for which str() and repr() agree; nullopt for other kinds.
std::optional<std::string> PlainText(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone: return "None";
    case Kind::kBool: return value.boolean() ? "True" : "False";
    case Kind::kInt: return std::to_string(value.integer());
    case Kind::kFloat: return FloatText(value.real());
    default: return std::nullopt;
  }
}

}  // namespace

Status Runtime::CountSteps(size_t steps) {
  steps_ += steps;
  if (steps_ <= limits_.steps) return Status();
  return InvalidArgument("rendering takes more than " + std::to_string(limits_.steps) + " steps");
}

Status Runtime::CountReading(size_t bytes) { return CountSteps(bytes / 16); }

Status Runtime::CountBytes(size_t bytes) {
  OUTRIDER_TRY(CountMemory(bytes));
  return CountReading(bytes);
}

Status Runtime::CountMemory(size_t bytes) {
  // The sum cannot wrap, because each count is below 2^63.
  bytes_ += bytes;
  if (bytes_ <= limits_.value_bytes) return Status();
  return InvalidArgument("rendering makes more than " + std::to_string(limits_.value_bytes) +
                         " bytes of strings, lists and scopes");
}

Result<Value> Runtime::NewText(MarkedText text) {
  OUTRIDER_TRY(CountBytes(text.size()));
  return Value::Text(std::move(text));
}

Result<MarkedText> Runtime::TextOf(const Value& value) {
  MarkedText text;
  if (value.is_string()) {
    OUTRIDER_TRY(CountBytes(value.text().size()));
    text = value.marked();
  } else if (!value.is_undefined()) {
    OUTRIDER_TRY(AppendRepr(value, &text));
  }
  return text;
}

Status Runtime::AppendRepr(const Value& value, MarkedText* out) {
  OUTRIDER_TRY(CountBytes(16));
  if (const auto text = PlainText(value)) {
    out->Append(*text);
  } else if (value.Is(Kind::kLongInt)) {
    OUTRIDER_TRY(CountBytes(value.digits().size()));
    out->Append(value.digits());
  } else if (value.is_undefined()) {
    out->Append("Undefined");
  } else if (value.is_string()) {
    OUTRIDER_TRY(CountBytes(value.text().size()));
    AppendStringRepr(value.string(), out);
  } else if (value.Is(Kind::kDict)) {
    out->Append("{");
    bool first = true;
    for (const Dict::Entry& entry : value.dict().entries()) {
      out->Append(std::exchange(first, false) ? "" : ", ");
      OUTRIDER_TRY(AppendRepr(entry.key, out));
      out->Append(": ");
      OUTRIDER_TRY(AppendRepr(entry.value, out));
    }
    out->Append("}");
  } else if (value.Is(Kind::kSequence)) {
    const auto [open, close] = BracketsOf(value.sequence());
    if (open.empty()) return CannotPrint(value);
    out->Append(open);
    bool first = true;
    for (const Value& item : value.sequence().items) {
      out->Append(std::exchange(first, false) ? "" : ", ");
      OUTRIDER_TRY(AppendRepr(item, out));
    }
    out->Append(close);
  } else {
    return CannotPrint(value);
  }
  return Status();
}

Result<std::vector<Value>> Runtime::ItemsOf(const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined: return items;
    case Kind::kString: {
      const MarkedText& text = value.marked();
      OUTRIDER_TRY(CountBytes(text.size() * kCharacterBytes));
      for (size_t pos = 0; pos < text.size();) {
        const size_t size = FirstCharacter(std::string_view(text.text()).substr(pos)).size;
        items.push_back(Value::Text(text.Slice({pos, pos + size})));
        pos += size;
      }
      return items;
    }
    case Kind::kDict:
      OUTRIDER_TRY(CountBytes(value.dict().size() * sizeof(Value)));
      for (const Dict::Entry& entry : value.dict().entries()) items.push_back(entry.key);
      return items;
    case Kind::kSequence: {
      Sequence& sequence = value.sequence();
      OUTRIDER_TRY(CountBytes((sequence.items.size() - sequence.next) * sizeof(Value)));
      items.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next),
                   sequence.items.end());
      if (sequence.flavor == Flavor::kGenerator) sequence.next = sequence.items.size();
      return items;
    }
    default:
      return InvalidArgument("a " + std::string(TypeName(value)) + " cannot be iterated over");
  }
}

Result<size_t> Runtime::LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return size_t{0};
    case Kind::kString:
      OUTRIDER_TRY(CountReading(value.text().size()));
      return CountCharacters(value.text());
    case Kind::kDict: return value.dict().size();
    case Kind::kSequence:
      if (value.sequence().HasLength()) return value.sequence().items.size();
      [[fallthrough]];
    default: return InvalidArgument("a " + std::string(TypeName(value)) + " has no length");
  }
}

Result<Value> Runtime::NewItems(Flavor flavor, std::vector<Value> items) {
  OUTRIDER_TRY(CountBytes(items.size() * sizeof(Value)));
  return NewSequence(flavor, std::move(items));
}

Namespace* Runtime::NewNamespace() { return &spaces_.emplace_back(); }

Result<std::vector<Value>> EntriesOf(Runtime& runtime, const Dict& dict) {
  OUTRIDER_TRY(runtime.CountBytes(dict.size() * (sizeof(Sequence) + 3 * sizeof(Value))));
  std::vector<Value> entries;
  for (const Dict::Entry& entry : dict.entries()) {
    OUTRIDER_ASSIGN(entries.emplace_back(), NewTuple({entry.key, entry.value}));
  }
  return entries;
}

Result<int64_t> IntArgument(const Value& value, std::string_view name) {
  const std::optional<int64_t> number = value.AsInt();
  if (number.has_value()) return *number;
  return InvalidArgument(std::string(name) + " must be an integer, not a " +
                         std::string(TypeName(value)));
}

Result<int64_t> IntArgument(const Value* value, std::string_view name, int64_t otherwise) {
  if (value == nullptr || value->is_none()) return otherwise;
  return IntArgument(*value, name);
}

bool FlagArgument(const Value* value, bool otherwise) {
  return value == nullptr ? otherwise : IsTrue(*value);
}

Result<const MarkedText*> TextArgument(const Value& value, std::string_view name) {
  if (!value.is_string()) {
    return InvalidArgument(std::string(name) + " must be a string, not a " +
                           std::string(TypeName(value)));
  }
  if (value.string().markup) {
    return InvalidArgument(
        std::string(name) +
        " was made by 'safe' or 'escape', and only printing, '+' and '~' of such "
        "a string are supported");
  }
  return &value.marked();
}

}  // namespace outrider::jinja
