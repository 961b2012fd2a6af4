/* Rounded noise added to sums, from blocks of AES-256. noise/_rectangles.py has the mathematics, the proof and the same in Numba.

   Words of the cipher are decoded where they are made. What is not certain here is left to the caller: its position and word are
   listed, and nothing is added there. Both ways give the same values, since each decides only what the exact reference decides. */

#include "sampler.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CHUNK = 512, LAYERS = 1024, LAYER_BITS = 10, ROUNDS = 14, PIECE_OF_VALUES = 1 << 14 };

__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                      int64_t count, int64_t each, int64_t threads);

#if defined(__x86_64__)
#define TARGET_AES __attribute__((target("aes,ssse3")))
#define TARGET_VAES __attribute__((target("vaes,avx512f,avx512bw,avx512vl,avx512dq")))

/* Whether there is the cipher for 64 bytes at once; the question is slow in a virtual machine, so the answer is kept. */
static int has_vaes(void) {
  static atomic_int known = -1;
  int found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found < 0) {
    unsigned a, b, c = 0, d;
    found = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 9 & 1;
    atomic_store_explicit(&known, found, memory_order_relaxed);
  }
  return found && level() == 2;
}
int64_t has_cipher(void) { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("ssse3"); }

/* Every other round key of AES-256 takes a rotated, substituted word and a constant; those between a substituted word alone. */
TARGET_AES static __m128i next_key(__m128i before, __m128i word) {
  before = _mm_xor_si128(before, _mm_slli_si128(before, 4));
  before = _mm_xor_si128(before, _mm_slli_si128(before, 8));
  return _mm_xor_si128(before, word);
}
#define PAIR_OF_KEYS(i, constant)                                                                               \
  keys[i] = next_key(keys[i - 2], _mm_shuffle_epi32(_mm_aeskeygenassist_si128(keys[i - 1], constant), 0xff));   \
  if (i < ROUNDS)                                                                                               \
    keys[i + 1] = next_key(keys[i - 1], _mm_shuffle_epi32(_mm_aeskeygenassist_si128(keys[i], 0), 0xaa));
TARGET_AES void expand_key(const uint8_t *key, uint8_t *out) {
  __m128i keys[ROUNDS + 2];
  keys[0] = _mm_loadu_si128((const void *)key);
  keys[1] = _mm_loadu_si128((const void *)(key + 16));
  PAIR_OF_KEYS(2, 1) PAIR_OF_KEYS(4, 2) PAIR_OF_KEYS(6, 4) PAIR_OF_KEYS(8, 8)
  PAIR_OF_KEYS(10, 16) PAIR_OF_KEYS(12, 32) PAIR_OF_KEYS(14, 64)
  memcpy(out, keys, 16 * (ROUNDS + 1));
}

/* Blocks E(attempt || index) of 8 pairs, each number with its most significant byte first. */
TARGET_AES static void eight_blocks(const uint8_t *keys, const uint64_t *attempts, const uint64_t *indices, uint64_t *out) {
  __m128i state[8];
  for (int b = 0; b < 8; b++)
    state[b] = _mm_xor_si128(_mm_set_epi64x((int64_t)__builtin_bswap64(indices[b]), (int64_t)__builtin_bswap64(attempts[b])),
                             _mm_loadu_si128((const void *)keys));
  for (int r = 1; r < ROUNDS; r++)
    for (int b = 0; b < 8; b++) state[b] = _mm_aesenc_si128(state[b], _mm_loadu_si128((const void *)(keys + 16 * r)));
  for (int b = 0; b < 8; b++)
    _mm_storeu_si128((void *)(out + 2 * b),
                     _mm_aesenclast_si128(state[b], _mm_loadu_si128((const void *)(keys + 16 * ROUNDS))));
}

/* The same for attempt 0 and 32 indices in a row. */
TARGET_VAES static void many_blocks(const uint8_t *keys, uint64_t index, uint64_t *out) {
  const __m512i swap = _mm512_broadcast_i32x4(_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  const __m512i step = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);
  __m512i counter = _mm512_set_epi64((int64_t)index + 3, 0, (int64_t)index + 2, 0, (int64_t)index + 1, 0, (int64_t)index, 0);
  __m512i state[8], key = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)keys));
  for (int b = 0; b < 8; b++, counter = _mm512_add_epi64(counter, step))
    state[b] = _mm512_xor_si512(_mm512_shuffle_epi8(counter, swap), key);
  for (int r = 1; r < ROUNDS; r++) {
    key = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(keys + 16 * r)));
    for (int b = 0; b < 8; b++) state[b] = _mm512_aesenc_epi128(state[b], key);
  }
  key = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(keys + 16 * ROUNDS)));
  for (int b = 0; b < 8; b++) _mm512_storeu_si512(out + 8 * b, _mm512_aesenclast_epi128(state[b], key));
}

