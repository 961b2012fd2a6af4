/* Products of integer rows, and sums of their outer products. There is no privacy here.

   _c_products.py calls this file compiled, and _torch_products.py computes the same bits without it. Products are sums of int16
   by int16 in int32, which the callers' bounds keep from overflowing, so they are exact in any order and on any processor. */

#include "levels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, TALL = 6, WIDE = 4, TILE = LANES * WIDE, RUN = 512, PIECE_OF_ROWS = 48 };

#if defined(__x86_64__)
static atomic_int known = -1; /* found at the first call */
int level(void) {
  int found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found < 0) {
    int wide = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    found = wide ? 2 : __builtin_cpu_supports("avx2") ? 1 : 0;
    atomic_store_explicit(&known, found, memory_order_relaxed);
  }
  return found;
}
#else
static atomic_int known = 0;
#endif
/* For tests: choose a kind of vector unit that the processor has, and return it; a number below 0 chooses nothing. */
int64_t use_level(int64_t wanted) {
  if (wanted >= 0) atomic_store(&known, (int)wanted);
  return level();
}

__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                       int64_t count, int64_t each, int64_t threads);

static inline int16_t high_of(int32_t pair) { return (int16_t)(pair >> 16); }
static inline int16_t low_of(int32_t pair) { return (int16_t)pair; }

/* tile[a][b] = sum over s of the two products of the pairs left[a * down + s * along] and right[s * stride + b]. */
BODY tile_plain(const int32_t *left, int64_t down, int64_t along, const int32_t *right, int64_t stride, int64_t count,
                int tall, int wide, int32_t *tile) {
  memset(tile, 0, sizeof(int32_t) * tall * TILE);
  for (int64_t s = 0; s < count; s++)
    for (int a = 0; a < tall; a++) {
      int32_t pair = left[a * down + s * along], low = low_of(pair), high = high_of(pair);
      for (int b = 0; b < wide * LANES; b++)
        tile[a * TILE + b] += low * low_of(right[s * stride + b]) + high * high_of(right[s * stride + b]);
    }
}

#if defined(__x86_64__)
#define DEFINE_TILE_512(TALL_, WIDE_)                                                                                 \
  TARGET_512 static void tile_512_##TALL_##WIDE_(const int32_t *left, int64_t down, int64_t along, const int32_t *right, \
                                                 int64_t stride, int64_t count, int32_t *tile) {                      \
    __m512i sums[TALL_][WIDE_];                                                                                       \
    for (int a = 0; a < TALL_; a++)                                                                                   \
      for (int b = 0; b < WIDE_; b++) sums[a][b] = _mm512_setzero_si512();                                            \
    for (int64_t s = 0; s < count; s++) {                                                                             \
      __m512i row[WIDE_];                                                                                             \
      for (int b = 0; b < WIDE_; b++) row[b] = _mm512_loadu_si512(right + s * stride + b * LANES);                    \
      for (int a = 0; a < TALL_; a++) {                                                                               \
        __m512i pair = _mm512_set1_epi32(left[a * down + s * along]);                                                 \
        for (int b = 0; b < WIDE_; b++) sums[a][b] = _mm512_dpwssd_epi32(sums[a][b], row[b], pair);                   \
      }                                                                                                               \
    }                                                                                                                 \
    for (int a = 0; a < TALL_; a++)                                                                                   \
      for (int b = 0; b < WIDE_; b++) _mm512_storeu_si512(tile + a * TILE + b * LANES, sums[a][b]);                   \
  }
DEFINE_TILE_512(6, 4) DEFINE_TILE_512(6, 1) DEFINE_TILE_512(1, 4) DEFINE_TILE_512(1, 1)

