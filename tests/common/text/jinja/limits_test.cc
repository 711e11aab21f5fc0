// A template that exceeds a limit is rejected before the work is done, and leaks nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/text/jinja/evaluator.h"
#include "common/text/jinja/parser.h"
#include "common/text/jinja/value.h"
#include "tests/common/text/jinja/rendering.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/cpu_seconds.h"

namespace outrider::jinja {
namespace {

using outrider::testing::AllocationWatch;
using testing::ErrorOf;
using ::testing::HasSubstr;

std::string Repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// Statements that set `count` variables.
std::string Sets(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "{% set a" + std::to_string(i) + " = 0 %}";
  return out;
}

// "a0, a1, .."
std::string Parameters(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "a" : ", a") + std::to_string(i);
  return out;
}

// "'a0': 0, 'a1': 0, .."
std::string Entries(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "'a" : ", 'a") + std::to_string(i) + "': 0";
  return out;
}

// Keys of 16 ASCII characters with the same std::hash, which in libstdc++ is MurmurHash64A with a
// known seed: the second half of a key follows from the first.
std::vector<std::string> CollidingKeys(size_t count) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995, kSeed = 0xc70f6907, kHash = 42;
  uint64_t inverse = kMul;  // of kMul, by Newton's method
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMul * inverse;
  const auto mix = [](uint64_t v) { return v ^ v >> 47; };  // its own inverse
  std::vector<std::string> keys;
  for (uint64_t n = 0; keys.size() < count; ++n) {
    std::array<uint64_t, 2> halves = {0x6161616161616161 + (n & 0xf) + (n >> 4 & 0xf) * 0x100 +
                                          (n >> 8 & 0xf) * 0x10000 + (n >> 12 & 0xf) * 0x1000000 +
                                          (n >> 16 & 0xf) * 0x100000000 +
                                          (n >> 20 & 0xf) * 0x10000000000,
                                      0};
    const uint64_t first = (kSeed ^ 16 * kMul ^ mix(halves[0] * kMul) * kMul) * kMul;
    halves[1] = mix((first ^ kHash * inverse) * inverse) * inverse;
    if ((halves[1] & 0x8080808080808080) != 0) continue;
    keys.emplace_back(reinterpret_cast<const char*>(halves.data()), 16);
  }
  return keys;
}

// Keys come from requests (chat_template_kwargs, a tool's schema).
TEST(Limits, CollidingKeysAreFoundQuickly) {
  const std::vector<std::string> keys = CollidingKeys(8000);
  ASSERT_EQ(std::hash<std::string>()(keys[0]), std::hash<std::string>()(keys[1]));
  const auto seconds_of = [&](size_t count) {
    return LeastCpuSeconds([&] {
      Dict dict;
      for (size_t k = 0; k < count; ++k) dict.Set(Value::Text(keys[k]), Value());
      EXPECT_EQ(dict.size(), count);
    });
  };
  // 8 times as many may take 8 times as long, with a factor of three for cache effects.
  EXPECT_LT(seconds_of(8000), 24 * seconds_of(1000));
}

