// See ../diffusion_label.cu.
#pragma once

#include "diffusion.cuh"

struct LabelFilling {
    const u32 *done;
    const DiffusionHeader *head;
    const u8 *flags, *open;
    const float *colours;
    float *x;
    double *sums; // 4 a part
    u32 pixels, channels, keep, pad; // keep: where there is an equation x stays
};

KERNEL(diffusion_label_init, DiffusionHeader *head, const u8 *flags, int *labels, u64 *fault, int width, int height,
       u32 allowed, u32 pad);
KERNEL(diffusion_label_join, const u8 *flags, int *labels, int width, int height);
KERNEL(diffusion_label_shut, const u8 *flags, int *labels, int width, int height);
KERNEL(diffusion_label_open, DiffusionHeader *head, const u8 *flags, int *labels, u8 *to, int width, int height,
       u32 one_way, u32 pad);
KERNEL(diffusion_label_mean, LabelFilling f);
KERNEL(diffusion_label_fill, LabelFilling f);
