// All of nn.
#pragma once

#include <brim/nn/activation.h>
#include <brim/nn/attention.h>
#include <brim/nn/cifar_resnet.h>
#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/dropout.h>
#include <brim/nn/embedding.h>
#include <brim/nn/image.h>
#include <brim/nn/init.h>
#include <brim/nn/language_model.h>
#include <brim/nn/linear.h>
#include <brim/nn/loss.h>
#include <brim/nn/mlp.h>
#include <brim/nn/mobilenet.h>
#include <brim/nn/models.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>
#include <brim/nn/pool.h>
#include <brim/nn/recurrent.h>
#include <brim/nn/resnet.h>
#include <brim/nn/transformer.h>
#include <brim/nn/unet.h>
#include <brim/nn/vgg.h>