TEST(Limits, StepsEndWhateverRepeats) {
  const RenderLimits limits{.steps = 10'000};
  for (const std::string& source : std::vector<std::string>{
           "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
           "{% for a in range(99999) %}{{ 1 + 1 }}{% endfor %}",
           "{{ range(99999) | map('string') | list | length }}",
           "{{ range(99999) | select('odd') | sum }}",
           "{% set x = range(9999) | list %}{{ x == (range(9999) | list) }}{{ 5 in x }}",
           "{% set x = 'a' * 100000 %}{{ x is upper }}{{ x is lower }}{{ x is upper }}",
           "{{ range(9999) | map('abs') | sort | first }}",
           "{% for i in range(1000) %}{% continue %}" + Sets(1000) + "{% endfor %}",
           "{% if 1 %}" + Sets(1000) + "{% endif %}",
           Sets(300) + "{% for i in range(400) %}{{ x }}{% endfor %}",
           "{% for i in range(1000) %}{{ ''" + Repeated(" ~ ''", 99) + " }}{% endfor %}",
           "{% macro m() %}{{ varargs[0] }}{% endmacro %}{% for i in range(100) %}" +
               ("{% set x = m(1" + Repeated(", 1", 199) + ") %}{% endfor %}"),
           "{% macro m(" + Parameters(99) + ") %}{% endmacro %}{% for i in range(1000) %}" +
               "{% set x = m() %}{% endfor %}",
           "{% set d = {" + Entries(99) + "} %}{% macro m() %}{{ kwargs.a0 }}{% endmacro %}" +
               "{% for i in range(100) %}{% set x = m(**d) %}{% endfor %}",
       }) {
    EXPECT_THAT(ErrorOf(source, "", limits), HasSubstr("more than 10000 steps")) << source;
  }
  EXPECT_EQ(ErrorOf("{% for a in range(1000) %}{{ a }}{% endfor %}", "", limits), "");
}

TEST(Limits, CountsBytesBeforeMakingThem) {
  const RenderLimits limits{.value_bytes = 1 << 20};
  for (const std::string& source : std::vector<std::string>{
           "{{ ('a' * 10 ** 12) | length }}",
           "{{ ('a' * 9223372036854775807) | length }}",
           "{{ ([1] * 10 ** 12) | length }}",
           "{{ 'a'.center(10 ** 12) }}",
           "{{ 'a'.ljust(9223372036854775807) }}",
           "{{ 'a'.zfill(10 ** 12) }}",
           "{{ 'a\nb' | indent(10 ** 12) }}",
           "{{ ('a' * 20000).replace('a', 'b' * 20000) }}",
           "{{ ('a' * 20000) | replace('', 'b' * 20000) }}",
           "{{ ('a' * 20000) | join('b' * 20000) }}",
           "{{ ('b' * 20000).join('a' * 20000) }}",
           "{{ [1] | batch(10 ** 12, 'x') | list | length }}",
           "{{ [1] | slice(10 ** 12) | list | length }}",
           "{{ ('a ' * 100000).split() | length }}",
           "{{ ('a,' * 100000).split(',') | length }}",
           "{{ ('a' * 200000) | list | length }}",
           ("{% set n = namespace(x='a') %}{% for i in range(60) %}"
            "{% set n.x = n.x + n.x %}{% endfor %}"),
           ("{% set n = namespace(x=[1]) %}{% for i in range(60) %}"
            "{% set n.x = n.x + n.x %}{% endfor %}"),
           ("{% set n = namespace(x='a') %}{% for i in range(60) %}"
            "{% set n.x = [n.x] | tojson ~ n.x %}{% endfor %}"),
           "{% for i in range(90000) %}{% macro m() %}{% endmacro %}{% endfor %}",
           "{% for i in range(90000) %}{% set x = namespace(a=i) %}{% endfor %}",
           // Macros keep the scopes that they are made in.
           ("{% for i in range(1000) %}{% macro m() %}{% endmacro %}{% continue %}" + Sets(500) +
            "{% endfor %}"),
           ("{% for i in range(1000) %}{% macro m() %}{% endmacro %}{% if 1 %}" + Sets(99) +
            "{% endif %}{% endfor %}"),
       }) {
    const AllocationWatch watch;
    EXPECT_THAT(ErrorOf(source, "", limits), HasSubstr("more than 1048576 bytes")) << source;
    if (AllocationWatch::kCounts) {
      EXPECT_LT(watch.peak(), 32 << 20) << source;
      EXPECT_LT(watch.held(), 1 << 20) << source;
    }
  }
}

TEST(Limits, OutputHasALimit) {
  const std::string user(1000, 'x');
  const RenderLimits limits{.output_bytes = 2000};
  EXPECT_EQ(ErrorOf("{{ user }}{{ user }}", user, limits), "");
  EXPECT_THAT(ErrorOf("{{ user }}{{ user }}.", user, limits), HasSubstr("more than 2000 bytes"));
}

TEST(Limits, NestingOfTemplatesHasALimit) {
  EXPECT_THAT(Template::Parse(std::string(kMaxTemplateBytes + 1, 'a')).status().message(),
              HasSubstr("1048577 bytes, at most 1048576"));
  const int kMany = 100'000;
  for (const std::string& source : {
           "{{ " + std::string(kMany, '(') + "1" + std::string(kMany, ')') + " }}",
           "{{ " + std::string(kMany, '[') + std::string(kMany, ']') + " }}",
           "{{ " + Repeated("not ", kMany) + "1 }}",
           "{{ " + Repeated("- ", kMany) + "1 }}",
           "{{ " + Repeated("1 if 1 else ", kMany / 2) + "1 }}",
           Repeated("{% if 1 %}", kMany / 2),
           "{% set " + std::string(kMany, '(') + "a" + std::string(kMany, ')') + " %}",
       }) {
    EXPECT_THAT(ErrorOf(source), HasSubstr("nested deeper than 64 levels")) << source.substr(0, 40);
  }
  for (const std::string& source :
       {"{{ 1" + Repeated(" + 1", kMany) + " }}", "{{ x" + Repeated(".x", kMany) + " }}",
        "{{ x" + Repeated("|abs", kMany) + " }}"}) {
    EXPECT_THAT(ErrorOf(source), HasSubstr("more than 200 levels")) << source.substr(0, 40);
  }
}

TEST(Limits, NamesAreShort) {
  EXPECT_EQ(ErrorOf("{{ " + std::string(128, 'a') + " }}"), "");
  EXPECT_THAT(ErrorOf("{{ x.\n" + std::string(129, 'a') + " }}"),
              HasSubstr("line 2: a name has 129 bytes, at most 128 are read"));
}

// An attribute of a namespace is found without passing all others.
TEST(Limits, NamespacesAreSearchedQuickly) {
  const auto seconds_of = [](int count) {
    const std::string source = "{% set n = namespace(**{" + Entries(count) + "}) %}";
    const Template chat = Template::Parse(source).value();
    return LeastCpuSeconds([&] { EXPECT_TRUE(chat.Render({}, {}).ok()); });
  };
  // 16 times as many may take 16 times as long, with a factor of three for cache effects.
  EXPECT_LT(seconds_of(32'000), 48 * seconds_of(2000));
}

TEST(Limits, MacroAndLoopRecursionIsLimited) {
  for (const char* source : {
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m() %}{% if 1 %}{% call m() %}{% endcall %}{% endif %}{{ caller }}{% endmacro "
           "%}{{ m() }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
       }) {
    EXPECT_THAT(ErrorOf(source), HasSubstr("deeper than 600 levels")) << source;
  }
}

TEST(Limits, NestingOfValuesIsLimited) {
  EXPECT_THAT(ErrorOf("{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] "
                      "%}{% endfor %}"),
              HasSubstr("nested deeper than 64 levels"));
  // A list that contains another one twice, nested 60 times, is small but has 2^60 values.
  for (const char* pair : {"[ns.x, ns.x]", "(ns.x, ns.x)", "{'a': ns.x, 'b': ns.x}"}) {
    EXPECT_THAT(ErrorOf("{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = " +
                        std::string(pair) + " %}{% endfor %}"),
                HasSubstr("more than 4194304 values"));
  }
}

TEST(Limits, FreesCyclicObjects) {
  const AllocationWatch watch;
  EXPECT_EQ(
      ErrorOf("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.list = [ns] %}"
              "{% macro m() %}{{ m }}{% endmacro %}{% set ns.m = m %}"
              "{% for i in [1] %}{% set ns.loop = loop %}{{ loop.changed(loop) }}{% endfor %}"),
      "");
  if (AllocationWatch::kCounts) {
    EXPECT_EQ(watch.held(), 0);
  }
}

}  // namespace
}  // namespace outrider::jinja
