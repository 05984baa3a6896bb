#include "batch/encode.hpp"

#include <memory>

#include "batch/blocks.hpp"
#include "system/cost_model.hpp"

namespace taskdict {
namespace {

template <class T>
Index stride(const Encoder<T>& encoder) {
    return encoder.fast().gram().view().stride;  // of rows of correlations
}

// A block of loaded signals: scaled, in contiguous rows, with their correlations.
template <class T>
struct Block {
    Block(const Encoder<T>& encoder, Index capacity)
        : x(capacity * encoder.features()),
          narrow(sizeof(T) == 8 ? capacity * encoder.features() : 0),
          c(capacity * stride(encoder)),
          loaded(std::size_t(capacity)) {}

    const float* fast() const {
        if constexpr (sizeof(T) == 8)
            return narrow.data();
        else
            return x.data();
    }

    Array<T> x;
    Array<float> narrow;
    Array<float> c;
    std::vector<Loaded> loaded;
};

template <class T>
void load_block(const Encoder<T>& encoder, const DenseSignals<T>& signals, Index first, Index rows, Block<T>& block) {
    const Index m = encoder.features();
    for (Index r = 0; r < rows; ++r) {
        const T* x = signals.data + (first + r) * signals.row_step;
        Loaded& loaded = block.loaded[std::size_t(r)];
        loaded = load_scaled(x, signals.column_step, m, block.x.data() + r * m, sizeof(T) == 8 ? block.narrow.data() + r * m : nullptr,
                             encoder.scales_signals());
        if (!loaded.finite) throw BadSignal{first + r};
    }
    encoder.fast().correlate(block.fast(), rows, block.c.data());
}

template <class T>
void load_block(const Encoder<T>& encoder, const SparseSignals<T>& signals, Index first, Index rows, Block<T>& block) {
    const Index m = encoder.features();
    std::vector<T> scaled;
    std::vector<float> weights;
    for (Index r = 0; r < rows; ++r) {
        const auto start = std::size_t(signals.indptr[std::size_t(first + r)]), end = std::size_t(signals.indptr[std::size_t(first + r) + 1]);
        const std::size_t count = end - start;
        const std::span<const std::int32_t> indices = signals.indices.subspan(start, count);
        scaled.resize(count);
        Loaded& loaded = block.loaded[std::size_t(r)];
        loaded = load_scaled(signals.values.data() + start, 1, Index(count), scaled.data(), nullptr, encoder.scales_signals());
        if (!loaded.finite) throw BadSignal{first + r};
        T* x = block.x.data() + r * m;
        std::fill_n(x, m, T(0));
        for (std::size_t i = 0; i < scaled.size(); ++i) x[indices[i]] += scaled[i];
        weights.assign(scaled.begin(), scaled.end());
        encoder.fast().correlate_sparse(indices.data(), weights.data(), Index(count), block.c.data() + r * stride(encoder));
    }
}

// Prefetches a signal of the next block while this one is encoded.
template <class T>
void prefetch(const DenseSignals<T>& signals, Index row, Index m) {
    if (signals.column_step != 1) return;
    const char* x = reinterpret_cast<const char*>(signals.data + row * signals.row_step);
    for (Index at = 0; at < m * Index(sizeof(T)); at += 64) __builtin_prefetch(x + at, 0, 2);
}

template <class T>
void prefetch(const SparseSignals<T>&, Index, Index) {}

// Appends the code of one signal to `codes`, in ascending order of the atoms.
template <class T>
class Writer {
  public:
    explicit Writer(Index p) : marks_(std::size_t((p + 63) / 64)), place_(std::size_t(p)) {}