/* Eight lanes at a time; 3 x 2 x 2 sums fill the registers. */
#define DEFINE_TILE_256(TALL_, HALVES)                                                                                   \
  TARGET_256 static void tile_256_##TALL_##HALVES(const int32_t *left, int64_t down, int64_t along, const int32_t *right, \
                                                  int64_t stride, int64_t count, int32_t *tile) {                         \
    __m256i sums[TALL_][HALVES];                                                                                         \
    for (int a = 0; a < TALL_; a++)                                                                                      \
      for (int b = 0; b < HALVES; b++) sums[a][b] = _mm256_setzero_si256();                                              \
    for (int64_t s = 0; s < count; s++) {                                                                                \
      __m256i row[HALVES];                                                                                               \
      for (int b = 0; b < HALVES; b++) row[b] = _mm256_loadu_si256((const void *)(right + s * stride + b * 8));          \
      for (int a = 0; a < TALL_; a++) {                                                                                  \
        __m256i pair = _mm256_set1_epi32(left[a * down + s * along]);                                                    \
        for (int b = 0; b < HALVES; b++) sums[a][b] = _mm256_add_epi32(sums[a][b], _mm256_madd_epi16(row[b], pair));     \
      }                                                                                                                  \
    }                                                                                                                    \
    for (int a = 0; a < TALL_; a++)                                                                                      \
      for (int b = 0; b < HALVES; b++) _mm256_storeu_si256((void *)(tile + a * TILE + b * 8), sums[a][b]);               \
  }
DEFINE_TILE_256(3, 2) DEFINE_TILE_256(1, 2)
#endif

static void fill_tile(const int32_t *left, int64_t down, int64_t along, const int32_t *right, int64_t stride, int64_t count,
                      int tall, int wide, int32_t *tile) {
#if defined(__x86_64__)
  if (level() == 2) {
    for (int a = 0; a < tall;) {
      int step = tall - a >= TALL ? TALL : 1;
      const int32_t *from = left + a * down;
      int32_t *to = tile + a * TILE;
      if (wide == WIDE)
        (step == TALL ? tile_512_64 : tile_512_14)(from, down, along, right, stride, count, to);
      else
        for (int b = 0; b < wide; b++)
          (step == TALL ? tile_512_61 : tile_512_11)(from, down, along, right + b * LANES, stride, count, to + b * LANES);
      a += step;
    }
    return;
  }
  if (level() == 1) {
    for (int a = 0; a < tall;) {
      int step = tall - a >= 3 ? 3 : 1;
      for (int b = 0; b < wide; b++)
        (step == 3 ? tile_256_32 : tile_256_12)(left + a * down, down, along, right + b * LANES, stride, count,
                                                tile + a * TILE + b * LANES);
      a += step;
    }
    return;
  }
#endif
  tile_plain(left, down, along, right, stride, count, tall, wide, tile);
}

typedef struct {
  const int32_t *rows; /* pairs of columns [count, pairs] */
  const double *norms; /* [count] */
  int64_t pairs;
  const int32_t *weights; /* pairs of columns by unit [pairs, padded] */
  const double *scales;   /* [width] */
  const double *bias;     /* [width], or none */
  int64_t width, padded;
  double *out; /* [count, width] */
} Product;

static void multiply_piece(const void *argument, int64_t low, int64_t high) {
  const Product *job = argument;
  int32_t tile[TALL * TILE];
  for (int64_t i = low; i < high; i += TALL)
    for (int64_t j = 0; j < job->width; j += TILE) {
      int tall = high - i < TALL ? (int)(high - i) : TALL;
      int64_t left = job->width - j;
      int wide = left >= TILE ? WIDE : (int)((left + LANES - 1) / LANES);
      fill_tile(job->rows + i * job->pairs, job->pairs, 1, job->weights + j, job->padded, job->pairs, tall, wide, tile);
      for (int a = 0; a < tall; a++)
        for (int64_t b = 0; b < (left < TILE ? left : TILE); b++) {
          double found = tile[a * TILE + b] * (job->norms[i + a] * job->scales[j + b]);
          job->out[(i + a) * job->width + j + b] = job->bias ? found + job->bias[j + b] : found;
        }
    }
}

