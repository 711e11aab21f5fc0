// outrider train-head: makes the acceptance head of a pair of models. Both run in this process,
// with the transforms that serving uses; no service is needed.
//
// Thread: main.
#pragma once

#include <cstdint>
#include <string>

#include "client/console.h"
#include "client/train/head_data.h"
#include "client/train/head_trainer.h"
#include "common/base/status.h"

namespace outrider {

struct TrainHeadOptions {
  std::string target;   // directory
  std::string drafter;  // directory
  std::string prompts;  // file of JSON lines, as for bench
  std::string out;      // file; "": beside the drafter
  int repetitions = 1;  // texts of a prompt
  int threads = 1;
  HeadDataOptions data;
  HeadTraining training;
  bool json = false;
};

// Every tenth prompt is kept from training and measured. The state is saved to OUT.state behind the
// collection and behind each epoch, and a run that is started again goes on from there; it is
// removed at the end.
Status RunTrainHead(const TrainHeadOptions& options, const Console& console);

}  // namespace outrider
