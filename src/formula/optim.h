// Update rules of optimizers for one number: p is the parameter, g its gradient, s the optimizer's
// state. Written as PyTorch documents them; switches are turned into factors of 0 and 1, so that
// loops over them vectorise.
#pragma once

#include <cmath>

#include <brim/formula/formula.h>

namespace brim::formula {

/// What the rules of one step are made with. Each rule reads its own.
struct StepParams {
  double lr = 0;
  double weight_decay = 0;  // added to the gradient
  double shrink = 1;        // decoupled weight decay: the parameter is multiplied by it first
  double momentum = 0;      // also Adam's beta1 and the decay of RMSprop's buffer
  double keep = 1;          // the gradient's share in the momentum: 1 - dampening, or 1 at first
  double nesterov = 0;      // 1 or 0
  double decay = 0;         // of squared gradients: Adam's beta2, RMSprop's alpha
  double eps = 0;
  double correction1 = 1;  // 1 - beta1^step
  double correction2 = 1;  // 1 - beta2^step
  double step = 0;         // 1, 2, ...; only where steps may be skipped

  /// The same where so many of the steps before were skipped and do not count.
  BRIM_FORMULA StepParams without(double skipped) const {
    StepParams k = *this;
    if (skipped == 0) return k;
    k.step -= skipped;
    if (k.step == 1) k.keep = 1;
    k.correction1 = 1 - std::pow(momentum, k.step);
    k.correction2 = 1 - std::pow(decay, k.step);
    return k;
  }
  friend bool operator==(const StepParams& x, const StepParams& y) { return same_bits(x, y); }
};

struct Sgd {
  static constexpr const char* kName = "sgd";
  static constexpr int kStates = 0;
  StepParams k;
  template <class T>
  BRIM_FORMULA void operator()(T& p, T g, T*) const {
    p -= static_cast<T>(k.lr) * (g + static_cast<T>(k.weight_decay) * p);
  }
};

/// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML
/// 2013, in the form v = momentum v + g, p -= lr v. s[0]: v, zero at first.
struct SgdMomentum {
  static constexpr const char* kName = "sgd_momentum";
  static constexpr int kStates = 1;
  StepParams k;
  template <class T>
  BRIM_FORMULA void operator()(T& p, T g, T* s) const {
    g += static_cast<T>(k.weight_decay) * p;
    s[0] = static_cast<T>(k.momentum) * s[0] + static_cast<T>(k.keep) * g;
    p -= static_cast<T>(k.lr) * (static_cast<T>(k.nesterov) * g +
                                 static_cast<T>(1 + k.nesterov * (k.momentum - 1)) * s[0]);
  }
};

/// Kingma and Ba, "Adam", ICLR 2015; with decoupled weight decay Loshchilov and Hutter, ICLR 2019.
/// s[0]: mean of gradients, s[1]: mean of their squares.
struct Adam {
  static constexpr const char* kName = "adam";
  static constexpr int kStates = 2;
  StepParams k;
  template <class T>
  BRIM_FORMULA void operator()(T& p, T g, T* s) const {
    moments(p, g, s);
    descend(p, s[0], s[1]);
  }
  template <class T>
  BRIM_FORMULA void moments(T& p, T g, T* s) const {
    p *= static_cast<T>(k.shrink);
    g += static_cast<T>(k.weight_decay) * p;
    s[0] += static_cast<T>(1 - k.momentum) * (g - s[0]);
    s[1] = static_cast<T>(k.decay) * s[1] + static_cast<T>(1 - k.decay) * g * g;
  }
  template <class T>
  BRIM_FORMULA void descend(T& p, T mean, T square) const {
    const T root = std::sqrt(square) * static_cast<T>(1 / std::sqrt(k.correction2));
    p -= static_cast<T>(k.lr / k.correction1) * mean / (root + static_cast<T>(k.eps));
  }
};

/// Reddi et al., "On the convergence of Adam and beyond", ICLR 2018. s[2]: largest mean square.
struct AdamAmsgrad : Adam {
  static constexpr const char* kName = "adam_amsgrad";
  static constexpr int kStates = 3;
  template <class T>
  BRIM_FORMULA void operator()(T& p, T g, T* s) const {
    moments(p, g, s);
    s[2] = s[2] > s[1] ? s[2] : s[1];
    descend(p, s[0], s[2]);
  }
};

/// Hinton, "Neural networks for machine learning", lecture 6e; centered: Graves, arXiv 1308.0850.
/// s: mean of squares, then (momentum) the buffer, then (centered) the mean of gradients.
template <bool kMomentum, bool kCentered>
struct RmsProp {
  static constexpr const char* kName =
      kMomentum ? (kCentered ? "rmsprop_momentum_centered" : "rmsprop_momentum")
                : (kCentered ? "rmsprop_centered" : "rmsprop");
  static constexpr int kStates = 1 + kMomentum + kCentered;
  StepParams k;
  template <class T>
  BRIM_FORMULA void operator()(T& p, T g, T* s) const {
    g += static_cast<T>(k.weight_decay) * p;
    s[0] = static_cast<T>(k.decay) * s[0] + static_cast<T>(1 - k.decay) * g * g;
    T variance = s[0];
    if constexpr (kCentered) {
      T& mean = s[1 + kMomentum];
      mean += static_cast<T>(1 - k.decay) * (g - mean);
      variance -= mean * mean;
    }
    const T step = g / (std::sqrt(variance) + static_cast<T>(k.eps));
    if constexpr (kMomentum) {
      s[1] = static_cast<T>(k.momentum) * s[1] + step;
      p -= static_cast<T>(k.lr) * s[1];
    } else {
      p -= static_cast<T>(k.lr) * step;
    }
  }
};

using OptimFormulas = List<Sgd, SgdMomentum, Adam, AdamAmsgrad, RmsProp<false, false>,
                           RmsProp<true, false>, RmsProp<false, true>, RmsProp<true, true>>;

}  // namespace brim::formula