void multiply(const int32_t *rows, const double *norms, int64_t count, int64_t pairs, const int32_t *weights,
              const double *scales, const double *bias, int64_t width, int64_t padded, double *out, int64_t threads) {
  Product job = {rows, norms, pairs, weights, scales, bias, width, padded, out};
  share_work(multiply_piece, &job, count, PIECE_OF_ROWS, count * pairs * width < 1 << 21 ? 1 : threads);
}

typedef struct {
  const int32_t *slopes; /* pairs of rows by unit [pairs, units] */
  const int32_t *rows;   /* pairs of rows by column [pairs, padded] */
  const int64_t *ends;   /* of runs of pairs whose sums stay within an int32 */
  int64_t runs, units, width, padded;
  int64_t *out; /* [units, width] */
} Outer;

static void outer_piece(const void *argument, int64_t low, int64_t high) {
  const Outer *job = argument;
  int32_t tile[TALL * TILE];
  int64_t start = 0;
  for (int64_t run = 0; run < job->runs; start = job->ends[run++])
    for (int64_t t = low; t < high; t += TILE)
      for (int64_t j = 0; j < job->units; j += TALL) {
        int tall = job->units - j < TALL ? (int)(job->units - j) : TALL;
        int64_t left = high - t < TILE ? high - t : TILE;
        fill_tile(job->slopes + start * job->units + j, 1, job->units, job->rows + start * job->padded + t, job->padded,
                  job->ends[run] - start, tall, left == TILE ? WIDE : (int)((left + LANES - 1) / LANES), tile);
        for (int a = 0; a < tall; a++)
          for (int64_t b = 0; b < left && t + b < job->width; b++)
            job->out[(j + a) * job->width + t + b] += tile[a * TILE + b];
      }
}

/* out[j][t] += the sum over rows of slope j by column t, exactly. */
void outer_sums(const int32_t *slopes, const int32_t *rows, const int64_t *ends, int64_t runs, int64_t units, int64_t width,
                int64_t padded, int64_t *out, int64_t threads) {
  Outer job = {slopes, rows, ends, runs, units, width, padded, out};
  int64_t pairs = runs ? ends[runs - 1] : 0;
  share_work(outer_piece, &job, (width + LANES - 1) / LANES * LANES, TILE, pairs * units * width < 1 << 21 ? 1 : threads);
}

/* Two rows of int16 as one row of pairs; the last of an odd number is paired with zeros. */
BODY pair_rows_body(const int16_t *rows, int64_t count, int64_t width, int32_t *out) {
  for (int64_t i = 0; i < count; i += 2) {
    const int16_t *first = rows + i * width, *second = i + 1 < count ? first + width : 0;
    int32_t *pairs = out + i / 2 * width;
    if (second)
      for (int64_t t = 0; t < width; t++) pairs[t] = (int32_t)((uint32_t)(uint16_t)first[t] | (uint32_t)(uint16_t)second[t] << 16);
    else
      for (int64_t t = 0; t < width; t++) pairs[t] = (uint16_t)first[t];
  }
}
FOR_EACH_LEVEL(pair_rows, (const int16_t *rows, int64_t count, int64_t width, int32_t *out), (rows, count, width, out))
void pair_rows(const int16_t *rows, int64_t count, int64_t width, int32_t *out) { pair_rows_at(rows, count, width, out); }

BODY peaks_body(const int16_t *rows, int64_t count, int64_t width, int32_t *out) {
  for (int64_t i = 0; i < count; i++) {
    int32_t most = 0;
    for (int64_t t = 0; t < width; t++) {
      int32_t value = rows[i * width + t], size = value < 0 ? -value : value;
      most = size > most ? size : most;
    }
    out[i] = most;
  }
}
FOR_EACH_LEVEL(peaks, (const int16_t *rows, int64_t count, int64_t width, int32_t *out), (rows, count, width, out))
/* The largest absolute value of each row. */
void peaks(const int16_t *rows, int64_t count, int64_t width, int32_t *out) { peaks_at(rows, count, width, out); }

