// The command with a metric of one's own.
#include <brim/command/cli.h>
#include <brim/train/metric.h>

class Batches final : public brim::train::Metric {
 public:
  void add(const brim::Tensor&, const brim::data::Batch&) override { ++count_; }
  double value() const override { return count_; }

 private:
  double count_ = 0;
};

int main(int argc, char** argv) {
  brim::train::register_metric("batches", {.make = [](const brim::train::MetricOptions&) {
                                 return std::make_unique<Batches>();
                               }});
  return brim::cli(argc, argv);
}
