// Compares the tables of fields with the checks of values, which are elsewhere, and with
// docs/http.md.
#include "verifier/http/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"
#include "verifier/http/api_error.h"

namespace outrider {
namespace {

using UnorderedJson = nlohmann::json;

bool IsNumber(std::string_view type) { return type == "integer" || type == "number"; }

class FieldRanges : public ApiModelTest {
 protected:
  // "" if a body with this member is accepted; otherwise the field that the error names.
  std::string Refused(FieldsOf kind, const UnorderedJson& member) const {
    UnorderedJson body = {{"prompt", "abc"}, {"echo", true}};  // so that max_tokens may be 0
    if (kind == FieldsOf::kChat) {
      body = {{"messages", {{{"role", "user"}, {"content", "abc"}}}}, {"logprobs", true}};
    }
    body.update(member);
    const auto parsed = kind == FieldsOf::kChat ? ParseChat(body.dump(), model_)
                                                : ParseCompletion(body.dump(), model_);
    if (parsed.ok()) return "";
    const UnorderedJson error = UnorderedJson::parse(ErrorJson(parsed.status()))["error"];
    return error["param"].is_string() ? error["param"].get<std::string>() : error.dump();
  }

  // Tries both ends of a field's range and the values beyond them. `make`: the body's member with a
  // value for the field. `path`: the name of the field, or of its items, in errors.
  template <typename Make>
  void ExpectRange(FieldsOf kind, const ServedField& field, const std::string& path, Make make) {
    SCOPED_TRACE(path);
    const bool is_integer = (field.items.empty() ? field.type : field.items) == "integer";
    const auto refused = [&](double value) {
      const UnorderedJson json = !is_integer ? UnorderedJson(value)
                                 : value < 0 ? UnorderedJson(static_cast<int64_t>(value))
                                             : UnorderedJson(static_cast<uint64_t>(value));
      const UnorderedJson item = field.items.empty()      ? json
                                 : field.type == "object" ? UnorderedJson{{"0", json}}
                                                          : UnorderedJson::array({json});
      const std::string param = Refused(kind, make(item));
      return param == field.name ? path : param.substr(0, path.size());
    };
    const auto step = [&](double end) {
      return is_integer ? std::max(1., std::floor(std::fabs(end) * 1e-6))
                        : std::max(0.01, std::fabs(end) * 1e-3);
    };
    const auto [low, high, excludes_low] = field.range;
    ASSERT_TRUE(std::isfinite(low) && std::isfinite(high)) << "a number without a range";
    EXPECT_EQ(refused(low), excludes_low ? path : "");
    // There are no integers beyond 64 bits.
    if (low > -0x1p63) {
      EXPECT_EQ(refused(low - step(low)), path);
    }
    if (high < 0x1p63) {
      EXPECT_EQ(refused(high + step(high)), path);
    }
    // The model's context, vocabulary and limits are narrower than 32 bits.
    const bool is_of_model = is_integer && high >= 0x7fffffff && field.name != "top_k";
    if (!is_of_model) {
      EXPECT_EQ(refused(high), "");
    }
    ++tried_;
  }

  int tried_ = 0;
};

TEST_F(FieldRanges, AreThoseThatAreChecked) {
  for (const FieldsOf kind : {FieldsOf::kCompletion, FieldsOf::kChat}) {
    SCOPED_TRACE(kind == FieldsOf::kChat ? "chat" : "completion");
    for (const ServedField& field : ServedFields(kind)) {
      if (!IsNumber(field.type) && !IsNumber(field.items)) continue;
      const std::string name(field.name);
      // Its range is checked under its own name, the context's under the internal name of both.
      const std::string told = name == "max_completion_tokens" ? "max_tokens" : name;
      ExpectRange(kind, field, told, [&](const UnorderedJson& value) {
        return UnorderedJson{{name, value}};
      });
    }
    for (const ServedField& field : ServedFields(FieldsOf::kSpeculation)) {
      if (!IsNumber(field.type) && !IsNumber(field.items)) continue;
      const std::string name(field.name);
      ExpectRange(kind, field, "speculation." + name, [&](const UnorderedJson& value) {
        return UnorderedJson{{"speculation", {{name, value}}}};
      });
    }
    for (const ServedField& field : ServedFields(FieldsOf::kStopRule)) {
      if (!IsNumber(field.type)) continue;
      ExpectRange(kind, field, "speculation.stop.threshold", [&](const UnorderedJson& value) {
        return UnorderedJson{
            {"speculation", {{"stop", {{"kind", "entropy"}, {"threshold", value}}}}}};
      });
    }
  }
  EXPECT_GT(tried_, 40);
}

TEST_F(FieldRanges, RequiredFieldsAreAskedFor) {
  for (const FieldsOf kind : {FieldsOf::kCompletion, FieldsOf::kChat}) {
    for (const ServedField& field : ServedFields(kind)) {
      if (field.is_required) {
        EXPECT_EQ(Refused(kind, {{field.name, nullptr}}), field.name);
      }
    }
  }
  for (const ServedField& field : ServedFields(FieldsOf::kMessage)) {
    UnorderedJson message = {{"role", "user"}, {"content", "abc"}};
    message.erase(std::string(field.name));
    EXPECT_EQ(Refused(FieldsOf::kChat, {{"messages", {message}}}).empty(), !field.is_required)
        << field.name;
  }
}

TEST_F(FieldRanges, WordsAreThoseThatAreKnown) {
  const auto expect = [&](FieldsOf members, std::string_view name, const auto& make) {
    for (const ServedField& field : ServedFields(members)) {
      if (field.name != name) continue;
      ASSERT_FALSE(field.words.empty()) << name;
      std::istringstream words{std::string(field.words)};
      for (std::string word; std::getline(words, word, '|');) {
        EXPECT_EQ(Refused(FieldsOf::kChat, make(word)), "") << name << " " << word;
      }
      EXPECT_NE(Refused(FieldsOf::kChat, make("another")), "") << name;
    }
  };
  expect(FieldsOf::kMessage, "role", [](const std::string& word) {
    return UnorderedJson{{"messages", {{{"role", word}, {"content", "abc"}}}}};
  });
  expect(FieldsOf::kPart, "type", [](const std::string& word) {
    const UnorderedJson part = {{"type", word}, {"text", "abc"}};
    return UnorderedJson{{"messages", {{{"role", "user"}, {"content", {part}}}}}};
  });
  expect(FieldsOf::kSpeculation, "mode", [](const std::string& word) {
    return UnorderedJson{{"speculation", {{"mode", word}}}};
  });
  expect(FieldsOf::kStopRule, "kind", [](const std::string& word) {
    return UnorderedJson{{"speculation", {{"stop", {{"kind", word}}}}}};
  });
}

// docs/http.md's three tables, by the first cell of their rows.
class DocumentedFields : public ::testing::Test {
 protected:
  using Names = std::set<std::string>;
  struct Row {
    Names names;
    bool has_star = false;
  };

