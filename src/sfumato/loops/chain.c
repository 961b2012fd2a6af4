/* A network of linear layers, SELU and norms of rows, forward and backward, and the clipped sums of its gradients.

   _chains.py calls this file compiled: it does, in the same order, what the functions of products.c and rows.c do one by one. */

#include "levels.h"
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINEAR, SELU, NORMALIZE };

typedef struct {
  int64_t kind, from, from_at, in, to, to_at, out; /* buffers, their first columns and how many; from -1: the integer rows */
  const double *weight, *bias;                     /* of a layer [out, in], [out] or none */
  int64_t *weight_sums, *bias_sums;
} Op;

typedef struct { /* integer rows that enter the first layer, dense or by rows and by columns, and their norms */
  const int16_t *rows;
  const int64_t *row_offsets;
  const int32_t *row_places;
  const int16_t *row_numbers;
  const int64_t *column_offsets;
  const int32_t *column_places;
  const int16_t *column_numbers;
  const double *norms;
} Entering;

typedef struct {
  const Op *ops;
  int64_t num_ops;
  const int64_t *widths; /* of buffers; buffer 0 is what enters, as numbers */
  int64_t num_buffers, count;
  const double *input;
  const Entering *entering;
  double *memory; /* of memory_of_chain() numbers */
  int64_t threads;
} Chain;

static double room_of(int64_t columns) { return (double)MOST - sqrt((double)(columns + 1)) / 2 - 1; }
static int64_t padded_to(int64_t columns) { return (columns / 32 + 1) * 32; }

/* Of an op: slopes of SELU or norms of rows; or norms and integers of the rows that enter a layer. */
static int64_t kept_by(const Op *op, int64_t count) {
  if (op->kind == SELU) return count * op->in;
  if (op->kind == NORMALIZE) return count;
  return op->from < 0 ? 0 : count + (count * padded_to(op->in) + 3) / 4;
}

static double *place_of_value(const Chain *chain, int64_t buffer) {
  double *at = chain->memory;
  for (int64_t b = 1; b < buffer; b++) at += 2 * chain->count * chain->widths[b];
  return buffer ? at : (double *)chain->input;
}

static double *place_of_grad(const Chain *chain, int64_t buffer) {
  return place_of_value(chain, buffer) + chain->count * chain->widths[buffer];
}

static double *place_of_kept(const Chain *chain, int64_t number) {
  double *at = place_of_value(chain, chain->num_buffers);
  for (int64_t o = 0; o < number; o++) at += kept_by(chain->ops + o, chain->count);
  return at;
}

/* How many doubles a chain needs. */
int64_t memory_of_chain(const Op *ops, int64_t num_ops, const int64_t *widths, int64_t num_buffers, int64_t count) {
  int64_t total = 1;
  for (int64_t b = 1; b < num_buffers; b++) total += 2 * count * widths[b];
  for (int64_t o = 0; o < num_ops; o++) total += kept_by(ops + o, count);
  return total;
}

static void enter_layer(const Chain *chain, const Op *op, double *kept) {
  const Entering *entering = chain->entering;
  int64_t count = chain->count, to_stride = chain->widths[op->to], padded = padded_to(op->in);
  double room = room_of(op->in), *out = place_of_value(chain, op->to) + op->to_at;
  const double *norms = op->from < 0 ? entering->norms : kept;
  const int16_t *rows = op->from < 0 ? entering->rows : (int16_t *)(kept + count);
  if (op->from < 0 && entering->row_offsets) { /* rows that are none have no address, be they dense */
    products_of_sparse(entering->row_offsets, entering->row_places, entering->row_numbers, norms, count, op->weight, op->out,
                       op->in, room, op->bias, out, to_stride, chain->threads);
    return;
  }
  if (op->from >= 0)
    whole_rows(place_of_value(chain, op->from) + op->from_at, chain->widths[op->from], count, op->in, op->bias != 0, room,
               (int16_t *)rows, padded, kept);
  products_of_rows((const int32_t *)rows, norms, count, padded / 2, op->weight, op->out, op->in, room, op->bias, out,
                   to_stride, chain->threads);
}

