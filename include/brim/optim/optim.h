// All of optim.
#pragma once

#include <brim/optim/adam.h>
#include <brim/optim/clip.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optimizer.h>
#include <brim/optim/rmsprop.h>
#include <brim/optim/schedule.h>
#include <brim/optim/sgd.h>
