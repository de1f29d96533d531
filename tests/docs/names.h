// What the tables of names take for granted. They are only parsed.
#pragma once

#include <iostream>

#include <brim/core/print.h>

#include "docs/context.h"

namespace examples {

extern const Tensor y, w, b, m, v, q, k, mask, index, target, loss;
extern Tensor z;
extern std::vector<float> values;
extern const Stream stream;
extern Event event;
extern StateDict state;
extern std::function<std::vector<Tensor>(const std::vector<Tensor>&)> function;
extern optim::GradScaler scaler;
extern data::DatasetPtr dataset;
extern data::ImageView image;
extern std::shared_ptr<const data::Sampler> sampler;
extern dist::GroupPtr group;

}  // namespace examples
