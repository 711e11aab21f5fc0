// A verifier process that serves HTTP, and a drafter process, on the small pair.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/metrics_reader.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {

class Http : public ::testing::Test {
 protected:
  using Json = nlohmann::json;
  static constexpr char kPrompt[] = "Once upon a time, there was a little";

  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--http", "127.0.0.1:0", "--min-draft-wait", "30"});
    verifier_ = testing::StartVerifier(testing::SmallPair("target"), dir_ / "verifier.log", flags);
    ASSERT_NE(verifier_.port, 0);
    port_ = verifier_.http_port;
    ASSERT_NE(port_, 0);
  }
  void StartWithDrafter(const std::vector<std::string>& flags = {}) {
    Start(flags);
    drafter_ = testing::StartDrafter(testing::SmallPair("drafter"), verifier_.address(),
                                     dir_ / "drafter.log");
    client_ = std::make_unique<testing::TestClient>(verifier_.address());
    ASSERT_TRUE(client_->AwaitDrafters(1)) << drafter_->Log();
  }

  static Json Story(int max_tokens) {
    return {{"model", "target"},
            {"prompt", kPrompt},
            {"max_tokens", max_tokens},
            {"temperature", 0},
            {"ignore_eos", true}};
  }
  // The text of Story's tokens 11 to 20, for tests that need something which the model does write.
  std::string PieceOfStory() {
    const std::string begin = Complete(Story(10))["choices"][0]["text"];
    const std::string more = Complete(Story(20))["choices"][0]["text"];
    EXPECT_TRUE(more.starts_with(begin) && more.size() > begin.size()) << more;
    return more.substr(begin.size());
  }
  testing::HttpResponse Post(const std::string& path, const Json& body,
                             const std::string& headers = "") {
    return testing::Fetch(port_, "POST", path, body.dump(), headers);
  }
  Json Complete(const Json& body) {
    const testing::HttpResponse response = Post("/v1/completions", body);
    EXPECT_EQ(response.code, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }
  // Waits until a gauge of the verifier is above 0.
  void AwaitSome(const std::string& metric) {
    const auto is_some = [&] { return testing::ReadMetrics(verifier_.metrics_port)[metric] > 0; };
    EXPECT_TRUE(testing::Await(is_some)) << metric;
  }

  testing::TempDir dir_;
  testing::VerifierProcess verifier_;
  int port_ = 0;
  std::unique_ptr<testing::Process> drafter_;
  std::unique_ptr<testing::TestClient> client_;
};

}  // namespace outrider
