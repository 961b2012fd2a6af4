/* Products of integer rows, and sums of their outer products. There is no privacy here.

   _c_products.py calls this file compiled, and _torch_products.py computes the same bits without it. Products are sums of int16
   by int16 in int32, which the callers' bounds keep from overflowing, so they are exact in any order and on any processor. */

#include "levels.h"
#include "rows.h"

#include <math.h>
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
  double *out; /* [count, width], in rows of `stride` */
  int64_t stride;
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
          job->out[(i + a) * job->stride + j + b] = job->bias ? found + job->bias[j + b] : found;
        }
    }
}

static void *room_for(int64_t count, int64_t size) {
  void *found = malloc((size_t)(count * size + 1));
  if (!found) abort();
  return found;
}

/* Units of `columns` numbers as integers [width, padded], and what each has to be multiplied by. */
static int16_t *whole_units(const double *weights, int64_t width, int64_t columns, double room, int64_t padded,
                            double *scales) {
  int16_t *whole = room_for(width * padded, sizeof(int16_t));
  whole_rows(weights, columns, width, columns, 0, room, whole, padded, scales);
  for (int64_t j = 0; j < width; j++) scales[j] *= 1.0 / ((double)MOST * MOST);
  return whole;
}

/* out = rows (pairs of columns) times norms, by weights [width, columns], which are made integers, plus a bias. */
void products_of_rows(const int32_t *rows, const double *norms, int64_t count, int64_t pairs, const double *weights,
                      int64_t width, int64_t columns, double room, const double *bias, double *out, int64_t stride,
                      int64_t threads) {
  int64_t padded = (width + LANES - 1) / LANES * LANES;
  double *scales = room_for(width, sizeof(double));
  int16_t *whole = whole_units(weights, width, columns, room, 2 * pairs, scales);
  int32_t *by_pair = room_for(pairs * padded, sizeof(int32_t));
  for (int64_t s = 0; s < pairs; s++)
    for (int64_t j = 0; j < padded; j++) {
      int32_t pair = 0;
      if (j < width) memcpy(&pair, whole + j * 2 * pairs + 2 * s, sizeof pair);
      by_pair[s * padded + j] = pair;
    }
  Product job = {rows, norms, pairs, by_pair, scales, bias, width, padded, out, stride};
  share_work(multiply_piece, &job, count, PIECE_OF_ROWS, count * pairs * width < 1 << 21 ? 1 : threads);
  free(by_pair), free(whole), free(scales);
}

typedef struct {
  const int32_t *slopes; /* pairs of rows by unit [pairs, units] */
  const int32_t *rows;   /* pairs of rows by column [pairs, padded] */
  const int64_t *ends;   /* of runs of pairs whose sums stay within an int32 */
  int64_t runs, units, width, padded;
  int64_t *out, *bias; /* [units, width], and the column after the last [units], or none */
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
        int64_t end = job->width - t < left ? job->width - t : left;
        for (int a = 0; a < tall; a++) {
          int64_t *to = job->out + (j + a) * job->width + t;
          for (int64_t b = 0; b < end; b++) to[b] += tile[a * TILE + b];
          if (job->bias && end >= 0 && end < left) job->bias[j + a] += tile[a * TILE + end];
        }
      }
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

/* The largest absolute value of each row. */
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

/* Where runs of pairs of rows end whose products, by the largest of each row, add up to less than 2^31; few fit the cache. */
static int64_t find_runs(const int32_t *first, const int32_t *second, int64_t count, int64_t *ends) {
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
  const double *norms, *scales, *added; /* added: the bias, or none */
  int64_t width, padded, columns; /* of sums of outer products, or 0 of products */
  double *out;                    /* of products [rows, width] */
  int64_t stride;
  int64_t *sums, *bias;           /* of sums of outer products [width, columns], and of the column after the last */
} Sparse;

#define ADD_SCALED(SUMS, NUMBER, ROW) \
  for (int64_t j = 0; j < job->padded; j++) SUMS[j] += (NUMBER) * (int32_t)(ROW)[j];

/* Adds the sums of column i, which is that of the bias after the last. */
BODY add_column(const Sparse *job, int64_t i, const int32_t *sums) {
  int64_t *to = i < job->columns ? job->sums + i : job->bias, step = i < job->columns ? job->columns : 1;
  for (int64_t j = 0; j < job->width; j++) to[j * step] += sums[j];
}

