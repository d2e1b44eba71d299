// Each call that uses a parameter is an autograd function whose backward returns the activation's
// gradient and adds the weight's to Parameter::gradient (weight_gradient.h). n = B T rows.
#include "core/torch_ops.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cleave/weight_gradient.h"
#include "core/attention_function.h"
#include "core/cross_entropy.h"
#include "core/fused_math.h"

namespace cleave {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Autograd contexts hold IValues only; parameters outlive every tape.
int64_t pack(const void* pointer) {
  return reinterpret_cast<int64_t>(pointer);
}
Parameter& parameter(AutogradContext* context, const char* key) {
  return *reinterpret_cast<Parameter*>(context->saved_data[key].toInt());
}

at::Tensor rows(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

struct EmbeddingFunction : Function<EmbeddingFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const at::Tensor& tokens,
                            Parameter* weight) {
    context->saved_data["weight"] = pack(weight);
    context->save_for_backward({tokens});
    return at::embedding(weight->value, tokens);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const at::Tensor tokens = context->get_saved_variables()[0];
    add_rows(parameter(context, "weight"), tokens.flatten(), rows(dy[0]));
    return {at::zeros({0}, dy[0].options()), at::Tensor(), at::Tensor()};
  }
};

struct RmsNormFunction : Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Parameter* weight,
                            double eps) {
    const auto [y, scale] = rms_norm_forward(rows(x), weight->value, eps);
    context->saved_data["weight"] = pack(weight);
    context->save_for_backward({x, scale});
    return y.view(x.sizes());
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    Parameter& weight = parameter(context, "weight");
    const auto [dx, dweight] =
        rms_norm_backward(rows(dy[0]), rows(saved[0]), weight.value, saved[1]);
    add(weight, dweight);
    end_use(weight);
    return {dx.view(saved[0].sizes()), at::Tensor(), at::Tensor()};
  }
};

void begin_uses(const Projection& projection) {
  begin_use(*projection.weight);
  if (projection.bias) begin_use(*projection.bias);
}

void end_uses(const Projection& projection) {
  end_use(*projection.weight);
  if (projection.bias) end_use(*projection.bias);
}

struct LinearFunction : Function<LinearFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const std::vector<Projection>* projections,
                               const MakeAgain& make_x_again) {
    context->saved_data["projections"] = pack(projections);
    keep_input(*context, x, make_x_again);
    const at::Tensor x2 = rows(x);
    auto shape = x.sizes().vec();
    variable_list outputs;
    for (const Projection& projection : *projections) {
      const at::Tensor w = projection.weight->value;
      const at::Tensor y =
          projection.bias ? at::addmm(projection.bias->value, x2, w.t()) : at::mm(x2, w.t());
      shape.back() = w.size(0);
      outputs.push_back(y.view(shape));
    }
    return outputs;
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto& projections = *reinterpret_cast<const std::vector<Projection>*>(
        context->saved_data["projections"].toInt());
    const at::Tensor x = take_input(*context);
    const at::Tensor x2 = rows(x);
    at::Tensor dx;  // (n, in)
    for (size_t i = 0; i < projections.size(); ++i) {
      const Projection& projection = projections[i];
      if (dy[i].defined()) {
        const at::Tensor dy2 = rows(dy[i]);
        if (dx.defined())
          dx.addmm_(dy2, projection.weight->value);
        else
          dx = at::mm(dy2, projection.weight->value);
        add_product(*projection.weight, dy2, x2);
        if (projection.bias) add(*projection.bias, dy2.sum(0, false, at::kFloat));
      }
      end_uses(projection);
    }
    return {dx.defined() ? dx.view(x.sizes()) : at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct SwigluFunction : Function<SwigluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return swiglu_forward(gate, up);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    const auto [dgate, dup] = swiglu_backward(dy[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

struct CrossEntropyFunction : Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* weight,
                            const at::Tensor& targets, const LossSink& sink) {
    context->saved_data["weight"] = pack(weight);
    context->saved_data["ignore_token"] = sink.ignore_token;
    context->saved_data["sum"] = sink.sum;  // changes between micro-batches: not a saved variable
    context->saved_data["gradient_scale"] = sink.gradient_scale;
    context->save_for_backward({hidden, targets});
    return at::zeros({}, hidden.options());
  }
  static variable_list backward(AutogradContext* context, variable_list) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const LossSink sink{data["sum"].toTensor(), data["gradient_scale"].toTensor(),
                        data["ignore_token"].toInt()};
    const at::Tensor dhidden = cross_entropy_backward(rows(saved[0]), parameter(context, "weight"),
                                                      saved[1].flatten(), sink);
    return {dhidden.view(saved[0].sizes()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor TorchOps::embedding(const at::Tensor& tokens, Parameter& weight,
                               const at::Tensor& path) {
  return EmbeddingFunction::apply(path, tokens, &weight);
}

at::Tensor TorchOps::rms_norm(const at::Tensor& x, Parameter& weight, double eps) {
  if (c10::GradMode::is_enabled()) begin_use(weight);
  const at::Tensor y = RmsNormFunction::apply(x, &weight, eps);
  // the weight's value may be freed and gathered again in between: read when it is used
  if (recompute_.norm)
    offered_.offer(y, [x, &weight, eps] {
      return rms_norm_forward(rows(x), weight.value, eps).first.view(x.sizes());
    });
  return y;
}

std::vector<at::Tensor> TorchOps::linear(const at::Tensor& x,
                                         const std::vector<Projection>& projections) {
  if (c10::GradMode::is_enabled())
    for (const Projection& projection : projections) begin_uses(projection);
  return LinearFunction::apply(x, &projections, offered_.take(x));
}

at::Tensor TorchOps::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const RotaryTable& rotary) {
  const auto [y, make_again] = cleave::attention(q, k, v, rotary, recompute_.attention);
  if (make_again) offered_.offer(y, make_again);
  return y;
}

at::Tensor TorchOps::swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor y = SwigluFunction::apply(gate, up);
  if (recompute_.mlp) offered_.offer(y, [gate, up] { return swiglu_forward(gate, up); });
  return y;
}

at::Tensor TorchOps::cross_entropy(const at::Tensor& hidden, Parameter& weight,
                                   const at::Tensor& targets, const LossSink& sink) {
  if (at::GradMode::is_enabled())
    return CrossEntropyFunction::apply(hidden, &weight, targets, sink);
  cross_entropy_forward(rows(hidden), weight, targets.flatten(), sink);
  return at::zeros({}, hidden.options());
}

}  // namespace cleave
