/* What a draw of rounded noise reads; _native.py fills it. */

#include "levels.h"

#include <stdatomic.h>

typedef struct {
  const double *step, *half_width, *bottom, *rise; /* [1024], as noise/_rectangles.py has them; step is in steps of the grid */
  const uint64_t *limit;                           /* [1024] */
  double margin, order;
  int64_t square; /* exp(-x^2 / 2), or else exp(-x) */
  int64_t room;   /* of what is listed */
  int64_t *positions;
  uint64_t *words;
  _Atomic int64_t open; /* how many are listed, or would be in more room */
  uint8_t keys[240];
} Sampler;

enum { MOST_LISTED = 1024 }; /* at least as many as a chunk in sampler.c may leave open */

/* Words that need the bits of their heights, and where their values go. */
typedef struct {
  int64_t count;
  uint64_t words[MOST_LISTED], positions[MOST_LISTED];
  int64_t *sums[MOST_LISTED];
} Listed;

#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN void add_values(Sampler *sampler, int64_t *sums, int64_t count, uint64_t position, Listed *listed);
HIDDEN void settle(Sampler *sampler, Listed *listed);
