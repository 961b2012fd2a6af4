/* Triangles of an undirected graph whose arcs all point one way. There is no privacy here.

   _native.py calls this file compiled, and _numba.py counts the same without it. Every triangle is found from the one node that
   two of its arcs leave; the targets of a node are marked, a bit each, and looked up from the targets of its targets. */

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { PIECES = 512, LEAST = 1024 };

__attribute__((visibility("hidden"))) void share_work(void (*piece)(const void *, int64_t, int64_t), const void *job,
                                                      int64_t count, int64_t each, int64_t threads);

typedef struct {
  const int64_t *offsets;
  const int32_t *targets;
  int64_t nodes;
  int64_t *found; /* [nodes] */
  atomic_int *full;
} Closed;

static void closed_piece(const void *argument, int64_t low, int64_t high) {
  const Closed *job = argument;
  const int64_t *offsets = job->offsets;
  const int32_t *targets = job->targets;
  uint64_t *marks = calloc((size_t)job->nodes / 64 + 1, sizeof *marks);
  if (!marks) {
    atomic_store(job->full, 1);
    return;
  }
  for (int64_t node = low; node < high; node++) {
    int64_t start = offsets[node], end = offsets[node + 1], total = 0;
    if (end - start > 1) {
      for (int64_t arc = start; arc < end; arc++) marks[targets[arc] >> 6] |= 1ull << (targets[arc] & 63);
      for (int64_t arc = start; arc < end; arc++)
        for (int64_t next = offsets[targets[arc]], last = offsets[targets[arc] + 1]; next < last; next++)
          total += marks[targets[next] >> 6] >> (targets[next] & 63) & 1;
      for (int64_t arc = start; arc < end; arc++) marks[targets[arc] >> 6] = 0;
    }
    job->found[node] = total;
  }
  free(marks);
}

/* found[v] = the number of triangles that two arcs of node v begin; 0 where memory for the marks is missing, else 1. */
int64_t closed(const int64_t *offsets, const int32_t *targets, int64_t nodes, int64_t *found, int64_t threads) {
  atomic_int full = 0;
  Closed job = {offsets, targets, nodes, found, &full};
  share_work(closed_piece, &job, nodes, nodes / PIECES < LEAST ? LEAST : nodes / PIECES, threads);
  return !full;
}
