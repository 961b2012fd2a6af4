/* Reads rows of int16 by index and folds them into one word: what a hop reads, without its sums. speed.py compiles this. */

#include <stdint.h>

typedef uint64_t Wide __attribute__((vector_size(16), may_alias));

#define DEFINE_FOLD(BLOCKS)                                                                                            \
  static uint64_t fold_##BLOCKS(const int32_t *sources, int64_t count, const Wide *rows, int64_t ahead) {              \
    Wide folds[BLOCKS] = {0};                                                                                          \
    for (int64_t arc = 0; arc < count; arc++) {                                                                        \
      const Wide *row = rows + BLOCKS * (int64_t)sources[arc];                                                         \
      const Wide *later = rows + BLOCKS * (int64_t)sources[arc + ahead < count ? arc + ahead : count - 1];             \
      for (int line = 0; ahead && line < BLOCKS; line += 4) __builtin_prefetch(later + line);                          \
      for (int block = 0; block < BLOCKS; block++) folds[block] ^= row[block];                                         \
    }                                                                                                                  \
    for (int block = 1; block < BLOCKS; block++) folds[0] ^= folds[block];                                             \
    return folds[0][0] ^ folds[0][1];                                                                                  \
  }

DEFINE_FOLD(1)
DEFINE_FOLD(2)
DEFINE_FOLD(4)
DEFINE_FOLD(8)

/* Rows have 8, 16, 32 or 64 columns; the row of so many arcs `ahead` is fetched into the cache, or none for 0. */
uint64_t gather(const int32_t *sources, int64_t count, const int16_t *rows, int64_t columns, int64_t ahead) {
  const Wide *wide = (const Wide *)rows;
  return columns == 8    ? fold_1(sources, count, wide, ahead)
         : columns == 16 ? fold_2(sources, count, wide, ahead)
         : columns == 32 ? fold_4(sources, count, wide, ahead)
                         : fold_8(sources, count, wide, ahead);
}
