/* Seconds of MPI_Allreduce called bare, as bench/micro/dist/all_reduce_bench.cpp measures brim's: medians over repetitions, the
   slowest rank's each time.   mpirun -n 4 mpi_all_reduce BYTES REPETITIONS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? atoi(argv[1]) / 4 : 25000000;
  const int repetitions = argc > 2 ? atoi(argv[2]) : 10;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  float* x = malloc(sizeof(float) * (size_t)count);
  double* seconds = malloc(sizeof(double) * (size_t)repetitions);
  if (!x || !seconds) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < count; ++i) x[i] = 1.0f / (float)size;
  for (int i = 0; i < repetitions + 2; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;
    double slowest;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 2) seconds[i - 2] = slowest;
  }
  qsort(seconds, (size_t)repetitions, sizeof(double), compare);
  if (rank == 0) printf("{\"bytes\": %d, \"ranks\": %d, \"seconds\": %.6f}\n", count * 4, size, seconds[repetitions / 2]);
  free(x);
  free(seconds);
  MPI_Finalize();
  return 0;
}
