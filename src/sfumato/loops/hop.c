/* Sums of int16 rows over arcs with weights or without, and rows on the grid of whole steps, in whole numbers. There is no privacy here.

   _native.py loads this file compiled, and _numba.py computes the same bits without it. Threads take rows of the result
   in pieces, as they become free; a row of the result is summed by one thread. */

#include "levels.h"
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
  LINE = 32,       /* so many int16 lie in a line of the cache */
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

/* Pairs of int16 as int32: shifts part the even from the odd ones. Where a processor's vectors are shorter, the compiler cuts these. */
#define DEFINE_PAIRS(BYTES)                                         \
  typedef int32_t Pairs##BYTES __attribute__((vector_size(BYTES))); \
  typedef int32_t Row##BYTES __attribute__((vector_size(BYTES), aligned(2), may_alias));
DEFINE_PAIRS(16)
DEFINE_PAIRS(32)
DEFINE_PAIRS(64)

/* Sum columns column to column + BYTES / 2 * BLOCKS of one row, each value as TAKE(value, arc) has it. */
#define DEFINE_SUM_ROW(NAME, BYTES, BLOCKS, TAKE)                                                       \
  BODY NAME##_##BYTES##_##BLOCKS(const Sums *job, int64_t row, int64_t column) {                        \
    enum { EACH = BYTES / 4, HALF = EACH * BLOCKS };                                                    \
    const int16_t *rows = job->rows + column;                                                           \
    const int32_t *sources = job->sources;                                                              \
    int64_t padded = BYTES < 64 ? BYTES / 2 : job->padded, left = job->width - column, more = 0;        \
    int64_t arc = job->offsets[row], end = job->offsets[row + 1];                                       \
    const int32_t *ahead = sources + (end + AHEAD <= job->offsets[job->last] ? AHEAD : 0);              \
    int64_t *out = job->out + (row - job->first) * job->width + column;                                 \
    do {                                                                                                \
      int64_t stop = end - arc > FLUSH ? arc + FLUSH : end;                                             \
      Pairs##BYTES even[BLOCKS] = {0}, odd[BLOCKS] = {0};                                               \
      for (; arc < stop; arc++) {                                                                       \
        const int16_t *later = rows + padded * ahead[arc];                                              \
        for (int line = 0; line < 2 * HALF; line += LINE) __builtin_prefetch(later + line);             \
        const Row##BYTES *values = (const Row##BYTES *)(rows + padded * sources[arc]);                  \
        for (int block = 0; block < BLOCKS; block++) {                                                  \
          even[block] += TAKE(values[block] << 16 >> 16, arc);                                          \
          odd[block] += TAKE(values[block] >> 16, arc);                                                 \
        }                                                                                               \
      }                                                                                                 \
      int32_t evens[HALF], odds[HALF];                                                                  \
      if (BYTES == 16) /* copied whole, GCC 12 keeps them in memory in the loop above */               \
        for (int pair = 0; pair < EACH; pair++) evens[pair] = even[0][pair], odds[pair] = odd[0][pair]; \
      else {                                                                                            \
        memcpy(evens, even, sizeof evens);                                                              \
        memcpy(odds, odd, sizeof odds);                                                                 \
      }                                                                                                 \
      if (!more && left >= 2 * HALF)                                                                    \
        for (int pair = 0; pair < HALF; pair++) out[2 * pair] = evens[pair], out[2 * pair + 1] = odds[pair]; \
      else                                                                                              \
        for (int64_t lane = 0; lane < 2 * HALF && lane < left; lane++)                                  \
          out[lane] = (more ? out[lane] : 0) + (lane % 2 ? odds : evens)[lane / 2];                     \
      more = 1;                                                                                         \
    } while (arc < end);                                                                                \
  }

/* Sums of rows low to high, and noise every few rows, while the next rows are on their way to the cache. */
#define DEFINE_SUM(NAME, TAKE)                                                                        \
  DEFINE_SUM_ROW(NAME##_row, 16, 1, TAKE)                                                             \
  DEFINE_SUM_ROW(NAME##_row, 32, 1, TAKE)                                                             \
  DEFINE_SUM_ROW(NAME##_row, 64, 1, TAKE)                                                             \
  DEFINE_SUM_ROW(NAME##_row, 64, 2, TAKE)                                                             \
  BODY NAME##_body(const void *argument, int64_t low, int64_t high) {                                 \
    const Sums *job = argument;                                                                       \
    Listed listed;                                                                                    \
    listed.count = 0;                                                                                 \
    for (int64_t row = job->first + low, start = row; row < job->first + high; row++) {               \
      int64_t column = 0;                                                                             \
      if (job->padded == 8)                                                                           \
        NAME##_row_16_1(job, row, 0);                                                                 \
      else if (job->padded == 16)                                                                     \
        NAME##_row_32_1(job, row, 0);                                                                 \
      else {                                                                                          \
        for (; column + 64 <= job->padded; column += 64) NAME##_row_64_2(job, row, column);           \
        if (column < job->padded) NAME##_row_64_1(job, row, column);                                  \
      }                                                                                               \
      if (job->noise && ((row + 1 - start) * job->width >= TOGETHER || row + 1 == job->first + high)) { \
        add_values(job->noise, job->out + (start - job->first) * job->width, (row + 1 - start) * job->width, \
                   (uint64_t)(start * job->width), &listed);                                          \
        start = row + 1;                                                                              \
      }                                                                                               \
    }                                                                                                 \
    if (job->noise) settle(job->noise, &listed);                                                      \
  }                                                                                                   \
  FOR_EACH_LEVEL(NAME, (const void *argument, int64_t low, int64_t high), (argument, low, high))

#define WHOLE(value, arc) (value)
/* Values times a weight of 0 to 2^15, over 2^15, rounded toward zero; a product is within 2^30. */
#define TIMES(value, arc) ((value) * job->weights[arc])
#define WEIGHED(value, arc) ((TIMES(value, arc) + (TIMES(value, arc) >> 31 & ((1 << SHIFT) - 1))) >> SHIFT)

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
  share_work(weights ? weighted_sum_at : sum_at, &job, last - first, PIECE, threads);
}

void quantize(const float *rows, int64_t count, int64_t width, int16_t *out, double *squares, int64_t threads) {
  Grid job = {rows, width, out, squares};
  share_work(quantize_piece, &job, count, PIECE, threads);
}
