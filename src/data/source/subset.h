// Some of a source's pictures, in an order of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <brim/data/source.h>

namespace brim::data {

class SourceSubset final : public Source {
 public:
  /// `samples`: at least one, each below from->size().
  SourceSubset(std::shared_ptr<const Source> from, std::vector<int64_t> samples)
      : from_(std::move(from)), samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<std::string>& classes() const override { return from_->classes(); }
  int64_t label(int64_t i) const override { return from_->label(at(i)); }
  ImageShape image_shape() const override { return from_->image_shape(); }
  void read(int64_t i, Image& out) const override { from_->read(at(i), out); }
  ImageView view(int64_t i) const override { return from_->view(at(i)); }
  std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>& buffer) const override {
    return from_->file(at(i), buffer);
  }
  void prefetch(int64_t i) const noexcept override { from_->prefetch(at(i)); }
  void check() const override { from_->check(); }
  bool in_memory() const override { return from_->in_memory(); }
  std::string describe(int64_t i) const override { return from_->describe(at(i)); }

 private:
  int64_t at(int64_t i) const { return samples_[static_cast<size_t>(i)]; }
  std::shared_ptr<const Source> from_;
  std::vector<int64_t> samples_;
};

}  // namespace brim::data
