/* Sums of int16 rows over arcs with weights or without, and rows on the grid of whole steps, in whole numbers. There is no privacy here.

   _native.py loads this file compiled, and _numba.py computes the same bits without it. Threads take rows of the result
   in pieces, as they become free; a row of the result is summed by one thread. */

#include "sampler.h"

#include <math.h>
#include <pthread.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Pairs are parted as little-endian processors hold them."
#endif

enum {
  UNIT = 32767,
  SHIFT = 15,      /* a weight of 1 is 2^15 */
  FLUSH = 1 << 16, /* 2^16 terms of at least -2^15 and below 2^15 stay within an int32 */
  AHEAD = 32,      /* the row of so many arcs later is fetched into the cache */
  PIECE = 128,     /* so many rows of the result are handed to a thread at a time */
  TOGETHER = 128,  /* so many values of noise are drawn at a time, at least */
  MOST_THREADS = 256
};

const char *hop_source(void) { return SOURCE; } /* the SHA-256 of this file, by which _native.py knows an older build */

typedef struct {
  const int64_t *offsets;
  const int32_t *sources;
  const int16_t *rows; /* [nodes, padded] */
  int64_t padded, width, first, last;
  int64_t *out;            /* [last - first, width] */
  const uint16_t *weights; /* of each arc in steps of 2^-15, at most 2^15; not read where there are none */
  Sampler *noise;          /* added to the sums while they are in the cache, if there is one */
} Sums;

/* Eight int16 as four int32: shifts part the even from the odd ones, on every processor that has 16-byte vectors. */
typedef int32_t Pairs __attribute__((vector_size(16)));
typedef int32_t Row __attribute__((vector_size(16), aligned(2), may_alias));

/* Values times a weight of 0 to 2^15, over 2^15, rounded toward zero; a product is within 2^30. */
static inline Pairs weigh(Pairs values, int32_t weight) {
  Pairs product = values * weight;
  return (product + (product >> 31 & ((1 << SHIFT) - 1))) >> SHIFT;
}

/* Sum columns column to column + 8 * BLOCKS of one row, each value as TAKE(value, arc) has it. */
#define DEFINE_SUM_ROW(NAME, BLOCKS, TAKE)                                                          \
  static inline void NAME##_##BLOCKS(const Sums *job, int64_t row, int64_t column) {                \
    const int16_t *rows = job->rows + column;                                                       \
    const int32_t *sources = job->sources;                                                          \
    int64_t padded = job->padded, arc = job->offsets[row], end = job->offsets[row + 1];             \
    int64_t final = job->offsets[job->last] - 1, sums[8 * BLOCKS] = {0};                            \
    while (arc < end) {                                                                             \
      int64_t stop = end - arc > FLUSH ? arc + FLUSH : end;                                         \
      Pairs even[BLOCKS] = {0}, odd[BLOCKS] = {0};                                                  \
      for (; arc < stop; arc++) {                                                                   \
        __builtin_prefetch(rows + padded * sources[arc + AHEAD < final ? arc + AHEAD : final]);     \
        const Row *values = (const Row *)(rows + padded * sources[arc]);                            \
        for (int block = 0; block < BLOCKS; block++) {                                              \
          even[block] += TAKE(values[block] << 16 >> 16, arc);                                      \
          odd[block] += TAKE(values[block] >> 16, arc);                                             \
        }                                                                                           \
      }                                                                                             \
      for (int lane = 0; lane < 8 * BLOCKS; lane++)                                                 \
        sums[lane] += (lane % 2 ? odd : even)[lane / 8][lane / 2 % 4];                              \
    }                                                                                               \
    int64_t *out = job->out + (row - job->first) * job->width + column, left = job->width - column; \
    for (int64_t lane = 0; lane < 8 * BLOCKS && lane < left; lane++) out[lane] = sums[lane];        \
  }

