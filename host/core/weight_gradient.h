#pragma once

#include "cleave/weight_gradient.h"
