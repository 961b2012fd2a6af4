/* One body of code for every kind of vector unit, with the same bits on each. */

#ifndef SFUMATO_LEVELS
#define SFUMATO_LEVELS

#include <stdint.h>
#include <string.h>

enum { BITS = 14, MOST = 1 << BITS }; /* the norm of a row of int16 is at most MOST; _torch_products.py has the same */

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define TARGET_256 __attribute__((target("avx2")))
/* The kind of vector unit: 2 AVX-512 with VNNI, 1 AVX2, 0 any other. */
__attribute__((visibility("hidden"))) int level(void);
/* The same code for each kind of vector unit; the bits are the same, too. */
#define FOR_EACH_LEVEL(NAME, PARAMETERS, ARGUMENTS)                             \
  static void NAME##_base PARAMETERS { NAME##_body ARGUMENTS; }                 \
  TARGET_256 static void NAME##_256 PARAMETERS { NAME##_body ARGUMENTS; }       \
  TARGET_512 static void NAME##_512 PARAMETERS { NAME##_body ARGUMENTS; }       \
  static void NAME##_at PARAMETERS {                                            \
    (level() == 2 ? NAME##_512 : level() == 1 ? NAME##_256 : NAME##_base) ARGUMENTS; \
  }
#else
#define FOR_EACH_LEVEL(NAME, PARAMETERS, ARGUMENTS) \
  static void NAME##_at PARAMETERS { NAME##_body ARGUMENTS; }
static inline int level(void) { return 0; }
#endif
#define BODY static inline __attribute__((always_inline)) void

#define MAGIC 6755399441055744.0 /* added and taken away, it rounds to an integer, halves to even */

/* e^x of x <= 0, as exp in _torch_products.py has it: numbers below -700 count as -700. */
static inline __attribute__((always_inline)) double raised(double x) {
  static const double taylor[14] = {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
                                    1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 1 / 2.0, 1.0, 1.0};
  x = x < -700.0 ? -700.0 : x;
  double power = x * 1.4426950408889634 + MAGIC - MAGIC;
  double rest = (x - power * 0x1.62e42fee00000p-1) - power * 0x1.a39ef35793c76p-33;
  double total = taylor[0], two;
  for (int i = 1; i < 14; i++) total = total * rest + taylor[i];
  int64_t bits = (int64_t)(int32_t)(power == power ? power : 0) + 1023;
  bits <<= 52;
  memcpy(&two, &bits, 8);
  return total * two;
}

#endif
