#include "common/text/jinja/to_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/text/jinja/python_text.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;

void AppendHex(unsigned code, std::string* out) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), "\\u%04x", code);
  *out += buffer;
}

void AppendEscaped(char32_t code, bool ascii, std::string* out) {
  switch (code) {
    case '"': *out += "\\\""; return;
    case '\\': *out += "\\\\"; return;
    case '\n': *out += "\\n"; return;
    case '\r': *out += "\\r"; return;
    case '\t': *out += "\\t"; return;
    case '\f': *out += "\\f"; return;
    case '\b': *out += "\\b"; return;
    default: break;
  }
  const bool plain = code >= 0x20 && (!ascii || code < 0x7F);
  if (plain) {
    AppendUtf8(code, *out);
  } else if (code < 0x10000) {
    AppendHex(code, out);
  } else {
    AppendHex(0xD800 + ((code - 0x10000) >> 10), out);
    AppendHex(0xDC00 + ((code - 0x10000) & 0x3FF), out);
  }
}

class Writer {
 public:
  Writer(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  Status Write(const Value& value) {
    OUTRIDER_TRY(runtime_.CountBytes(16));
    switch (value.kind()) {
      case Kind::kNone: out_.Append("null"); return Status();
      case Kind::kBool: out_.Append(value.boolean() ? "true" : "false"); return Status();
      case Kind::kInt: out_.Append(std::to_string(value.integer())); return Status();
      case Kind::kFloat: out_.Append(NumberText(value.real())); return Status();
      case Kind::kLongInt:
        OUTRIDER_TRY(runtime_.CountBytes(value.digits().size()));
        out_.Append(value.digits());
        return Status();
      case Kind::kString: return WriteString(value.marked());
      case Kind::kDict: return WriteDict(value.dict());
      case Kind::kSequence:
        if (value.sequence().flavor <= Sequence::Flavor::kGroup) {
          return WriteList(value.sequence());
        }
        [[fallthrough]];
      default:
        return InvalidArgument("a " + std::string(TypeName(value)) + " cannot be written as JSON");
    }
  }
  MarkedText Take() { return std::move(out_); }

 private:
  static std::string NumberText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatText(value);
  }

  Status WriteString(const MarkedText& text) {
    OUTRIDER_TRY(runtime_.CountBytes(text.size() * (style_.ascii ? 6 : 2)));
    out_.Append("\"");
    text.ForEachPart([&](std::string_view part, bool from_request) {
      std::string escaped;
      while (!part.empty()) {
        const Utf8Character character = FirstCharacter(part);
        AppendEscaped(character.code, style_.ascii, &escaped);
        part.remove_prefix(character.size);
      }
      out_.Append(escaped, from_request);
    });
    out_.Append("\"");
    return Status();
  }

  // Begins the line of an item or a closing bracket, if each has one.
  Status BeginLine() {
    if (!style_.indent.has_value()) return Status();
    OUTRIDER_TRY(runtime_.CountBytes(1 + style_.indent->size() * levels_));
    out_.Append("\n");
    for (size_t i = 0; i < levels_; ++i) out_.Append(*style_.indent);
    return Status();
  }

  Status WriteList(const Sequence& list) {
    if (list.items.empty()) {
      out_.Append("[]");
      return Status();
    }
    out_.Append("[");
    ++levels_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) OUTRIDER_TRY(Separate(style_.item_separator));
      OUTRIDER_TRY(BeginLine());
      OUTRIDER_TRY(Write(list.items[i]));
    }
    --levels_;
    OUTRIDER_TRY(BeginLine());
    out_.Append("]");
    return Status();
  }

  Status Separate(const std::string& separator) {
    OUTRIDER_TRY(runtime_.CountBytes(separator.size()));
    out_.Append(separator);
    return Status();
  }

  Status WriteKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return WriteString(key.marked());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
      case Kind::kLongInt:
        out_.Append("\"");
        OUTRIDER_TRY(Write(key));
        out_.Append("\"");
        return Status();
      default:
        return InvalidArgument("a key of JSON must be a string or a number, not a " +
                               std::string(TypeName(key)));
    }
  }

  Status WriteDict(const Dict& dict) {
    if (dict.size() == 0) {
      out_.Append("{}");
      return Status();
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) OUTRIDER_TRY(SortByKey(&entries));
    out_.Append("{");
    ++levels_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) OUTRIDER_TRY(Separate(style_.item_separator));
      OUTRIDER_TRY(BeginLine());
      OUTRIDER_TRY(WriteKey(entries[i]->key));
      OUTRIDER_TRY(Separate(style_.key_separator));
      OUTRIDER_TRY(Write(entries[i]->value));
    }
    --levels_;
    OUTRIDER_TRY(BeginLine());
    out_.Append("}");
    return Status();
  }

  Status SortByKey(std::vector<const Dict::Entry*>* entries) {
    std::vector<Value> keys;
    for (const Dict::Entry* entry : *entries) keys.push_back(entry->key);
    OUTRIDER_ASSIGN(const std::vector<size_t> order, SortedOrder(runtime_, keys, false));
    std::vector<const Dict::Entry*> sorted;
    sorted.reserve(order.size());
    for (const size_t i : order) sorted.push_back((*entries)[i]);
    *entries = std::move(sorted);
    return Status();
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  MarkedText out_;
  size_t levels_ = 0;
};

}  // namespace

Result<MarkedText> ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Writer writer(runtime, style);
  OUTRIDER_TRY(writer.Write(value));
  return writer.Take();
}

}  // namespace outrider::jinja
