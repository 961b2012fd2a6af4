/* A step of Adam in one pass over memory. There is no privacy here.

   _optimizers.py calls this file compiled, and computes the same bits in NumPy without it: every operation is rounded once, in
   one order, and no product is fused with a sum (-ffp-contract=off). */

#include "levels.h"

#include <math.h>

enum { PIECE_OF_NUMBERS = 1 << 15 };

typedef struct {
  void *flat, *grad, *mean, *square;
  int64_t single;
  double decay, fresh, correction, rate; /* fresh: 1 less the momentum; the others: of this step */
} Step;

__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                       int64_t count, int64_t each, int64_t threads);

#define DEFINE_ADAM(NAME, NUMBER, ROOT)                                                                              \
  BODY NAME##_body(const Step *job, int64_t low, int64_t high) {                                                     \
    NUMBER *restrict flat = job->flat, *restrict grad = job->grad, *restrict mean = job->mean,                       \
                    *restrict square = job->square;                                                                  \
    const NUMBER decay = (NUMBER)job->decay, fresh = (NUMBER)job->fresh, correction = (NUMBER)job->correction,       \
                 rate = (NUMBER)job->rate, old = (NUMBER)0.999, share = (NUMBER)0.001, least = (NUMBER)1e-8;         \
    for (int64_t i = low; i < high; i++) {                                                                           \
      NUMBER slope = decay != 0 ? grad[i] + flat[i] * decay : grad[i];                                               \
      mean[i] += (slope - mean[i]) * fresh;                                                                          \
      square[i] = square[i] * old + slope * slope * share;                                                           \
      flat[i] -= mean[i] / (ROOT(square[i] * correction) + least) * rate;                                            \
      grad[i] = 0;                                                                                                   \
    }                                                                                                                \
  }                                                                                                                  \
  FOR_EACH_LEVEL(NAME, (const Step *job, int64_t low, int64_t high), (job, low, high))
DEFINE_ADAM(adam_double, double, sqrt)
DEFINE_ADAM(adam_single, float, sqrtf)

static void adam_piece(const void *argument, int64_t low, int64_t high) {
  const Step *job = argument;
  (job->single ? adam_single_at : adam_double_at)(job, low, high);
}

void adam(void *flat, void *grad, void *mean, void *square, int64_t count, int64_t single, double decay, double fresh,
          double correction, double rate, int64_t threads) {
  Step job = {flat, grad, mean, square, single, decay, fresh, correction, rate};
  share_work(adam_piece, &job, count, PIECE_OF_NUMBERS, threads);
}
