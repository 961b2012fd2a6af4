/* Sums of products of words and of secret keys, from which a MAC is made (noise/keys.py has the proof and the same in NumPy).

   A block of 1,024 bytes is 128 pairs of 32-bit words. Sum p of it is the sum over pairs i of
   (word 2i + key 2i mod 2^32) (word 2i + 1 + key 2i + 1 mod 2^32), mod 2^64, with the keys of sum p: the order has no effect. */

#include "levels.h"

#include <string.h>

enum { BLOCK = 1024, WORDS = BLOCK / 4, SUMS = 4, PIECE_OF_BLOCKS = 256 };

__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                      int64_t count, int64_t each, int64_t threads);

typedef struct {
  const uint8_t *bytes;
  int64_t count;
  const uint32_t *keys; /* [SUMS, WORDS] */
  uint64_t *out;        /* [blocks, SUMS] */
} Hashed;

static void block_base(const uint8_t *bytes, const uint32_t *keys, uint64_t *out) {
  uint32_t words[WORDS];
  memcpy(words, bytes, BLOCK);
  for (int p = 0; p < SUMS; p++) {
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i += 2)
      sum += (uint64_t)(words[i] + keys[p * WORDS + i]) * (uint32_t)(words[i + 1] + keys[p * WORDS + i + 1]);
    out[p] = sum;
  }
}

#if defined(__x86_64__)
#define DEFINE_BLOCK(NAME, TARGET, VECTOR, LOAD, ADD32, ADD64, MULTIPLY, SHIFT, ZERO)                  \
  TARGET static void NAME(const uint8_t *bytes, const uint32_t *keys, uint64_t *out) {                \
    enum { LANES = sizeof(VECTOR) / 8 };                                                               \
    VECTOR sums[SUMS] = {ZERO, ZERO, ZERO, ZERO};                                                      \
    for (int i = 0; i < BLOCK; i += sizeof(VECTOR)) {                                                  \
      VECTOR words = LOAD((const void *)(bytes + i));                                                  \
      for (int p = 0; p < SUMS; p++) {                                                                 \
        VECTOR keyed = ADD32(words, LOAD((const void *)((const uint8_t *)keys + p * BLOCK + i)));      \
        sums[p] = ADD64(sums[p], MULTIPLY(keyed, SHIFT(keyed, 32)));                                   \
      }                                                                                                \
    }                                                                                                  \
    for (int p = 0; p < SUMS; p++) {                                                                   \
      uint64_t lanes[LANES];                                                                           \
      memcpy(lanes, &sums[p], sizeof lanes);                                                           \
      out[p] = 0;                                                                                      \
      for (int lane = 0; lane < LANES; lane++) out[p] += lanes[lane];                                  \
    }                                                                                                  \
  }
DEFINE_BLOCK(block_256, TARGET_256, __m256i, _mm256_loadu_si256, _mm256_add_epi32, _mm256_add_epi64, _mm256_mul_epu32,
             _mm256_srli_epi64, _mm256_setzero_si256())
DEFINE_BLOCK(block_512, TARGET_512, __m512i, _mm512_loadu_si512, _mm512_add_epi32, _mm512_add_epi64, _mm512_mul_epu32,
             _mm512_srli_epi64, _mm512_setzero_si512())
#else
#define block_256 block_base
#define block_512 block_base
#endif

static void hash_piece(const void *argument, int64_t low, int64_t high) {
  const Hashed *job = argument;
  void (*block)(const uint8_t *, const uint32_t *, uint64_t *) =
      level() == 2 ? block_512 : level() == 1 ? block_256 : block_base;
  for (int64_t i = low; i < high; i++) {
    int64_t left = job->count - i * BLOCK;
    if (left >= BLOCK)
      block(job->bytes + i * BLOCK, job->keys, job->out + i * SUMS);
    else { /* the last block, padded with zeros: how many bytes there are is in the MAC, too */
      uint8_t padded[BLOCK] = {0};
      memcpy(padded, job->bytes + i * BLOCK, (size_t)left);
      block(padded, job->keys, job->out + i * SUMS);
    }
  }
}

void hash_blocks(const uint8_t *bytes, int64_t count, const uint32_t *keys, uint64_t *out, int64_t threads) {
  Hashed job = {bytes, count, keys, out};
  share_work(hash_piece, &job, (count + BLOCK - 1) / BLOCK, PIECE_OF_BLOCKS, threads);
}
