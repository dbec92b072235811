// Driver of the bandwidth probe.

void drive_stream_read(Run run) {
    const size_t sizes[] = {0, 1, 7, 8, 63, 257, 1000, (1 << 18) + 331};
    each_case({0, 1, 5}, {0, 1, 2, 3, 4, 5, 6, 7}, [&](size_t number, size_t count, size_t size) {
        Inputs inputs(number);
        const size_t nbytes = sizes[size], room = 999;
        const Buffer<uint8_t> base = inputs.bytes(nbytes + room);
        Buffer<uint64_t> starts(count), sum(1);
        // The first stretch ends with the memory.
        for (size_t i = 0; i < count; ++i) starts[i] = i ? inputs.below(room) : room;
        const ShoalStreamRead p = {base, starts, count, nbytes, sum};
        run.kernels->stream_read(&p, run.pool);
        report("stream_read", "sum", number, sum);
    });
}
