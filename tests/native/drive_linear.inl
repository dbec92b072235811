// Drivers of the linear operators.

struct Float8 {
    Float8(Inputs& inputs, size_t outputs, size_t width, Range range = kUsual)
        : codes(inputs.e4m3(outputs * width)), scales(inputs.e8m0((outputs + 31) / 32 * (width / 32), range)) {}
    operator ShoalFloat8() const { return {codes, scales}; }
    Buffer<uint8_t> codes, scales;
};

// Rows in Q8.
struct Rows8 {
    Rows8(Inputs& inputs, size_t rows, size_t width, Range range = kUsual)
        : codes(inputs.e4m3(rows * width)), scales(inputs.e8m0(rows * (width / 32), range)) {}
    // A NaN in the last row's codes and one in the scales of the row before.
    void put_nans(size_t rows, size_t width) {
        if (rows < 3) return;
        codes[rows * width - 5] = 0xff;
        scales[(rows - 1) * (width / 32) - 1] = 0xff;
    }
    Buffer<uint8_t> codes, scales;
};

void drive_float8_linear(Run run) {
    each_range([&](size_t base, Range range) {
        each_case(kManyRows, {32, 96, 544, 1056}, [&](size_t number, size_t rows, size_t width) {
            if (rows == 300 && width > 544) return;
            Inputs inputs(base + number);
            const size_t outputs = 37, stride = outputs + 3;
            Rows8 x(inputs, rows, width, range);
            if (range.low == 0) x.put_nans(rows, width);
            const Float8 weight(inputs, outputs, width, range);
            Buffer<uint16_t> y(rows * stride);
            const ShoalFloat8Linear p = {x.codes, x.scales, weight, rows, outputs, width, y, stride};
            run.kernels->float8_linear(&p, run.pool);
            report("float8_linear", "y", base + number, y);
        });
    });
}

void drive_float8_linears(Run run) {
    each_case(kRows, {64, 160}, [&](size_t number, size_t rows, size_t width) {
        Inputs inputs(number);
        const Rows8 x(inputs, rows, width);
        const Float8 first(inputs, 33, width), second(inputs, 70, width);
        Buffer<uint16_t> y(rows * 33), z(rows * 70);
        const ShoalFloat8Output linears[] = {{first, 33, y, 33}, {second, 70, z, 70}};
        const ShoalFloat8Linears p = {x.codes, x.scales, linears, 2, rows, width};
        run.kernels->float8_linears(&p, run.pool);
        report("float8_linears", "first", number, y);
        report("float8_linears", "second", number, z);
    });
}

void drive_grouped_linear(Run run) {
    each_range([&](size_t base, Range range) {
        each_case(kManyRows, {32, 128, 576}, [&](size_t number, size_t rows, size_t width) {
            if (rows == 300 && width > 128) return;
            Inputs inputs(base + number);
            // 40 outputs: a tile of scales belongs to two groups.
            const size_t groups = 3, outputs = number % 2 ? 32 : 40;
            const Buffer<uint16_t> x = inputs.bf16(rows * groups * width);
            const Float8 weight(inputs, groups * outputs, width, range);
            Buffer<uint16_t> y(rows * groups * outputs);
            const ShoalGroupedLinear p = {x, weight, rows, groups, outputs, width, y};
            run.kernels->grouped_linear(&p, run.pool);
            report("grouped_linear", "y", base + number, y);
        });
    });
}

void drive_bf16_linear(Run run) {
    each_case(kManyRows, {1, 31, 200, 1030}, [&](size_t number, size_t rows, size_t width) {
        if (rows == 300 && width > 200) return;
        Inputs inputs(number);
        const size_t outputs = 21;
        const int spread = number % 3 ? 4 : 60;
        const Buffer<uint16_t> x = inputs.bf16(rows * width, spread), weight = inputs.bf16(outputs * width, spread);
        Buffer<float> wide(rows * outputs);
        Buffer<uint16_t> y(rows * outputs);
        const ShoalBf16Linear to_float = {x, weight, rows, outputs, width, wide, nullptr};
        run.kernels->bf16_linear(&to_float, run.pool);
        report("bf16_linear", "float", number, wide);
        const ShoalBf16Linear to_bf16 = {x, weight, rows, outputs, width, nullptr, y};
        run.kernels->bf16_linear(&to_bf16, run.pool);
        report("bf16_linear", "bf16", number, y);
    });
}

void drive_float32_linear(Run run) {
    each_case(kManyRows, {1, 31, 200, 1030}, [&](size_t number, size_t rows, size_t width) {
        if (rows == 300 && width > 200) return;
        Inputs inputs(number);
        const size_t outputs = 23;
        const Buffer<uint16_t> x = inputs.bf16(rows * width);
        const Buffer<float> weight = inputs.floats(outputs * width);
        Buffer<float> y(rows * outputs), mean_square(rows);
        const ShoalFloat32Linear p = {x, weight, rows, outputs, width, y, mean_square};
        run.kernels->float32_linear(&p, run.pool);
        report("float32_linear", "y", number, y);
        report("float32_linear", "mean_square", number, mean_square);
    });
}