/* Where runs of pairs of rows end whose products, by the largest of each row, add up to less than 2^31; few fit the cache. */
int64_t find_runs(const int32_t *first, const int32_t *second, int64_t count, int64_t *ends) {
  int64_t runs = 0, total = 0, pairs = 0, each = (count + 1) / 2;
  for (int64_t s = 0; s < each; s++) {
    int64_t size = (int64_t)first[2 * s] * second[2 * s];
    if (2 * s + 1 < count) size += (int64_t)first[2 * s + 1] * second[2 * s + 1];
    if (pairs && (total + size > INT32_MAX || pairs == RUN)) {
      ends[runs++] = s;
      total = pairs = 0;
    }
    total += size;
    pairs++;
  }
  if (pairs) ends[runs++] = each;
  return runs;
}

typedef struct {
  const int64_t *offsets; /* of the places of each row (of each column) */
  const int32_t *places;  /* the column (row) of each number */
  const int16_t *numbers, *other; /* and the rows of int16 that it multiplies [places, padded] */
  const int32_t *most;            /* the largest absolute value of each of these, where runs must be cut */
  const double *norms, *scales, *bias;
  int64_t width, padded, outer; /* outer: sums of outer products are asked for, not products */
  double *out;                  /* of products */
  int64_t *sums;                /* of sums of outer products [columns, width] */
} Sparse;

#define ADD_SCALED(SUMS, NUMBER, ROW) \
  for (int64_t j = 0; j < job->padded; j++) SUMS[j] += (NUMBER) * (int32_t)(ROW)[j];

BODY sparse_body(const Sparse *job, int64_t low, int64_t high, int32_t *sums) {
  for (int64_t i = low; i < high; i++) {
    int64_t room = INT32_MAX;
    memset(sums, 0, sizeof(int32_t) * job->padded);
    for (int64_t at = job->offsets[i]; at < job->offsets[i + 1]; at++) {
      int32_t number = job->numbers[at], place = job->places[at];
      if (job->outer) {
        int64_t size = (int64_t)(number < 0 ? -number : number) * job->most[place];
        if (size > room) {
          for (int64_t j = 0; j < job->width; j++) job->sums[i * job->width + j] += sums[j];
          memset(sums, 0, sizeof(int32_t) * job->padded);
          room = INT32_MAX;
        }
        room -= size;
      }
      ADD_SCALED(sums, number, job->other + place * job->padded)
    }
    for (int64_t j = 0; j < job->width; j++)
      if (job->outer)
        job->sums[i * job->width + j] += sums[j];
      else {
        double found = sums[j] * (job->norms[i] * job->scales[j]);
        job->out[i * job->width + j] = job->bias ? found + job->bias[j] : found;
      }
  }
}
FOR_EACH_LEVEL(sparse, (const Sparse *job, int64_t low, int64_t high, int32_t *sums), (job, low, high, sums))

static void sparse_piece(const void *argument, int64_t low, int64_t high) {
  const Sparse *job = argument;
  int32_t *sums = malloc(sizeof(int32_t) * (job->padded + 1));
  if (!sums) abort();
  sparse_at(job, low, high, sums);
  free(sums);
}

void multiply_sparse(const int64_t *offsets, const int32_t *places, const int16_t *numbers, const double *norms, int64_t count,
                     const int16_t *weights, const double *scales, const double *bias, int64_t width, int64_t padded,
                     double *out, int64_t threads) {
  Sparse job = {offsets, places, numbers, weights, 0, norms, scales, bias, width, padded, 0, out, 0};
  share_work(sparse_piece, &job, count, PIECE_OF_ROWS, offsets[count] * width < 1 << 20 ? 1 : threads);
}

void outer_sums_sparse(const int64_t *offsets, const int32_t *places, const int16_t *numbers, int64_t columns,
                       const int16_t *slopes, const int32_t *most, int64_t width, int64_t padded, int64_t *sums,
                       int64_t threads) {
  Sparse job = {offsets, places, numbers, slopes, most, 0, 0, 0, width, padded, 1, 0, sums};
  share_work(sparse_piece, &job, columns, PIECE_OF_ROWS, offsets[columns] * width < 1 << 20 ? 1 : threads);
}
