#include "batch/encode.hpp"

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "system/cost_model.hpp"
#include "system/threads.hpp"

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

// Blocks end in any order; their codes are appended in the order of the signals.
template <class T>
class InOrder {
  public:
    explicit InOrder(Codes<T>& codes) : codes_(codes) {}

    void add(Index block, std::unique_ptr<Codes<T>> part) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(block, std::move(part));
        for (auto ready = waiting_.find(next_); ready != waiting_.end(); ready = waiting_.find(++next_)) {
            codes_.append(*ready->second);
            waiting_.erase(ready);
        }
    }

  private:
    Codes<T>& codes_;
    std::mutex mutex_;
    std::map<Index, std::unique_ptr<Codes<T>>> waiting_;
    Index next_ = 0;
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
    InOrder<T> in_order(codes);
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr cause;  // the first error; the other threads then stop as if interrupted
    // Scratch is made once per thread, blocks are taken as they come.
    const auto take_blocks = [&] {
        if (next.load() >= blocks || interrupt.stopped()) return;
        try {
            typename Encoder<T>::Scratch scratch(encoder);
            Block<T> block(encoder, size);
            Writer<T> writer(encoder.atoms());
            for (Index b = next.fetch_add(1), upcoming; b < blocks; b = upcoming) {
                upcoming = should_retire() ? blocks : next.fetch_add(1);
                const Index first = b * size, rows = std::min(size, signals.rows - first);
                load_block(encoder, signals, first, rows, block);
                auto part = std::make_unique<Codes<T>>(codes.keep_factors);
                for (Index r = 0; r < rows; ++r) {
                    if (r % 8 == 0) interrupt.poll();
                    if (upcoming * size + r < signals.rows) prefetch(signals, upcoming * size + r, encoder.features());
                    const T* x = block.x.data() + r * encoder.features();
                    const Loaded& loaded = block.loaded[std::size_t(r)];
                    const Code<T> code = encoder.encode(x, loaded, block.c.data() + r * stride(encoder), goals.of(first + r), scratch, interrupt);
                    writer.write(encoder, code, x, loaded, goals.of(first + r), scratch, *part);
                }
                in_order.add(b, std::move(part));
            }
        } catch (const Interrupted&) {
            interrupt.stop();
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!cause) cause = std::current_exception();
            interrupt.stop();
        }
    };
    in_threads(std::min<Index>(n_threads, blocks), n_threads, &interrupt, [&](Index) { take_blocks(); });
    take_blocks();  // the blocks that helpers left when they retired early
    if (cause) std::rethrow_exception(cause);
    if (interrupt.stopped()) throw Interrupted{};
}

#define TASKDICT_INSTANTIATE(T)                                                                                                 \
    template void encode<T, DenseSignals>(const Encoder<T>&, const DenseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&); \
    template void encode<T, SparseSignals>(const Encoder<T>&, const SparseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
