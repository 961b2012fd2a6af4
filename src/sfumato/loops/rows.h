/* What products.c and chain.c call of each other and of rows.c. */

#ifndef SFUMATO_ROWS
#define SFUMATO_ROWS

#include <stdint.h>

void whole_rows(const double *rows, int64_t stride, int64_t count, int64_t width, int64_t bias, double room, int16_t *out,
                int64_t padded, double *norms);
void add_squares(const double *rows, int64_t stride, int64_t count, int64_t width, const double *scales, double *squares);
void round_rows(const double *rows, int64_t stride, int64_t count, int64_t width, const double *factors, int16_t *out,
                int64_t padded, double *squares);
void normalize(const double *rows, int64_t count, int64_t width, double *out, double *norms);
void normalize_slope(const double *grad, const double *unit, const double *norms, int64_t count, int64_t width, double *out);
void selu(const double *x, int64_t count, double *out, double *slope);
void products_of_rows(const int32_t *rows, const double *norms, int64_t count, int64_t pairs, const double *weights,
                      int64_t width, int64_t columns, double room, const double *bias, double *out, int64_t stride,
                      int64_t threads);
void products_of_sparse(const int64_t *offsets, const int32_t *places, const int16_t *numbers, const double *norms,
                        int64_t count, const double *weights, int64_t width, int64_t columns, double room,
                        const double *bias, double *out, int64_t stride, int64_t threads);

typedef struct {
  const double *grad, *norms; /* [count, units] in rows of `stride`; of the rows that enter, [count] */
  const int16_t *rows;        /* these rows [count, padded], or none where they are sparse */
  const int64_t *offsets;     /* and then their columns */
  const int32_t *places;
  const int16_t *numbers;
  int64_t units, width, padded, stride;
  int64_t *weight, *bias; /* sums [units, width], and of the column after the last, [units], or none */
} Layer;

void clipped_sums(const Layer *layers, int64_t depth, int64_t count, double room, double most, int64_t threads);

#endif
