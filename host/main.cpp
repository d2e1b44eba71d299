#include <iostream>

#include "core/program.h"

int main(int argc, char** argv) {
  return cleave::run_program(argc, argv, std::cout, std::cerr);
}
