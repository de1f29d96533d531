// Networks by name, for recipes and the command. Register your own to use it there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/shape.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>

namespace brim::nn {

/// What make_model() is told.
struct ModelOptions {
  int64_t classes = 10;              ///< or whatever else it puts out: labels, numbers, tokens
  Shape input = {};                  ///< of one x, where the network must know; of rank 0: not said
  DType dtype = DType::f32;          ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// The network of PyTorch's CIFAR-10 tutorial. x: (N, 3, 32, 32) -> logits (N, classes). Parameters
/// are called as there: conv1.weight ... fc3.bias.
class TutorialCnn : public Module {
 public:
  using Options = ModelOptions;                ///< of the constructor
  explicit TutorialCnn(Options options = {});  ///< throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  Conv2d &conv1, &conv2;    ///< the convolutions
  Linear &fc1, &fc2, &fc3;  ///< the linear layers
};

/// Makes a network of one name.
using ModelFactory = std::function<std::unique_ptr<Module>(const ModelOptions&)>;

/// A new network: "tutorial-cnn", or one of those in resnet.h, cifar_resnet.h, vgg.h, mobilenet.h,
/// mlp.h, unet.h and language_model.h. Throws ValueError naming the nearest valid name.
std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options = {});
std::vector<std::string> model_names();  ///< that make_model() knows, in alphabetical order
/// Makes `name` known to make_model. Thread-safe. Throws ValueError when it is taken.
bool register_model(const std::string& name, ModelFactory factory);

}  // namespace brim::nn
