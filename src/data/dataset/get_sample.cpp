#include "data/dataset/get_sample.h"

#include "data/dataset/sample_access.h"

namespace brim::data {

void get_sample(const Dataset& data, int64_t i, Sample& out) {
  const DeviceScope host(Device::cpu());  // whatever scope the caller is in
  SampleAccess::is_from(out, data, i);
  read_named([&] { return data.describe(i); },
             [&] {
               data.get(i, out);
               SampleAccess::check_row(out);
             });
}

}  // namespace brim::data