/* The first `count` words from block `index` on, and some more to fill the last blocks. */
static void fill_with_words(const uint8_t *keys, uint64_t index, int64_t count, uint64_t *out) {
  static const uint64_t attempts[8] = {0};
  if (has_vaes())
    for (int64_t b = 0; 2 * b < count; b += 32) many_blocks(keys, index + (uint64_t)b, out + 2 * b);
  else
    for (int64_t b = 0; 2 * b < count; b += 8) {
      uint64_t indices[8];
      for (int i = 0; i < 8; i++) indices[i] = index + (uint64_t)(b + i);
      eight_blocks(keys, attempts, indices, out + 2 * b);
    }
}
#else
int64_t has_cipher(void) { return 0; }
void expand_key(const uint8_t *key, uint8_t *out) { (void)key, (void)out; }
static void eight_blocks(const uint8_t *keys, const uint64_t *attempts, const uint64_t *indices, uint64_t *out) {
  (void)keys, (void)attempts, (void)indices, (void)out;
}
static void fill_with_words(const uint8_t *keys, uint64_t index, int64_t count, uint64_t *out) {
  (void)keys, (void)index, (void)count, (void)out;
}
#endif

/* The value of a word, and whether rounding leaves it open: s X is known to 3 of its last places, and margin is 8. */
static inline int64_t value_of(const Sampler *sampler, uint64_t word, int *near) {
  double step = sampler->step[word & (LAYERS - 1)], real = (double)(int64_t)((word << 1) >> (LAYER_BITS + 1)) * step;
  double nearest = rint(real);
  *near = !(fabs(real - nearest) + sampler->margin * step <= 0.5);
  return word >> 63 ? -(int64_t)nearest : (int64_t)nearest;
}

/* Add the values of words that are certain alone to sums, and list the others: where they are, from *open on. */
BODY certain_body(const Sampler *sampler, const uint64_t *words, int64_t from, int64_t count, int64_t *sums, int64_t *where,
                  int64_t *open) {
  for (int64_t i = from; i < count; i++) {
    int near;
    int64_t value = value_of(sampler, words[i], &near);
    if (near || words[i] << 1 >= sampler->limit[words[i] & (LAYERS - 1)])
      where[(*open)++] = i;
    else
      sums[i] += value;
  }
}
FOR_EACH_LEVEL(certain,
               (const Sampler *sampler, const uint64_t *words, int64_t from, int64_t count, int64_t *sums, int64_t *where,
                int64_t *open),
               (sampler, words, from, count, sums, where, open))

#if defined(__x86_64__)
/* The same for eight words at once. */
TARGET_512 static int64_t certain_eights(const Sampler *sampler, const uint64_t *words, int64_t count, int64_t *sums,
                                         int64_t *where, int64_t *open) {
  const __m512i layers = _mm512_set1_epi64(LAYERS - 1);
  const __m512d margin = _mm512_set1_pd(sampler->margin), half = _mm512_set1_pd(0.5);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m512i word = _mm512_loadu_si512(words + i), layer = _mm512_and_si512(word, layers);
    __m512i shifted = _mm512_slli_epi64(word, 1);
    __m512d step = _mm512_i64gather_pd(layer, sampler->step, 8);
    __mmask8 below = _mm512_cmplt_epu64_mask(shifted, _mm512_i64gather_epi64(layer, sampler->limit, 8));
    __m512d real = _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_srli_epi64(shifted, LAYER_BITS + 1)), step);
    __m512d nearest = _mm512_roundscale_pd(real, 0);
    __m512d reach = _mm512_add_pd(_mm512_abs_pd(_mm512_sub_pd(real, nearest)), _mm512_mul_pd(margin, step));
    __mmask8 sure = _mm512_mask_cmp_pd_mask(below, reach, half, _CMP_LE_OQ);
    __m512i value = _mm512_cvtpd_epi64(nearest);
    value = _mm512_mask_sub_epi64(value, _mm512_movepi64_mask(word), _mm512_setzero_si512(), value);
    __m512i old = _mm512_loadu_si512(sums + i);
    _mm512_storeu_si512(sums + i, _mm512_mask_add_epi64(old, sure, old, value));
    for (unsigned left = (uint8_t)~sure; left; left &= left - 1) where[(*open)++] = i + __builtin_ctz(left);
  }
  return i;
}
#endif

static int64_t decode(const Sampler *sampler, const uint64_t *words, int64_t count, int64_t *sums, int64_t *where) {
  int64_t open = 0, done = 0;
#if defined(__x86_64__)
  if (level() == 2) done = certain_eights(sampler, words, count, sums, where, &open);
#endif
  certain_at(sampler, words, done, count, sums, where, &open);
  return open;
}

