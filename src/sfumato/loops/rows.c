/* What stands between two layers, row by row and number by number. There is no privacy here.

   _c_products.py calls this file compiled, and _torch_products.py computes the same bits without it: sums run in one written
   order, and no product is fused with a sum (-ffp-contract=off). */

#include "levels.h"
#include "rows.h"

#include <math.h>
#include <string.h>

#define TINY 1e-200       /* stands in for a norm of 0, where every number is 0 */
#define LEAST_NORM 1e-12  /* of a row that is normalized; _torch_products.py has the same */

/* Integers of rows times their factors; a row becomes zero unless its squares, with those already in `squares`, end at
   4^BITS or below, which is exact: squares are integers, and none is negative. */
BODY round_body(const double *rows, int64_t stride, int64_t count, int64_t width, const double *factors, int16_t *out, int64_t padded,
                double *squares) {
  for (int64_t i = 0; i < count; i++) {
    double lanes[8] = {0}, factor = factors[i];
    const double *row = rows + i * stride;
    int16_t *to = out + i * padded;
    int64_t t = 0;
    for (; t + 8 <= width; t += 8)
      for (int lane = 0; lane < 8; lane++) {
        double whole = row[t + lane] * factor + MAGIC - MAGIC;
        int fits = whole >= -MOST && whole <= MOST;
        lanes[lane] += fits ? whole * whole : 4.0 * MOST * MOST;
        to[t + lane] = (int16_t)(int32_t)(fits ? whole : 0);
      }
    for (; t < width; t++) {
      double whole = row[t] * factor + MAGIC - MAGIC;
      int fits = whole >= -MOST && whole <= MOST;
      lanes[0] += fits ? whole * whole : 4.0 * MOST * MOST;
      to[t] = (int16_t)(int32_t)(fits ? whole : 0);
    }
    for (; t < padded; t++) to[t] = 0;
    for (int lane = 0; lane < 8; lane++) squares[i] += lanes[lane];
  }
}
FOR_EACH_LEVEL(round,
               (const double *rows, int64_t stride, int64_t count, int64_t width, const double *factors, int16_t *out,
                int64_t padded, double *squares),
               (rows, stride, count, width, factors, out, padded, squares))
void round_rows(const double *rows, int64_t stride, int64_t count, int64_t width, const double *factors, int16_t *out,
                int64_t padded, double *squares) {
  round_at(rows, stride, count, width, factors, out, padded, squares);
}

/* The sum of products of two rows: eight sums, each of every eighth column, are added in order. */
static inline __attribute__((always_inline)) double dot(const double *row, const double *other, int64_t width) {
  double lanes[8] = {0}, total = 0;
  int64_t t = 0;
  for (; t + 8 <= width; t += 8)
    for (int lane = 0; lane < 8; lane++) lanes[lane] += row[t + lane] * other[t + lane];
  for (int lane = 0; t < width; t++, lane++) lanes[lane] += row[t] * other[t];
  for (int lane = 0; lane < 8; lane++) total += lanes[lane];
  return total;
}

BODY add_squares_body(const double *rows, int64_t stride, int64_t count, int64_t width, const double *scales,
                      double *squares) {
  for (int64_t i = 0; i < count; i++) {
    const double *row = rows + i * stride;
    squares[i] += dot(row, row, width) * (scales[i] * scales[i]);
  }
}
FOR_EACH_LEVEL(add_squares,
               (const double *rows, int64_t stride, int64_t count, int64_t width, const double *scales, double *squares),
               (rows, stride, count, width, scales, squares))
/* squares[i] += the squared norm of row i times scales[i]^2. */
void add_squares(const double *rows, int64_t stride, int64_t count, int64_t width, const double *scales, double *squares) {
  add_squares_at(rows, stride, count, width, scales, squares);
}