BODY sparse_body(const Sparse *job, int64_t low, int64_t high, int32_t *sums) {
  for (int64_t i = low; i < high; i++) {
    int64_t room = INT32_MAX;
    if (job->most && job->offsets[i] == job->offsets[i + 1]) continue;
    memset(sums, 0, sizeof(int32_t) * job->padded);
    for (int64_t at = job->offsets[i]; at < job->offsets[i + 1]; at++) {
      int32_t number = job->numbers[at], place = job->places[at];
      if (job->most) {
        int64_t size = (int64_t)(number < 0 ? -number : number) * job->most[place];
        if (size > room) {
          add_column(job, i, sums);
          memset(sums, 0, sizeof(int32_t) * job->padded);
          room = INT32_MAX;
        }
        room -= size;
      }
      ADD_SCALED(sums, number, job->other + place * job->padded)
    }
    if (job->most)
      add_column(job, i, sums);
    else
      for (int64_t j = 0; j < job->width; j++) {
        double found = sums[j] * (job->norms[i] * job->scales[j]);
        job->out[i * job->stride + j] = job->added ? found + job->added[j] : found;
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

/* As products_of_rows(), of sparse rows, which may have a column for the bias's input after the last. */
void products_of_sparse(const int64_t *offsets, const int32_t *places, const int16_t *numbers, const double *norms, int64_t count,
                  const double *weights, int64_t width, int64_t columns, double room, const double *bias, double *out,
                  int64_t stride, int64_t threads) {
  enum { STRIP = 16 };
  int64_t padded = (width + LANES - 1) / LANES * LANES;
  double *scales = room_for(width, sizeof(double));
  int16_t *whole = whole_units(weights, width, columns, room, columns, scales);
  int16_t *by_column = room_for((columns + 1) * padded, sizeof(int16_t));
  memset(by_column + columns * padded, 0, sizeof(int16_t) * padded);
  for (int64_t first = 0; first < columns; first += STRIP)
    for (int64_t j = 0; j < padded; j++)
      for (int64_t t = first; t < columns && t < first + STRIP; t++)
        by_column[t * padded + j] = j < width ? whole[j * columns + t] : 0;
  Sparse job = {offsets, places, numbers, by_column, 0, norms, scales, bias, width, padded, 0, out, stride, 0, 0};
  share_work(sparse_piece, &job, count, PIECE_OF_ROWS, offsets[count] * width < 1 << 20 ? 1 : threads);
  free(by_column), free(whole), free(scales);
}

static void sum_dense(const Layer *layer, const int16_t *slopes, const int32_t *most, int64_t count, int64_t threads) {
  int64_t pairs = (count + 1) / 2;
  int32_t *peaks = room_for(count, sizeof(int32_t)), *left = room_for(pairs * layer->units, sizeof(int32_t)),
          *right = room_for(pairs * layer->padded, sizeof(int32_t));
  int64_t *ends = room_for(pairs, sizeof(int64_t)), columns = layer->width + 1;
  peaks_at(layer->rows, count, layer->padded, peaks);
  pair_rows_at(slopes, count, layer->units, left);
  pair_rows_at(layer->rows, count, layer->padded, right);
  int64_t runs = find_runs(most, peaks, count, ends);
  Outer job = {left, right, ends, runs, layer->units, layer->width, layer->padded, layer->weight, layer->bias};
  share_work(outer_piece, &job, (columns + LANES - 1) / LANES * LANES, TILE,
             pairs * layer->units * columns < 1 << 21 ? 1 : threads);
  free(ends), free(right), free(left), free(peaks);
}

static void sum_sparse(const Layer *layer, const int16_t *slopes, const int32_t *most, int64_t count, int64_t threads) {
  int64_t padded = (layer->units + LANES - 1) / LANES * LANES, columns = layer->width + (layer->bias != 0);
  int16_t *wide = room_for(count * padded, sizeof(int16_t));
  memset(wide, 0, sizeof(int16_t) * count * padded);
  for (int64_t i = 0; i < count; i++) memcpy(wide + i * padded, slopes + i * layer->units, sizeof(int16_t) * layer->units);
  Sparse job = {layer->offsets, layer->places, layer->numbers, wide, most, 0, 0, 0, layer->units, padded, layer->width,
                0, 0, layer->weight, layer->bias};
  share_work(sparse_piece, &job, columns, PIECE_OF_ROWS,
             layer->offsets[columns] * layer->units < 1 << 20 ? 1 : threads);
  free(wide);
}

/* Adds to the sums of each layer the outer products of rows and slopes, which are clipped over all layers, as integers:
   times one factor a row, that which gives them the joint norm `room`, or `most` where that is less. */
void clipped_sums(const Layer *layers, int64_t depth, int64_t count, double room, double most, int64_t threads) {
  if (!count) return;
  double *factors = room_for(count, sizeof(double)), *own = room_for(count, sizeof(double)),
         *squares = room_for(count, sizeof(double));
  int16_t **slopes = room_for(depth, sizeof(int16_t *));
  int32_t *peaks = room_for(count, sizeof(int32_t));
  for (int64_t i = 0; i < count; i++) factors[i] = squares[i] = 0;
  for (int64_t l = 0; l < depth; l++) add_squares(layers[l].grad, layers[l].stride, count, layers[l].units, layers[l].norms, factors);
  for (int64_t i = 0; i < count; i++) {
    double factor = room / sqrt(factors[i]);
    factors[i] = factor > most ? most : factor;
  }
  for (int64_t l = 0; l < depth; l++) {
    slopes[l] = room_for(count * layers[l].units, sizeof(int16_t));
    for (int64_t i = 0; i < count; i++) own[i] = factors[i] * layers[l].norms[i];
    round_rows(layers[l].grad, layers[l].stride, count, layers[l].units, own, slopes[l], layers[l].units, squares);
  }
  for (int64_t l = 0; l < depth; l++) {
    for (int64_t i = 0; i < count; i++)
      if (!(squares[i] <= (double)MOST * MOST)) memset(slopes[l] + i * layers[l].units, 0, sizeof(int16_t) * layers[l].units);
    peaks_at(slopes[l], count, layers[l].units, peaks);
    (layers[l].rows ? sum_dense : sum_sparse)(layers + l, slopes[l], peaks, count, threads);
    free(slopes[l]);
  }
  free(peaks), free(slopes), free(squares), free(own), free(factors);
}