    void write(const Encoder<T>& encoder, const Code<T>& code, const T* x, const Loaded& loaded, const Goal& goal,
               const typename Encoder<T>::Scratch& scratch, Codes<T>& codes) {
        for (Index i = 0; i < code.size; ++i) {
            const auto atom = std::size_t(code.atoms[i]);
            marks_[atom / 64] |= std::uint64_t(1) << (atom % 64);
            place_[atom] = std::int32_t(i);
        }
        std::int32_t* indices = codes.indices.extend(code.size);
        T* values = codes.values.extend(code.size);
        const double unit = loaded.scale / encoder.scale();
        bool finite = true, tiny = false;
        order_.clear();
        Index written = 0;
        for (std::size_t word = 0; word < marks_.size(); ++word) {
            for (; marks_[word]; marks_[word] &= marks_[word] - 1) {
                const std::size_t atom = word * 64 + std::size_t(__builtin_ctzll(marks_[word]));
                const Index i = place_[atom];
                const T value = T(double(code.alpha[i]) * unit);
                finite = finite && std::isfinite(value);
                tiny = tiny || (std::fabs(value) < std::numeric_limits<T>::min() && code.alpha[i] != 0);
                if (value == 0) continue;  // possible with λ1 = 0, or by underflow
                indices[written] = std::int32_t(atom);
                values[written] = value;
                ++written;
                if (codes.keep_factors) order_.push_back(i);
            }
        }
        codes.indices.drop_last(code.size - written);
        codes.values.drop_last(code.size - written);
        Certificate certificate = {finite ? code.kkt : std::numeric_limits<double>::infinity(), 0};
        if (tiny && finite) {  // underflow has changed the code that was certified
            std::vector<T> alpha;
            for (Index i = 0; i < written; ++i) alpha.push_back(T(double(values[i]) / unit));
            certificate = encoder.certificate(x, code.lambda1, {indices, std::size_t(written)}, alpha);
        }
        double lambda1 = goal.amount;
        bool as_certified = true;
        if (goal.rule != Rule::penalty) {
            lambda1 = code.lambda1 * loaded.scale * encoder.scale();
            as_certified = lambda1 / encoder.scale() / loaded.scale == code.lambda1 && (!tiny || goal.rule == Rule::n_nonzero);
        }
        const auto status = std::uint8_t(certificate.worst() <= promised_kkt<T> && as_certified ? code.status : Status::inexact);
        const T kkt = T(certificate.reported(promised_kkt<T>));
        const std::int32_t steps = code.steps;
        const std::int64_t end = codes.indices.size();
        codes.indptr.append(&end, 1);
        codes.status.append(&status, 1);
        codes.kkt.append(&kkt, 1);
        codes.steps.append(&steps, 1);
        codes.lambda1.append(&lambda1, 1);
        if (codes.keep_factors) {
            const std::vector<T> inverse = encoder.inverse(code, order_, scratch);
            for (Index i = 0; i < written; ++i) codes.factors.append(inverse.data() + i * written, i + 1);
        }
    }

  private:
    std::vector<std::uint64_t> marks_;
    std::vector<std::int32_t> place_;
    std::vector<Index> order_;
};

// Encodes blocks of signals; one per thread.
template <class T>
class Worker {
  public:
    Worker(const Encoder<T>& encoder, Index size) : encoder_(encoder), scratch_(encoder), block_(encoder, size), writer_(encoder.atoms()) {}

    // Appends the codes of `rows` signals, and prefetches those from `upcoming` on.
    template <template <class> class Signals>
    void encode(const Signals<T>& signals, const Goals& goals, Index first, Index rows, Index upcoming, Codes<T>& codes, Interrupt& interrupt) {
        const Index m = encoder_.features();
        load_block(encoder_, signals, first, rows, block_);
        for (Index r = 0; r < rows; ++r) {
            if (r % 8 == 0) interrupt.poll();
            if (upcoming + r < signals.rows) prefetch(signals, upcoming + r, m);
            const T* x = block_.x.data() + r * m;
            const Loaded& loaded = block_.loaded[std::size_t(r)];
            const Goal goal = goals.of(first + r);
            const Code<T> code = encoder_.encode(x, loaded, block_.c.data() + r * stride(encoder_), goal, scratch_, interrupt);
            writer_.write(encoder_, code, x, loaded, goal, scratch_, codes);
        }
    }

  private:
    const Encoder<T>& encoder_;
    typename Encoder<T>::Scratch scratch_;
    Block<T> block_;
    Writer<T> writer_;
};

constexpr Index cache_bytes = Index(1) << 18;  // the second-level cache, or a little less
constexpr Index min_block = 24, max_block = 192;
constexpr Index blocks_per_thread = 4;  // at least, for even shares
constexpr Index tile_multiple = 12;     // whole tiles of the product

// Signals per block: small enough for the second-level cache and for even shares, large enough for the product.
template <class T>
Index block_size(const Encoder<T>& encoder, Index rows, int n_threads) {
    const Index bytes = encoder.features() * (sizeof(T) == 8 ? 12 : 4) + stride(encoder) * 4;
    const Index fits = std::clamp(cache_bytes / bytes / min_block * min_block, min_block, max_block);
    const Index shares = blocks_per_thread * Index(n_threads), share = round_up((rows + shares - 1) / shares, tile_multiple);
    return std::max<Index>(1, std::min(fits, share));
}

}  // namespace

template <class T, template <class> class Signals>
void encode(const Encoder<T>& encoder, const Signals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt) {
    const double p = double(encoder.atoms()), m = double(encoder.features());
    const double each = cost::per_signal + cost::per_correlation * p + cost::per_signal_product * m * p;
    n_threads = worthwhile_threads(n_threads, double(signals.rows) * each);
    const Index size = block_size(encoder, signals.rows, n_threads);
    const Index blocks = (signals.rows + size - 1) / size;
    encode_blocks(blocks, codes, n_threads, interrupt, [&] {
        return [&, worker = std::make_unique<Worker<T>>(encoder, size)](Index b, Index upcoming, Codes<T>& part) {
            worker->encode(signals, goals, b * size, std::min(size, signals.rows - b * size), upcoming * size, part, interrupt);
        };
    });
}

#define TASKDICT_INSTANTIATE(T)                                                                                                 \
    template void encode<T, DenseSignals>(const Encoder<T>&, const DenseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&); \
    template void encode<T, SparseSignals>(const Encoder<T>&, const SparseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
