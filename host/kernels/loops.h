// The loops, included by one .cpp per instruction set inside its own namespace.
//
// -fopenmp-simd lets the compiler reorder the marked sums; it does so the same way in every run.

inline float exp_float(float x) {
  // x = n ln2 + r, exp(r) by a polynomial (Cephes, 1 ulp on |r| <= ln2 / 2), 2^n through the
  // exponent
  x = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = x * 1.44269504089f + 12582912.0f;  // rounds to an integer in the low bits
  const uint32_t n = std::bit_cast<uint32_t>(shifted) - 0x4B400000u;  // unsigned: NaN may come by
  const float whole = shifted - 12582912.0f;
  float r = x - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((n + 127u) << 23);
}

inline float sigmoid(float x) {
  return 1.0f / (1.0f + exp_float(-x));
}

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t n, float* y,
              float* scale) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    const float s = 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
    scale[row] = s;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * s * weight[i];
  }
}

void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* scale,
                       int64_t rows, int64_t n, float* dx, float* weight_gradient) {
  for (int64_t row = 0; row < rows; ++row, x += n, dy += n, dx += n) {
    const float s = scale[row];
    float along = 0;  // the component of the gradient that the norm removes
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < n; ++i) along += dy[i] * weight[i] * x[i];
    const float c = along * s * s / static_cast<float>(n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      weight_gradient[i] += dy[i] * x[i] * s;
      dx[i] = s * (dy[i] * weight[i] - x[i] * c);
    }
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void swiglu_backward(const float* dy, const float* gate, const float* up, int64_t n, float* dgate,
                     float* dup) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float s = sigmoid(gate[i]);
    const float silu = gate[i] * s;
    dup[i] = dy[i] * silu;
    dgate[i] = dy[i] * up[i] * (s + silu * (1.0f - s));
  }
}

void rotate(const float* x, const HeadLayout& layout, const float* cos, const float* sin,
            float sign, int64_t begin, int64_t end, float* y) {
  const int64_t half = layout.half;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t token = row % layout.tokens;
    const float* c = cos + token * half;
    const float* s = sin + token * half;
    const float* in = x + row / layout.tokens * layout.batch_stride + token * layout.token_stride;
    float* out = y + row * layout.heads * 2 * half;
    for (int64_t head = 0; head < layout.heads; ++head, in += layout.head_stride, out += 2 * half) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        out[i] = in[i] * c[i] - sign * in[half + i] * s[i];
        out[half + i] = in[half + i] * c[i] + sign * in[i] * s[i];
      }
    }
  }
}

double cross_entropy(float* logits, const int64_t* targets, int64_t ignore, float scale,
                     int64_t rows, int64_t n) {
  double total = 0;
  for (int64_t row = 0; row < rows; ++row, logits += n) {
    if (targets[row] == ignore) {
      std::fill(logits, logits + n, 0.0f);
      continue;
    }
    float largest = logits[0];
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; ++i) largest = logits[i] > largest ? logits[i] : largest;
    const float target_logit = logits[targets[row]];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      logits[i] = exp_float(logits[i] - largest);
      sum += logits[i];
    }
    total += std::log(static_cast<double>(sum)) + largest - target_logit;
    const float factor = scale / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) logits[i] *= factor;
    logits[targets[row]] -= scale;
  }
  return total;
}

void causal_softmax(float* scores, int64_t stride, int64_t first, int64_t rows, int64_t n,
                    float* log_sums) {
  for (int64_t row = 0; row < rows; ++row, scores += stride) {
    const int64_t valid = first + row + 1;
    float largest = scores[0];
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < valid; ++i) largest = scores[i] > largest ? scores[i] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < valid; ++i) {
      scores[i] = exp_float(scores[i] - largest);
      sum += scores[i];
    }
    log_sums[row] = largest + std::log(sum);
    const float factor = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) scores[i] *= factor;
    std::fill(scores + valid, scores + n, 0.0f);
  }
}

void causal_softmax_again(float* scores, int64_t stride, int64_t first, int64_t rows, int64_t n,
                          const float* log_sums) {
  for (int64_t row = 0; row < rows; ++row, scores += stride) {
    const int64_t valid = first + row + 1;
    const float log_sum = log_sums[row];
#pragma omp simd
    for (int64_t i = 0; i < valid; ++i) scores[i] = exp_float(scores[i] - log_sum);
    std::fill(scores + valid, scores + n, 0.0f);
  }
}

void softmax_backward(const float* probabilities, float* dprobabilities, int64_t stride,
                      int64_t rows, int64_t n, const float* along, float scale) {
  for (int64_t row = 0; row < rows; ++row, probabilities += stride, dprobabilities += stride) {
    const float a = along[row];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      dprobabilities[i] = probabilities[i] * (dprobabilities[i] - a) * scale;
  }
}

double square_sum(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}
