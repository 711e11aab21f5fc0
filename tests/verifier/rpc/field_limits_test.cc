// Every field whose length a client or a drafter chooses has a limit.
#include "tests/support/field_limits.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/rpc/drafting_wire.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/rpc/generation_wire.h"

namespace outrider {
namespace {

using testing::ExpectLimits;
using testing::FieldLimit;

const RequestLimits kLimits{.vocab_size = testing::kAsciiTokens,
                            .max_context = 100,
                            .kv_tokens = 1000,
                            .max_draft_length = 8,
                            .max_paths = 4,
                            .max_draft_tokens = 24,
                            .max_prompt_bytes = 80};

std::string Bytes(int64_t count) { return std::string(static_cast<size_t>(count), 'a'); }

constexpr auto kGrammarBytes = static_cast<int64_t>(kMaxGrammarBytes);
constexpr char kOutput[] = "sampling.structured_output";

v1::StructuredOutput& Output(v1::GenerateRequest& wire) {
  return *wire.mutable_sampling()->mutable_structured_output();
}
// With a grammar of one byte.
v1::SchemaRule& Schema(v1::GenerateRequest& wire) {
  Output(wire).set_gbnf("a");
  return *Output(wire).add_schemas();
}

template <class Add>
void Times(int64_t count, Add add) {
  for (int64_t i = 0; i < count; ++i) add(i);
}

class FieldLimits : public ::testing::Test {
 protected:
  // The limit of a field of GenerateRequest; `fill` gives the field `count` entries or bytes.
  template <class Fill>
  FieldLimit OfGenerate(int64_t limit, const std::string& named, Fill fill) const {
    return {limit, named, [this, fill](int64_t count) {
              v1::GenerateRequest wire;
              wire.mutable_token_ids()->add_ids(1);
              fill(count, wire);
              OUTRIDER_TRY(CheckSizes(wire, kLimits));
              const Result<GenerationRequest> request = FromWire(wire, *tokenizer_, kLimits);
              // HTTP requests are held to the same limits only by Validate.
              return request.ok() ? Validate(*request, kLimits) : request.status();
            }};
  }
  // The same for the first draft of a message.
  template <class Fill>
  static FieldLimit OfDraft(int64_t limit, const std::string& named, Fill fill) {
    return {limit, named, [fill](int64_t count) {
              v1::DraftBatch batch;
              fill(count, *batch.add_drafts());
              return FromWire(batch, 64).status();
            }};
  }

  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
};

TEST_F(FieldLimits, OfAGenerateRequest) {
  auto refused_prompt = OfGenerate(99, "token_ids", [](int64_t count, auto& wire) {
    Times(count - 1, [&](int64_t) { wire.mutable_token_ids()->add_ids(1); });
  });
  refused_prompt.code = Code::kOutOfRange;
  EXPECT_TRUE(refused_prompt.receive(99).ok());
  EXPECT_EQ(refused_prompt.receive(100).message(),
            "token_ids: 100 tokens leave no room in the context of 100; at most 99");
  auto refused_text =
      OfGenerate(80, "text", [](int64_t count, auto& wire) { wire.set_text(Bytes(count)); });
  refused_text.code = Code::kOutOfRange;
  ExpectLimits(
      v1::GenerateRequest::descriptor(),
      {{"text", refused_text},
       {"token_ids.ids", refused_prompt},
       {"sampling.logit_bias",
        OfGenerate(kMaxLogitBias, "sampling.logit_bias",
                   [](int64_t count, auto& wire) {
                     Times(count, [&](int64_t i) {
                       (*wire.mutable_sampling()->mutable_logit_bias())[static_cast<uint32_t>(i)] =
                           1;
                     });
                   })},
       {"sampling.allowed_token_ids",
        OfGenerate(kMaxAllowedTokens, "sampling.allowed_token_ids",
                   [](int64_t count, auto& wire) {
                     wire.mutable_sampling()->mutable_allowed_token_ids()->Resize(
                         static_cast<int>(count), 1);
                   })},
       {"sampling.bad_words", OfGenerate(kMaxBadWords, "sampling.bad_words",
                                         [](int64_t count, auto& wire) {
                                           Times(count, [&](int64_t) {
                                             wire.mutable_sampling()->add_bad_words()->add_ids(1);
                                           });
                                         })},
       {"sampling.bad_words.ids",
        OfGenerate(kMaxBadWordTokens, "sampling.bad_words",
                   [](int64_t count, auto& wire) {
                     wire.mutable_sampling()->add_bad_words()->mutable_ids()->Resize(
                         static_cast<int>(count), 1);
                   })},
       {"sampling.structured_output.json_schema",
        OfGenerate(kGrammarBytes, kOutput,
                   [](int64_t count, auto& wire) { Output(wire).set_json_schema(Bytes(count)); })},
       {"sampling.structured_output.regex",
        OfGenerate(kGrammarBytes, kOutput,
                   [](int64_t count, auto& wire) { Output(wire).set_regex(Bytes(count)); })},
       {"sampling.structured_output.gbnf",
        OfGenerate(kGrammarBytes, kOutput,
                   [](int64_t count, auto& wire) { Output(wire).set_gbnf(Bytes(count)); })},
       {"sampling.structured_output.choice.texts",
        OfGenerate(kMaxGrammarChoices, "sampling.structured_output.choice",
                   [](int64_t count, auto& wire) {
                     Times(count, [&](int64_t) { Output(wire).mutable_choice()->add_texts("a"); });
                   })},
       {"sampling.structured_output.schemas",
        OfGenerate(kMaxGrammarSchemas, "sampling.structured_output.schemas",
                   [](int64_t count, auto& wire) {
                     Output(wire).set_gbnf("a");
                     Times(count, [&](int64_t) { Output(wire).add_schemas(); });
                   })},
       {"sampling.structured_output.schemas.name",
        OfGenerate(kGrammarBytes, kOutput,
                   [](int64_t count, auto& wire) { Schema(wire).set_name(Bytes(count - 1)); })},
       {"sampling.structured_output.schemas.schema",
        OfGenerate(kGrammarBytes, kOutput,
                   [](int64_t count, auto& wire) { Schema(wire).set_schema(Bytes(count - 1)); })},
       {"sampling.structured_output.schemas.path", OfGenerate(kGrammarBytes, kOutput,
                                                              [](int64_t count, auto& wire) {
                                                                v1::SchemaRule& rule = Schema(wire);
                                                                Times(count - 1, [&](int64_t) {
                                                                  rule.add_path();
                                                                });
                                                              })},
       {"stop.stop_strings", OfGenerate(16, "stop.stop_strings",
                                        [](int64_t count, auto& wire) {
                                          Times(count, [&](int64_t) {
                                            wire.mutable_stop()->add_stop_strings("x");
                                          });
                                        })},
       {"stop.stop_token_ids", OfGenerate(256, "stop.stop_token_ids",
                                          [](int64_t count, auto& wire) {
                                            Times(count, [&](int64_t) {
                                              wire.mutable_stop()->add_stop_token_ids(1);
                                            });
                                          })},
       {"speculation.tree", OfGenerate(8, "speculation.tree", [](int64_t count, auto& wire) {
          Times(count, [&](int64_t) { wire.mutable_speculation()->add_tree(1); });
        })}});
  const FieldLimit stop_string = OfGenerate(
      1024, "stop.stop_strings",
      [](int64_t count, auto& wire) { wire.mutable_stop()->add_stop_strings(Bytes(count)); });
  EXPECT_TRUE(stop_string.receive(1024).ok());
  EXPECT_EQ(stop_string.receive(1025).code(), Code::kInvalidArgument);
}

TEST_F(FieldLimits, OfTextsAndTheirTokens) {
  constexpr auto kText = static_cast<int64_t>(Tokenizer::kMaxTextBytes);
  ExpectLimits(
      v1::TokenizeRequest::descriptor(),
      {{"text", {kText, "text", [this](int64_t count) {
                   return tokenizer_->Encode(Bytes(count), false).status().Annotate("text");
                 }}}});
  ExpectLimits(
      v1::DetokenizeRequest::descriptor(),
      {{"token_ids", {kMaxDetokenizeIds, "token_ids", [this](int64_t count) {
                        v1::DetokenizeRequest wire;
                        wire.mutable_token_ids()->Resize(static_cast<int>(count), 1);
                        return Detokenize(wire, *tokenizer_, testing::kAsciiTokens).status();
                      }}}});
}

TEST_F(FieldLimits, OfADraftersMessages) {
  const auto hello = [](auto set) {
    return [set](int64_t count) {
      v1::Hello wire;
      set(wire, Bytes(count));
      return FromWire(wire).status();
    };
  };
  ExpectLimits(
      v1::FromDrafter::descriptor(),
      {{"hello.name", {kMaxNameBytes, "hello.name", hello([](v1::Hello& wire, std::string text) {
                         wire.set_name(std::move(text));
                       })}},
       {"hello.model", {kMaxNameBytes, "hello.model", hello([](v1::Hello& wire, std::string text) {
                          wire.set_model(std::move(text));
                        })}},
       {"drafts.drafts",
        {kMaxBatchEntries, "drafts",
         [](int64_t count) {
           v1::DraftBatch batch;
           Times(count, [&](int64_t) { batch.add_drafts(); });
           return FromWire(batch, 64).status();
         }}},
       {"drafts.drafts.token_ids", OfDraft(kMaxChunkDraws, "token_ids",
                                           [](int64_t count, v1::Draft& draft) {
                                             draft.mutable_token_ids()->Resize(
                                                 static_cast<int>(count), 1);
                                           })},
       {"drafts.drafts.parents", OfDraft(kMaxChunkDraws, "parents",
                                         [](int64_t count, v1::Draft& draft) {
                                           draft.mutable_parents()->Resize(static_cast<int>(count),
                                                                           0);
                                         })},
       {"drafts.drafts.rows", OfDraft(kMaxChunkDraws, "rows",
                                      [](int64_t count, v1::Draft& draft) {
                                        Times(count, [&](int64_t) { draft.add_rows(); });
                                      })},
       {"drafts.drafts.rows.id_gaps", OfDraft(64, "rows.id_gaps",
                                              [](int64_t count, v1::Draft& draft) {
                                                draft.add_token_ids(1);
                                                draft.add_rows()->mutable_id_gaps()->Resize(
                                                    static_cast<int>(count), 1);
                                              })},
       {"drafts.drafts.rows.weights",
        OfDraft(64, "rows.weights", [](int64_t count, v1::Draft& draft) {
          draft.add_token_ids(1);
          draft.add_rows()->mutable_weights()->Resize(static_cast<int>(count), 1);
        })}});
}

}  // namespace
}  // namespace outrider
