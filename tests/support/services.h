// A real verifier and real drafters for integration tests: processes on free loopback ports.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace outrider::testing {

// The path of a built program.
std::string ProgramPath(const std::string& name);
// A file of the source tree.
std::string SourcePath(const std::string& name);
// A pair for tests that need any pair: "target" or "drafter", made at build time from
// models/default/drafter (make_small_pair.cc).
std::string SmallPair(const std::string& name);

// A verifier that is still running at the end of its test is checked: without requests every KV
// page must be free or the prefix cache's, otherwise the test fails.
struct VerifierProcess {
  VerifierProcess() = default;
  ~VerifierProcess();
  VerifierProcess(VerifierProcess&&) = default;
  VerifierProcess& operator=(VerifierProcess&&) = default;

  std::unique_ptr<Process> process;
  int port = 0;
  int metrics_port = 0;
  int http_port = 0;  // with --http
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
};

// Waits for the verifier's requests to end, then fails the test if pages leaked.
void ExpectNoPageLeaked(int metrics_port);

// Fails the test (ADD_FAILURE) and returns port 0 if the service does not start.
VerifierProcess StartVerifier(const std::string& model, const std::string& log_path,
                              const std::vector<std::string>& flags = {},
                              const std::string& listen = "127.0.0.1:0");

std::unique_ptr<Process> StartDrafter(const std::string& model, const std::string& verifier,
                                      const std::string& log_path,
                                      const std::vector<std::string>& flags = {});

// A request for `max_tokens` tokens after `text`, which no end-of-sequence token ends.
v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);
// The same for the beginning of a story, as the default pair was trained on.
v1::GenerateRequest StoryRequest(uint32_t max_tokens);

// Makes a unary call of any method ("/package.Service/Method"), with the request given as bytes.
grpc::Status CallByBytes(const std::string& address, const std::string& method,
                         const std::string& request,
                         const std::map<std::string, std::string>& metadata = {});

class TestClient {
 public:
  // `token` is sent with every call of this class; "": none.
  explicit TestClient(const std::string& address, const ChannelOptions& options = {},
                      std::string token = "");

  struct Outcome {
    grpc::Status status;
    std::string text;
    std::vector<uint32_t> tokens;
    std::vector<uint32_t> accepted_per_chunk;
    std::vector<uint32_t> drafted_per_chunk;
    v1::Finished finished;
  };
  Outcome Generate(const v1::GenerateRequest& request);
  v1::GetStatusResponse Status();
  // Waits until `count` drafters are attached; returns false if they never are.
  bool AwaitDrafters(int count);

  v1::Generation::Stub& stub() { return *stub_; }

 private:
  void AddToken(grpc::ClientContext& context) const;

  const std::string token_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

}  // namespace outrider::testing
