// outrider-simulate: the verification rules and the controller on toy models.
#include <iostream>

#include "simulate/command_line.h"

int main(int argc, char** argv) {
  return outrider::RunSimulateCommandLine(argc, argv, std::cout, std::cerr);
}
