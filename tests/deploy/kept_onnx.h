// Where tests of ONNX write: with BRIM_ONNX_ZOO=FOLDER the files stay there, with inputs and
// outputs of brim's beside them, for tests/deploy/check_onnx.py.
#pragma once

#include <cstdlib>
#include <string>

#include <brim/autograd/autograd.h>
#include <brim/deploy/onnx.h>
#include <brim/io/safetensors.h>

#include "temporary_folder.h"

namespace brim::tests {

class KeptOnnx {
 public:
  KeptOnnx() {
    if (const char* kept = std::getenv("BRIM_ONNX_ZOO")) kept_ = kept;
  }
  bool is_kept() const { return !kept_.empty(); }
  /// Of a file without its extension.
  std::string operator/(const std::string& name) const {
    return (is_kept() ? kept_ : scratch_.path()) + "/" + name;
  }

  /// Keeps what the network makes of random inputs of 1 and 3 samples: `input(batch)`. `before` is
  /// called before each batch with the tensors and what stands before their names.
  template <class Forward, class Input, class Before>
  void keep(const std::string& name, const Forward& forward, const Input& input,
            const std::vector<std::string>& outputs, const Before& before) const {
    if (!is_kept()) return;
    const NoGrad scope;
    io::TensorMap tensors;
    for (const int64_t batch : {1, 3}) {
      const std::string prefix = std::to_string(batch) + ":";
      const Tensor x = input(batch);
      before(tensors, prefix);
      const std::vector<Tensor> made = forward(x);
      tensors[prefix + "input"] = x;
      for (size_t i = 0; i < outputs.size(); ++i)
        tensors[prefix + outputs[i]] = made.at(i).contiguous();
    }
    io::save_safetensors(*this / name + ".safetensors", tensors);
  }

 private:
  const TemporaryFolder scratch_;
  std::string kept_;
};

}  // namespace brim::tests
