#include "tests/support/paced_loader.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/model/config.h"
#include "common/text/tokenizer.h"
#include "simulate/fleet/paced_model.h"

namespace outrider::testing {
namespace {

constexpr int kPageTokens = 16;

Result<std::vector<double>> ReadPace() {
  const char* const text = std::getenv("OUTRIDER_PACED");
  std::vector<double> numbers;
  std::istringstream in(text == nullptr ? "" : text);
  for (std::string field; std::getline(in, field, ',');) {
    char* end = nullptr;
    numbers.push_back(std::strtod(field.c_str(), &end));
    if (end == field.c_str() || *end != '\0') numbers.clear();
  }
  if (numbers.size() == 2 || numbers.size() == 3) return numbers;
  return InvalidArgument("OUTRIDER_PACED must be MS,MS_PER_ROW[,ACCEPTANCE]");
}

}  // namespace

ModelLoader PacedLoader() {
  return [](const ServiceOptions& options, int max_batch_tokens,
            const std::stop_token& /*stop*/) -> Result<std::unique_ptr<Model>> {
    OUTRIDER_ASSIGN(const std::vector<double> pace, ReadPace());
    OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(options.model));
    PacedModelOptions paced{.name = config.name,
                            .vocab_size = config.vocab_size,
                            .cost = {.first_row = pace[0] / 1e3, .further_row = pace[1] / 1e3},
                            .page_tokens = kPageTokens,
                            .max_batch_tokens = max_batch_tokens};
    if (options.kv_tokens > 0) paced.total_pages = options.kv_tokens / kPageTokens;
    if (pace.size() == 3) paced.acceptance = {pace[2]};
    return std::unique_ptr<Model>(
        std::make_unique<PacedModel>(std::move(paced), [](double seconds) {
          std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        }));
  };
}

}  // namespace outrider::testing