BODY whole_body(const double *rows, int64_t stride, int64_t count, int64_t width, int64_t bias, double room, int16_t *out,
                int64_t padded, double *norms) {
  for (int64_t i = 0; i < count; i++) {
    const double *row = rows + i * stride;
    double length = sqrt(dot(row, row, width) + (double)bias), factor = room / (length < TINY ? TINY : length), one, squares;
    int16_t *to = out + i * padded;
    norms[i] = MOST / factor;
    one = bias ? factor + MAGIC - MAGIC : 0;
    one = one >= -MOST && one <= MOST ? one : 0;
    squares = one * one;
    round_body(row, width, 1, width, &factor, to, padded, &squares);
    if (!(squares <= (double)MOST * MOST))
      memset(to, 0, sizeof(int16_t) * padded);
    else if (bias)
      to[width] = (int16_t)one;
  }
}
FOR_EACH_LEVEL(whole,
               (const double *rows, int64_t stride, int64_t count, int64_t width, int64_t bias, double room, int16_t *out,
                int64_t padded, double *norms),
               (rows, stride, count, width, bias, room, out, padded, norms))
/* Integer rows of norm at most 2^BITS, with a column for the bias's input 1 if it has one, and the norms that they stand for. */
void whole_rows(const double *rows, int64_t stride, int64_t count, int64_t width, int64_t bias, double room, int16_t *out,
                int64_t padded, double *norms) {
  whole_at(rows, stride, count, width, bias, room, out, padded, norms);
}

BODY normalize_body(const double *rows, int64_t count, int64_t width, double *out, double *norms) {
  for (int64_t i = 0; i < count; i++) {
    const double *row = rows + i * width;
    double norm = sqrt(dot(row, row, width));
    norms[i] = norm < LEAST_NORM ? LEAST_NORM : norm;
    for (int64_t t = 0; t < width; t++) out[i * width + t] = row[t] / norms[i];
  }
}
FOR_EACH_LEVEL(normalize, (const double *rows, int64_t count, int64_t width, double *out, double *norms),
               (rows, count, width, out, norms))
/* Rows over their norms, which count as LEAST_NORM at least. */
void normalize(const double *rows, int64_t count, int64_t width, double *out, double *norms) {
  normalize_at(rows, count, width, out, norms);
}

BODY normalize_slope_body(const double *grad, const double *unit, const double *norms, int64_t count, int64_t width,
                          double *out) {
  for (int64_t i = 0; i < count; i++) {
    int64_t at = i * width;
    double along = dot(grad + at, unit + at, width);
    for (int64_t t = at; t < at + width; t++) out[t] = (grad[t] - unit[t] * along) / norms[i];
  }
}
FOR_EACH_LEVEL(normalize_slope,
               (const double *grad, const double *unit, const double *norms, int64_t count, int64_t width, double *out),
               (grad, unit, norms, count, width, out))
/* The gradient of normalize() in its rows, which takes out the part along the row. */
void normalize_slope(const double *grad, const double *unit, const double *norms, int64_t count, int64_t width, double *out) {
  normalize_slope_at(grad, unit, norms, count, width, out);
}

BODY selu_body(const double *x, int64_t count, double *out, double *slope) {
  const double scale = 1.0507009873554804934193349852946, top = scale * 1.6732632423543772848170429916717;
  for (int64_t i = 0; i < count; i++) {
    double value = x[i], negative = (raised(value > 0 ? 0.0 : value) - 1.0) * top;
    out[i] = value > 0 ? value * scale : negative;
    slope[i] = value > 0 ? scale : negative + top;
  }
}
FOR_EACH_LEVEL(selu, (const double *x, int64_t count, double *out, double *slope), (x, count, out, slope))
void selu(const double *x, int64_t count, double *out, double *slope) { selu_at(x, count, out, slope); }

/* Probabilities of each row less its class; a class below 0 is missing, and its row zero. */
BODY class_slope_body(const double *scores, const int64_t *classes, int64_t count, int64_t width, double *out) {
  for (int64_t i = 0; i < count; i++) {
    const double *row = scores + i * width;
    double *to = out + i * width, most = row[0], total = 0;
    for (int64_t t = 1; t < width; t++) most = row[t] > most || row[t] != row[t] ? row[t] : most;
    for (int64_t t = 0; t < width; t++) to[t] = raised(row[t] - most);
    for (int64_t t = 0; t < width; t++) total += to[t];
    for (int64_t t = 0; t < width; t++) to[t] = classes[i] < 0 ? 0.0 : to[t] / total - (t == classes[i]);
  }
}
FOR_EACH_LEVEL(class_slope, (const double *scores, const int64_t *classes, int64_t count, int64_t width, double *out),
               (scores, classes, count, width, out))
void class_slope(const double *scores, const int64_t *classes, int64_t count, int64_t width, double *out) {
  class_slope_at(scores, classes, count, width, out);
}