/* Computes all values; those of the last buffer are the scores. */
const double *chain_forward(const Chain *chain) {
  for (int64_t o = 0; o < chain->num_ops; o++) {
    const Op *op = chain->ops + o;
    double *kept = place_of_kept(chain, o);
    if (op->kind == LINEAR) {
      enter_layer(chain, op, kept);
      continue;
    }
    const double *from = place_of_value(chain, op->from);
    double *to = place_of_value(chain, op->to);
    if (op->kind == SELU)
      selu(from, chain->count * op->in, to, kept);
    else
      normalize(from, chain->count, op->in, to, kept);
  }
  return place_of_value(chain, chain->num_buffers - 1);
}

/* The gradient of a layer's output times its weights, both as integers. */
static void leave_layer(const Chain *chain, const Op *op, const double *grad, int64_t stride) {
  int64_t count = chain->count, padded = padded_to(op->out);
  double *memory = malloc(sizeof(double) * (size_t)(op->in * op->out + count) + sizeof(int16_t) * (size_t)(count * padded));
  if (!memory) abort();
  double *norms = memory + op->in * op->out, room = room_of(op->out);
  int16_t *rows = (int16_t *)(norms + count);
  for (int64_t j = 0; j < op->out; j++)
    for (int64_t t = 0; t < op->in; t++) memory[t * op->out + j] = op->weight[j * op->in + t];
  whole_rows(grad, stride, count, op->out, 0, room, rows, padded, norms);
  products_of_rows((const int32_t *)rows, norms, count, padded / 2, memory, op->in, op->out, room, 0,
                   place_of_grad(chain, op->from) + op->from_at, chain->widths[op->from], chain->threads);
  free(memory);
}

/* From the slopes of the scores to sums of gradients, clipped over all layers. */
void chain_backward(const Chain *chain, const double *slopes, double room, double most) {
  int64_t count = chain->count, depth = 0;
  Layer *layers = malloc(sizeof(Layer) * (size_t)(chain->num_ops + 1));
  if (!layers) abort();
  for (int64_t o = chain->num_ops - 1; o >= 0; o--) {
    const Op *op = chain->ops + o;
    int last = op->to == chain->num_buffers - 1;
    int64_t stride = chain->widths[op->to];
    const double *grad = last ? slopes : place_of_grad(chain, op->to), *kept = place_of_kept(chain, o);
    if (op->kind == LINEAR) {
      const Entering *entering = chain->entering;
      Layer layer = {grad + op->to_at, kept, (const int16_t *)(kept + count), 0, 0, 0, op->out, op->in, padded_to(op->in),
                     stride, op->weight_sums, op->bias_sums};
      if (op->from < 0) {
        layer.norms = entering->norms;
        layer.rows = entering->rows;
        layer.offsets = entering->column_offsets;
        layer.places = entering->column_places;
        layer.numbers = entering->column_numbers;
      }
      layers[depth++] = layer;
      if (op->from > 0) leave_layer(chain, op, grad + op->to_at, stride);
    } else {
      double *to = place_of_grad(chain, op->from);
      if (op->kind == SELU)
        for (int64_t i = 0; i < count * op->in; i++) to[i] = grad[i] * kept[i];
      else
        normalize_slope(grad, place_of_value(chain, op->to), kept, count, op->in, to);
    }
  }
  for (int64_t l = 0; l < depth / 2; l++) { /* norms of gradients are added from the first layer on */
    Layer other = layers[l];
    layers[l] = layers[depth - 1 - l];
    layers[depth - 1 - l] = other;
  }
  clipped_sums(layers, depth, count, room, most, chain->threads);
  free(layers);
}
