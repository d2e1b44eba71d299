// Precompiled: the headers that every torch-using file of the host needs.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>
