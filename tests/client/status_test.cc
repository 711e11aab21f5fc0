#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/client/command.h"
#include "tests/client/fake_generation.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

grpc::Status NoText(const v1::GenerateRequest&, GenerateWriter*) {
  return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "status only");
}

v1::GetStatusResponse BusyVerifier() {
  v1::GetStatusResponse status;
  status.set_model("target");
  status.set_version("0.1.0");
  status.set_uptime_seconds(61.5);
  status.set_sessions_running(1);
  status.set_kv_pages_total(64);
  status.set_kv_pages_free(60);
  status.set_kv_pages_cached(4);
  v1::DrafterStatus* drafter = status.add_drafters();
  drafter->set_name("d0");
  drafter->set_model("small");
  drafter->set_sessions(1);
  drafter->set_max_sessions(8);
  drafter->set_round_trip_ms(2.25);
  drafter->set_drafting_ms(1.5);
  v1::SessionStatus* session = status.add_sessions();
  session->set_id(41);
  session->set_phase("decode");
  session->set_prompt_tokens(12);
  session->set_drafter("d0");
  return status;
}

TEST(Status, ShowsDraftersAndSessions) {
  FakeGeneration fake(NoText);
  fake.status = BusyVerifier();
  const auto result = RunOutrider({"status", "--verifier", fake.address()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("model target, version 0.1.0, up 62 s\n"));
  EXPECT_THAT(result.out, HasSubstr("60 of 64 free, 4 cached"));
  EXPECT_THAT(result.out, HasSubstr("d0       small  1/8"));
  EXPECT_THAT(result.out, HasSubstr("41       decode  12"));
  EXPECT_THAT(result.out, Not(HasSubstr("draining")));
}

TEST(Status, ShowsSharedPartOfVocabulary) {
  FakeGeneration fake(NoText);
  fake.status = BusyVerifier();
  EXPECT_THAT(RunOutrider({"status", "--verifier", fake.address()}).out, HasSubstr("  same\n"));
  v1::VocabularyStatus* vocabulary = fake.status.mutable_drafters(0)->mutable_vocabulary();
  vocabulary->set_shared(900);
  vocabulary->set_tokens(1200);
  vocabulary->set_target_tokens(5000);
  EXPECT_THAT(RunOutrider({"status", "--verifier", fake.address()}).out,
              HasSubstr("75.0 % of 1200 (target 5000)"));
  const auto json =
      nlohmann::json::parse(RunOutrider({"status", "--verifier", fake.address(), "--json"}).out);
  EXPECT_EQ(json["drafters"][0]["vocabulary"]["shared"], 900);
  EXPECT_EQ(json["drafters"][0]["vocabulary"]["tokens"], 1200);
  EXPECT_EQ(json["drafters"][0]["vocabulary"]["target_tokens"], 5000);
}

TEST(Status, ReportsMissingDraftersAndDrain) {
  FakeGeneration fake(NoText);
  fake.status.set_draining(true);
  const auto result = RunOutrider({"status", "--verifier", fake.address()});
  EXPECT_THAT(result.out, HasSubstr("draining"));
  EXPECT_THAT(result.out, HasSubstr("no drafter attached\nlast rounds: none yet\n"));
}

TEST(Status, SaysWhoDraftsWithoutADrafter) {
  FakeGeneration fake(NoText);
  for (const auto& [proposer, share] :
       {std::pair("prompt lookup", 0.625), {"none", 0.3748}, {"suffix automaton", 0.0002}}) {
    v1::ProposerShare* const added = fake.status.add_proposers();
    added->set_proposer(proposer);
    added->set_share(share);
  }
  const auto table = RunOutrider({"status", "--verifier", fake.address()});
  EXPECT_THAT(table.out, HasSubstr("no drafter attached\nlast rounds: prompt lookup 62 %, "
                                   "plain decoding 37 %, suffix automaton under 0.1 %\n"));
  const auto json =
      nlohmann::json::parse(RunOutrider({"status", "--verifier", fake.address(), "--json"}).out);
  EXPECT_EQ(json["proposers"][0]["proposer"], "prompt lookup");
  EXPECT_EQ(json["proposers"][1]["share"], 0.3748);
}

TEST(Status, NamesCannotWriteToTheTerminal) {
  FakeGeneration fake(NoText);
  fake.status = BusyVerifier();
  fake.status.mutable_drafters(0)->set_name("a\x1b[2J\xc2\x9b\n\xe2\x80\xae");
  fake.status.mutable_sessions(0)->set_drafter("b\r");
  const std::string out = RunOutrider({"status", "--verifier", fake.address()}).out;
  EXPECT_THAT(out, HasSubstr("a\\u001b[2J\\u009b\\u000a\\u202e"));
  EXPECT_THAT(out, HasSubstr("b\\u000d"));
  for (const char* control : {"\x1b", "\r", "\xc2\x9b", "\xe2\x80\xae"}) {
    EXPECT_THAT(out, Not(HasSubstr(control)));
  }
}

TEST(Status, JsonHasContractFields) {
  FakeGeneration fake(NoText);
  fake.status = BusyVerifier();
  const auto result = RunOutrider({"status", "--verifier", fake.address(), "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["model"], "target");
  EXPECT_EQ(json["draining"], false);
  EXPECT_EQ(json["kv_pages_free"], 60);
  EXPECT_EQ(json["kv_pages_cached"], 4);
  ASSERT_EQ(json["drafters"].size(), 1u);
  EXPECT_EQ(json["drafters"][0]["name"], "d0");
  EXPECT_EQ(json["drafters"][0]["round_trip_ms"], 2.25);
  EXPECT_EQ(json["drafters"][0]["drafting_ms"], 1.5);
  ASSERT_EQ(json["sessions"].size(), 1u);
  EXPECT_EQ(json["sessions"][0]["id"], 41);
  EXPECT_EQ(json["sessions"][0]["drafter"], "d0");
}

TEST(Status, JsonListsMayBeEmpty) {
  FakeGeneration fake(NoText);
  const auto result = RunOutrider({"status", "--verifier", fake.address(), "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_TRUE(json["drafters"].is_array());
  EXPECT_TRUE(json["sessions"].is_array());
}

TEST(Status, NobodyAtTheAddressIsUnavailable) {
  const auto result = RunOutrider({"status", "--verifier", "127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, StartsWith("error: UNAVAILABLE: 127.0.0.1:1: "));
}

}  // namespace
}  // namespace outrider
