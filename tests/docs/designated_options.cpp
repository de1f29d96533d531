// The public options as designated initialisers, one of each: compiled with -Wextra -Werror, as
// users do. A field without an initialiser of its own would be reported as missing wherever options
// name only what differs.
#include <brim/brim.h>
#include <brim/data/convert.h>
#include <brim/data/get.h>
#include <brim/deploy/engine.h>
#include <brim/diag/monitor.h>
#include <brim/extend.h>

namespace options {

using namespace brim;

template <class T>
void use(const T&) {}

void all() {
  use(AttentionOptions{.mask = {}});
  use(AvgPool2dOptions{.stride = {}});
  use(BackwardOptions{.retain_graph = {}});
  use(BatchNormOptions{.training = {}});
  use(BceOptions{.weight = {}});
  use(CompileOptions{.passes = {}});
  use(Conv1dOptions{.stride = {}});
  use(Conv2dOptions{.stride = {}});
  use(ConvTranspose2dOptions{.stride = {}});
  use(CopyOptions{.non_blocking = {}});
  use(CrossEntropyOptions{.weight = {}});
  use(EventOptions{.timed = {}});
  use(Im2colOptions{.stride = {}});
  use(InterpolateOptions{.size = {}});
  use(MaxPool2dOptions{.stride = {}});
  use(NllLossOptions{.weight = {}});
  use(SimOptions{.devices = {}});
  use(RangeOptions{.dtype = {}});
  use(TensorOptions{.dtype = {}});
  use(autograd::GradcheckOptions{.eps = {}});
  use(compress::ChannelMeterOptions{.inputs = {}});
  use(compress::ChannelOptions{.sparsity = {}});
  use(compress::Channels{.inputs = {}});
  use(compress::FormOptions{.inputs = {}});
  use(compress::Limits{.seconds = {}});
  use(compress::PruneOptions{.pattern = {}});
  use(compress::QuantizeOptions{.calibration = {}});
  use(data::Buckets{.growth = {}});
  use(data::CenterCrop{.height = {}});
  use(data::ConvertOptions{.side = {}});
  use(data::CsvOptions{.columns = {}});
  use(data::DeviceLoaderOptions{.augment_on = {}});
  use(data::GetOptions{.mirror = {}});
  use(data::HorizontalFlip{.p = {}});
  use(data::LoaderOptions{.batch = {}});
  use(data::NamedTensor{.name = {}});
  use(data::Normalize{.mean = {}});
  use(data::PadOptions{.value = {}});
  use(data::PictureOptions{.transform = {}});
  use(data::RandomCrop{.height = {}});
  use(data::RandomResizedCrop{.height = {}});
  use(data::Resize{.height = {}});
  use(data::SampleField{.name = {}});
  use(data::TokenOptions{.window = {}});
  use(data::Transform{.steps = {}});
  use(data::VerifyOptions{.workers = {}});
  use(deploy::EngineOptions{.batches = {}});
  use(deploy::EnginePictures{.height = {}});
  use(deploy::OnnxOptions{.batch = {}});
  use(deploy::RuntimeOptions{.target = {}});
  use(diag::MonitorOptions{.period = {}});
  use(diag::TraceProcess{.number = {}});
  use(dist::GroupOptions{.timeout = {}});
  use(dist::Links{.ranks_per_host = {}});
  use(dist::TcpOptions{.rank = {}});
  use(extend::KernelTraits{.operands = {}});
  use(nn::AdaptiveAvgPool2d::Options{.output = {}});
  use(nn::AvgPool2d::Options{.kernel = {}});
  use(nn::BatchNorm2d::Options{.features = {}});
  use(nn::CifarResNet::Options{.depth = {}});
  use(nn::Conv1d::Options{.in = {}});
  use(nn::Conv2d::Options{.in = {}});
  use(nn::ConvTranspose2d::Options{.in = {}});
  use(nn::Dropout::Options{.p = {}});
  use(nn::ELU::Options{.alpha = {}});
  use(nn::Embedding::Options{.num = {}});
  use(nn::Flatten::Options{.start = {}});
  use(nn::GELU::Options{.form = {}});
  use(nn::GroupNorm::Options{.groups = {}});
  use(nn::InvertedResidual::Options{.in = {}});
  use(nn::LSTM::State{.h = {}});
  use(nn::LayerNorm::Options{.shape = {}});
  use(nn::LeakyReLU::Options{.slope = {}});
  use(nn::Linear::Options{.in = {}});
  use(nn::LoadOptions{.strict = {}});
  use(nn::MSELoss::Options{.reduction = {}});
  use(nn::MaxPool2d::Options{.kernel = {}});
  use(nn::Mlp::Options{.features = {}});
  use(nn::MobileNetV2::Options{.classes = {}});
  use(nn::ModelOptions{.classes = {}});
  use(nn::MultiheadAttention::Options{.dim = {}});
  use(nn::PixelShuffle::Options{.factor = {}});
  use(nn::PixelUnshuffle::Options{.factor = {}});
  use(nn::RMSNorm::Options{.shape = {}});
  use(nn::RecurrentOptions{.in = {}});
  use(nn::ResNet::Options{.depth = {}});
  use(nn::ResidualOptions{.in = {}});
  use(nn::Softmax::Options{.axis = {}});
  use(nn::TransformerLanguageModel::Options{.vocabulary = {}});
  use(nn::TransformerLayerOptions{.dim = {}});
  use(nn::UNetOptions{.in = {}});
  use(nn::Unfold::Options{.kernel = {}});
  use(nn::Vgg::Options{.depth = {}});
  use(nn::init::KaimingOptions{.a = {}});
  use(optim::AdamOptions{.lr = {}});
  use(optim::AdamWOptions{.lr = {}});
  use(optim::CosineAnnealingLROptions{.T_max = {}});
  use(optim::ExponentialLROptions{.gamma = {}});
  use(optim::GradScalerOptions{.init_scale = {}});
  use(optim::LinearLROptions{.start_factor = {}});
  use(optim::MultiStepLROptions{.milestones = {}});
  use(optim::OneCycleLROptions{.max_lr = {}});
  use(optim::RMSpropOptions{.lr = {}});
  use(optim::SGDOptions{.lr = {}});
  use(optim::StepLROptions{.step_size = {}});
  use(train::CheckpointOptions{.every_steps = {}});
  use(train::Checkpoint::State{.save = {}});
  use(train::ChannelsRecipe{.inputs = {}});
  use(train::DataRequest{.split = {}});
  use(train::DistillRecipe{.teacher = {}});
  use(train::DoctorOptions{.allow_rounding = {}});
  use(train::ForecastOptions{.batch = {}});
  use(train::HeatGuardOptions{.limit = {}});
  use(train::HeatGuard::Waiting{.stop = {}});
  use(train::InputRecipe{.mean = {}});
  use(train::LoaderPlace{.target = {}});
  use(train::LoopSetting{.workers = {}});
  use(train::MetricKind{.make = {}});
  use(train::MetricOptions{.outputs = {}});
  use(train::OptimizerRecipe{.name = {}});
  use(train::PruneRecipe{.pattern = {}});
  use(train::Recipe{.name = {}});
  use(train::ScheduleRecipe{.name = {}});
  use(train::SpeedRecipe{.workers = {}});
  use(train::TaskData{.samples = {}});
  use(train::TrainOptions{.devices = {}});
  use(train::TrainSetting{.recipe = {}});
  use(train::ValidationRecipe{.fraction = {}});
  use(train::WeightsInfo{.recipe = {}});
}

}  // namespace options
