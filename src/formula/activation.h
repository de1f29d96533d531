// Activation functions with their gradients: dx from dy and either the input x or the output y.
#pragma once

#include <brim/formula/math.h>

namespace brim::formula {

struct Relu {
  static constexpr const char* kName = "relu";
  explicit Relu(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }  // NaN stays NaN
};
struct ReluGrad {
  static constexpr const char* kName = "relu_grad";
  explicit ReluGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T y) const {
    return y <= T(0) ? T(0) : dy;
  }  // at NaN dy, as in PyTorch
};

struct LeakyRelu {  // a: slope below 0
  static constexpr const char* kName = "leaky_relu";
  Params p;
  explicit LeakyRelu(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x > T(0) ? x : static_cast<T>(p.a) * x;
  }
};
struct LeakyReluGrad {
  static constexpr const char* kName = "leaky_relu_grad";
  Params p;
  explicit LeakyReluGrad(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    return x > T(0) ? dy : static_cast<T>(p.a) * dy;
  }
};

struct Elu {  // a: the limit below is -a
  static constexpr const char* kName = "elu";
  Params p;
  explicit Elu(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const T below = static_cast<T>(p.a) * expm1(x);
    return x > T(0) ? x : below;
  }
};
struct EluGrad {
  static constexpr const char* kName = "elu_grad";
  Params p;
  explicit EluGrad(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    const T below = dy * static_cast<T>(p.a) * exp(x);
    return x <= T(0) ? below : dy;
  }  // at NaN dy, like relu's
};

struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  explicit Sigmoid(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return sigmoid(x);
  }
};
struct SigmoidGrad {
  static constexpr const char* kName = "sigmoid_grad";
  explicit SigmoidGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T y) const {
    return dy * y * (T(1) - y);
  }
};

struct TanhGrad {
  static constexpr const char* kName = "tanh_grad";
  explicit TanhGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T y) const {
    return dy * (T(1) - y * y);
  }
};

inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kSqrt2OverPi = 0.79788456080286535588;
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kGeluCubic = 0.044715;

struct Gelu {  // x Phi(x), Hendrycks and Gimpel 2016
  static constexpr const char* kName = "gelu";
  explicit Gelu(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return T(0.5) * x * (T(1) + erf(x * T(kSqrtHalf)));
  }
};
struct GeluGrad {
  static constexpr const char* kName = "gelu_grad";
  explicit GeluGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    const T cdf = T(0.5) * (T(1) + erf(x * T(kSqrtHalf)));
    return dy * (cdf + x * T(kInvSqrt2Pi) * exp(T(-0.5) * x * x));
  }
};

struct GeluTanh {  // the approximation with tanh
  static constexpr const char* kName = "gelu_tanh";
  explicit GeluTanh(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const T u = T(kSqrt2OverPi) * (x + T(kGeluCubic) * x * x * x);
    return T(0.5) * x * (T(1) + tanh(u));
  }
};
struct GeluTanhGrad {
  static constexpr const char* kName = "gelu_tanh_grad";
  explicit GeluTanhGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    const T square = x * x;
    const T t = tanh(T(kSqrt2OverPi) * (x + T(kGeluCubic) * square * x));
    const T du = T(kSqrt2OverPi) * (T(1) + T(3 * kGeluCubic) * square);
    return dy * T(0.5) * ((T(1) + t) + x * (T(1) - t * t) * du);
  }
};

struct Silu {
  static constexpr const char* kName = "silu";
  explicit Silu(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x * sigmoid(x);
  }
};
struct SiluGrad {
  static constexpr const char* kName = "silu_grad";
  explicit SiluGrad(Params) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    const T s = sigmoid(x);
    return dy * s * (T(1) + x * (T(1) - s));
  }
};

struct Softplus {  // log(1 + exp(a x)) / a; x itself where a x > b
  static constexpr const char* kName = "softplus";
  Params p;
  explicit Softplus(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    const T u = static_cast<T>(p.a) * x;
    const T e = exp(u > static_cast<T>(p.b) ? -std::numeric_limits<T>::infinity() : -std::fabs(u));
    const bool linear = (u > T(0)) | (u > static_cast<T>(p.b));
    return (linear ? x : T(0)) + log1p_on_unit_interval(e) / static_cast<T>(p.a);
  }
};
struct SoftplusGrad {
  static constexpr const char* kName = "softplus_grad";
  Params p;
  explicit SoftplusGrad(Params p) : p(p) {}
  template <class T>
  BRIM_FORMULA T operator()(T dy, T x) const {
    const T u = static_cast<T>(p.a) * x;
    const T dx = dy * sigmoid(u);
    return u > static_cast<T>(p.b) ? dy : dx;
  }
};

}  // namespace brim::formula
