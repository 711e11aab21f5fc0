#include "common/spec/coins.h"

#include "common/math/philox.h"

namespace outrider {

double Coin(uint64_t seed, uint32_t round, uint32_t row, Purpose purpose, uint32_t trial) {
  return UnitInterval(Philox({{round, row, static_cast<uint32_t>(purpose), trial}},
                             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)));
}

}  // namespace outrider