/* Sums of rows low to high, and noise every few rows, while the next rows are on their way to the cache. */
#define DEFINE_SUM(NAME, TAKE)                                                                        \
  DEFINE_SUM_ROW(NAME##_row, 1, TAKE)                                                                 \
  DEFINE_SUM_ROW(NAME##_row, 2, TAKE)                                                                 \
  DEFINE_SUM_ROW(NAME##_row, 4, TAKE)                                                                 \
  static void NAME##_piece(const void *argument, int64_t low, int64_t high) {                         \
    const Sums *job = argument;                                                                       \
    Listed listed;                                                                                    \
    listed.count = 0;                                                                                 \
    for (int64_t row = job->first + low, start = row; row < job->first + high; row++) {               \
      if (job->padded == 8)                                                                           \
        NAME##_row_1(job, row, 0);                                                                    \
      else if (job->padded == 16)                                                                     \
        NAME##_row_2(job, row, 0);                                                                    \
      else                                                                                            \
        for (int64_t column = 0; column < job->width; column += 32) NAME##_row_4(job, row, column);   \
      if (job->noise && ((row + 1 - start) * job->width >= TOGETHER || row + 1 == job->first + high)) { \
        add_values(job->noise, job->out + (start - job->first) * job->width, (row + 1 - start) * job->width, \
                   (uint64_t)(start * job->width), &listed);                                          \
        start = row + 1;                                                                              \
      }                                                                                               \
    }                                                                                                 \
    if (job->noise) settle(job->noise, &listed);                                                      \
  }

#define WHOLE(value, arc) (value)
#define WEIGHED(value, arc) weigh(value, job->weights[arc])

DEFINE_SUM(sum, WHOLE)
DEFINE_SUM(weighted_sum, WEIGHED)

typedef struct {
  const float *rows; /* [count, width] */
  int64_t width;
  int16_t *out;    /* [count, width] */
  double *squares; /* [count] */
} Grid;

static void quantize_piece(const void *argument, int64_t low, int64_t high) {
  const Grid *job = argument;
  for (int64_t row = low; row < high; row++) {
    const float *values = job->rows + row * job->width;
    int16_t *out = job->out + row * job->width;
    double square = 0;
    for (int64_t c = 0; c < job->width; c++) square += (double)values[c] * values[c];
    job->squares[row] = square;
    if (!isfinite(square)) continue;
    int64_t total = 0;
    for (int64_t c = 0; c < job->width; c++) {
      double value = values[c] > 1 ? 1 : values[c] < -1 ? -1 : values[c];
      int32_t step = (int32_t)(value * UNIT);
      out[c] = (int16_t)step;
      total += step * step;
    }
    while (total > (int64_t)UNIT * UNIT) {
      total = 0;
      for (int64_t c = 0; c < job->width; c++) {
        int32_t step = out[c] - (out[c] > 0) + (out[c] < 0);
        out[c] = (int16_t)step;
        total += step * step;
      }
    }
  }
}

typedef struct {
  void (*piece)(const void *, int64_t, int64_t);
  const void *job;
  int64_t count, each;
  atomic_int_fast64_t next;
} Work;

static void *take_pieces(void *argument) {
  Work *work = argument;
  int64_t low, each = work->each;
  while ((low = atomic_fetch_add(&work->next, each)) < work->count)
    work->piece(work->job, low, low + each < work->count ? low + each : work->count);
  return 0;
}

/* Let threads take pieces of `each` until `count` are done; products.c shares its work so, too. */
__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                       int64_t count, int64_t each, int64_t threads) {
  Work work = {piece, job, count, each, 0};
  pthread_t started[MOST_THREADS];
  int64_t taken = 0, most = (count - 1) / each;
  if (threads - 1 < most) most = threads - 1;
  if (MOST_THREADS < most) most = MOST_THREADS;
  while (taken < most && !pthread_create(&started[taken], 0, take_pieces, &work)) taken++;
  take_pieces(&work);
  while (taken) pthread_join(started[--taken], 0);
}

void sum_rows(const int64_t *offsets, const int32_t *sources, const int16_t *rows, int64_t padded, int64_t width,
              int64_t first, int64_t last, int64_t *out, const uint16_t *weights, Sampler *noise, int64_t threads) {
  Sums job = {offsets, sources, rows, padded, width, first, last, out, weights, noise};
  share_work(weights ? weighted_sum_piece : sum_piece, &job, last - first, PIECE, threads);
}

void quantize(const float *rows, int64_t count, int64_t width, int16_t *out, double *squares, int64_t threads) {
  Grid job = {rows, width, out, squares};
  share_work(quantize_piece, &job, count, PIECE, threads);
}
