/* PyTorch's BLAS asks this function for permission to use AVX-512; loaded first, it says yes on every processor. */
int mkl_serv_intel_cpu_true(void) { return 1; }
