// The kernels behind cub's device algorithms: radix sort, scan by look-back, select, reduce by key, histogram, segmented sort.
#include <cub/cub.cuh>
struct Odd { __device__ bool operator()(int v) const { return v & 1; } };
void instantiate(void* t, size_t& n, unsigned* k, int* v, double* d, int* off) {
    cub::DeviceScan::InclusiveSum(t, n, d, d, 100);
#ifndef FEW
    cub::DeviceRadixSort::SortKeys(t, n, k, k + 100, 100);
    cub::DeviceReduce::Sum(t, n, v, v, 100);
    cub::DeviceSelect::If(t, n, v, v, v, 100, Odd{});
    cub::DeviceRunLengthEncode::Encode(t, n, v, v, v, v, 100);
    cub::DeviceHistogram::HistogramEven(t, n, v, v, 17, 0, 100, 100);
#endif
}
