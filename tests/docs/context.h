// What the examples of the documents take for granted: names that stand for the reader's own
// things. They are only parsed.
#pragma once

#include <memory>
#include <thread>

#include <brim/brim.h>
#include <brim/extend.h>

namespace examples {

using namespace brim;

extern Device device;
extern nn::Sequential net;
extern optim::SGD optimizer;
extern optim::CosineAnnealingLR schedule;
extern std::shared_ptr<data::Source> source;
extern data::Transform augment;
extern data::Loader loader;
extern Tensor x, sum;
extern int64_t e, epochs;
extern double epoch_loss;
Tensor step(const Tensor& x, const Tensor& y);
void rest(const Tensor& x, const Tensor& y);

}  // namespace examples
