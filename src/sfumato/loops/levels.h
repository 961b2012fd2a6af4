/* One body of code for every kind of vector unit, with the same bits on each. */

#include <stdint.h>

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
