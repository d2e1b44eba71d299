// LibTorch's scalar types as the communicator table spells them.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "cleave/communicator.h"

namespace cleave {

/// Nothing for a type that the table does not know.
constexpr std::optional<cleave_dtype> map_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return CLEAVE_FLOAT32;
    case at::kDouble:
      return CLEAVE_FLOAT64;
    case at::kBFloat16:
      return CLEAVE_BFLOAT16;
    case at::kHalf:
      return CLEAVE_FLOAT16;
    case at::kInt:
      return CLEAVE_INT32;
    case at::kLong:
      return CLEAVE_INT64;
    case at::kByte:
      return CLEAVE_UINT8;
    default:
      return std::nullopt;
  }
}

}  // namespace cleave