  DocumentedFields() {
    std::ifstream in(std::string(OUTRIDER_SOURCE_DIR) + "/docs/http.md");
    std::string table, line;
    while (std::getline(in, line)) {
      if (line.starts_with("## ")) table.clear();
      if (line.starts_with("Served:")) table = "served";
      if (line.starts_with("Ignored,")) table = "ignored";
      if (line.starts_with("Refused,")) table = "refused";
      for (const std::string& name : Quoted(line)) anywhere_.insert(name);
      if (table.empty() || !line.starts_with("| ")) continue;
      const std::string cell = line.substr(1, line.find(" | ", 1));
      Row row = {.names = Quoted(cell), .has_star = cell.find('*') != std::string::npos};
      if (!row.names.empty()) rows_[table].push_back(std::move(row));
    }
  }

  static Names Quoted(const std::string& text) {
    static const std::regex quoted("`([a-z_.]+)`");
    Names names;
    for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
      names.insert((*it)[1]);
    }
    return names;
  }

  Names Documented(const std::string& table) const {
    Names names;
    for (const Row& row : rows_.at(table)) names.insert(row.names.begin(), row.names.end());
    return names;
  }

  static constexpr FieldsOf kBodies[] = {FieldsOf::kCompletion, FieldsOf::kChat};
  static constexpr FieldsOf kMembers[] = {FieldsOf::kMessage,     FieldsOf::kPart,
                                          FieldsOf::kSpeculation, FieldsOf::kStopRule,
                                          FieldsOf::kTool,        FieldsOf::kToolFunction,
                                          FieldsOf::kToolChoice,  FieldsOf::kToolChoiceFunction,
                                          FieldsOf::kToolCall,    FieldsOf::kToolCallFunction,
                                          FieldsOf::kTokenize,    FieldsOf::kTokenizeChat,
                                          FieldsOf::kDetokenize};

  static void Add(FieldsOf kind, FieldUse use, const std::string& prefix, Names* names) {
    for (const std::string_view name : FieldNames(kind, use)) {
      names->insert(prefix + std::string(name));
    }
  }
  // Fields of bodies and of their stream_options.
  static Names OfBodies(FieldUse use) {
    Names names;
    for (const FieldsOf kind : kBodies) Add(kind, use, "", &names);
    Add(FieldsOf::kStreamOptions, use, "stream_options.", &names);
    return names;
  }
  static Names OfMembers(FieldUse use) {
    Names names;
    for (const FieldsOf kind : kMembers) Add(kind, use, "", &names);
    return names;
  }
  static Names Union(Names a, const Names& b) {
    a.insert(b.begin(), b.end());
    return a;
  }
  static Names Difference(const Names& a, const Names& b) {
    Names rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
    return rest;
  }

  std::map<std::string, std::vector<Row>> rows_;
  Names anywhere_;  // on the page
};

TEST_F(DocumentedFields, ServedFieldsMatchCode) {
  const Names documented = Documented("served");
  const Names bodies = OfBodies(FieldUse::kServed), members = OfMembers(FieldUse::kServed);
  EXPECT_EQ(Difference(bodies, documented), Names()) << "served, and not in the page's table";
  EXPECT_EQ(Difference(documented, Union(bodies, members)), Names())
      << "in the table, and not served";
  EXPECT_EQ(Difference(members, anywhere_), Names()) << "served, and nowhere on the page";
}

TEST_F(DocumentedFields, IgnoredFieldsMatchCode) {
  EXPECT_EQ(Documented("ignored"),
            Union(OfBodies(FieldUse::kIgnored), OfMembers(FieldUse::kIgnored)));
}

TEST_F(DocumentedFields, RefusedFieldsMatchCode) {
  const Names always = Union(OfBodies(FieldUse::kRefused), OfMembers(FieldUse::kRefused));
  const Names unless_told = Union(OfBodies(FieldUse::kNotServed), OfMembers(FieldUse::kNotServed));
  EXPECT_EQ(Documented("refused"), Union(always, unless_told));
  for (const Row& row : rows_.at("refused")) {
    for (const std::string& name : row.names) {
      EXPECT_TRUE((row.has_star ? unless_told : always).contains(name))
          << name << (row.has_star ? " has a star" : " has no star");
    }
  }
}

}  // namespace
}  // namespace outrider