/* Of 8 words with 64 bits of their heights: values, and what is known of them. The margins are proved in noise/_rectangles.py;
   the exponential is within 2^-48. */
enum { REJECTED, KEPT, OPEN };
BODY judge_body(const Sampler *sampler, const uint64_t *words, const uint64_t *fresh, int64_t *values, int *found) {
  double x[8], graph[8];
  for (int a = 0; a < 8; a++) {
    x[a] = (double)(int64_t)((words[a] << 1) >> (LAYER_BITS + 1)) * 0x1p-53 * sampler->half_width[words[a] & (LAYERS - 1)];
    x[a] *= sampler->square ? -0.5 * x[a] : -1.0;
  }
  for (int a = 0; a < 8; a++) graph[a] = raised(x[a]);
  for (int a = 0; a < 8; a++) {
    uint64_t layer = words[a] & (LAYERS - 1);
    double rise = sampler->rise[layer] * 0x1p-64, height = sampler->bottom[layer] + (double)fresh[2 * a] * rise;
    int near, ordered = fabs(graph[a] - height) > sampler->order * (graph[a] + height) + 2.0 * rise;
    int below = words[a] << 1 < sampler->limit[layer];
    values[a] = value_of(sampler, words[a], &near);
    found[a] = near || !(below || ordered) ? OPEN : below || height < graph[a] ? KEPT : REJECTED;
  }
}
FOR_EACH_LEVEL(judge, (const Sampler *sampler, const uint64_t *words, const uint64_t *fresh, int64_t *values, int *found),
               (sampler, words, fresh, values, found))

/* Take listed words through their attempts, 8 at once, since the cipher works on several blocks in the time of one. */
void settle(Sampler *sampler, Listed *listed) {
  uint64_t current[8] = {0}, attempts[8] = {0}, indices[8] = {0}, fresh[16];
  int64_t of[8], values[8], taken = 0, active = 0;
  int found[8];
  while (taken < listed->count || active) {
    for (; active < 8 && taken < listed->count; active++, taken++) {
      of[active] = taken;
      current[active] = listed->words[taken];
      attempts[active] = 1;
      indices[active] = listed->positions[taken];
    }
    eight_blocks(sampler->keys, attempts, indices, fresh);
    judge_at(sampler, current, fresh, values, found);
    int64_t still = 0;
    for (int64_t a = 0; a < active; a++) {
      if (found[a] == KEPT)
        *listed->sums[of[a]] += values[a];
      else if (found[a] == OPEN) {
        int64_t place = atomic_fetch_add(&sampler->open, 1);
        if (place < sampler->room) {
          sampler->positions[place] = (int64_t)indices[a];
          sampler->words[place] = listed->words[of[a]];
        }
      } else {
        of[still] = of[a];
        current[still] = fresh[2 * a + 1];
        attempts[still] = attempts[a] + 1;
        indices[still++] = indices[a];
      }
    }
    active = still;
  }
  listed->count = 0;
}

/* Add the values of positions `position` and on to sums, but for those that are listed. */
void add_values(Sampler *sampler, int64_t *sums, int64_t count, uint64_t position, Listed *listed) {
  uint64_t buffer[CHUNK];
  int64_t where[CHUNK], odd;
  for (int64_t taken; count; sums += taken, count -= taken, position += (uint64_t)taken) {
    odd = (int64_t)(position % 2);
    taken = count < CHUNK - odd ? count : CHUNK - odd;
    fill_with_words(sampler->keys, position / 2, odd + taken, buffer);
    int64_t open = decode(sampler, buffer + odd, taken, sums, where);
    if (listed->count + open > MOST_LISTED) settle(sampler, listed);
    for (int64_t i = 0; i < open; i++, listed->count++) {
      listed->words[listed->count] = buffer[odd + where[i]];
      listed->positions[listed->count] = position + (uint64_t)where[i];
      listed->sums[listed->count] = sums + where[i];
    }
  }
}

typedef struct {
  Sampler *sampler;
  int64_t *sums;
  uint64_t position;
} Added;

static void add_piece(const void *argument, int64_t low, int64_t high) {
  const Added *job = argument;
  Listed listed;
  listed.count = 0;
  add_values(job->sampler, job->sums + low, high - low, job->position + (uint64_t)low, &listed);
  settle(job->sampler, &listed);
}

void add_noise(Sampler *sampler, int64_t *sums, int64_t count, int64_t position, int64_t threads) {
  Added job = {sampler, sums, (uint64_t)position};
  share_work(add_piece, &job, count, PIECE_OF_VALUES, threads);
}
