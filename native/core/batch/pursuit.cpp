#include "batch/pursuit.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "batch/blocks.hpp"
#include "system/cost_model.hpp"

namespace taskdict {
namespace {

// A block of loaded signals: scaled, in contiguous rows, with their correlations if there is a Gram matrix.
template <class T>
struct Block {
    Block(const MatchingPursuit<T>& pursuit, Index capacity)
        : x(capacity * pursuit.features()), c(capacity * pursuit.stride()), signals(std::size_t(capacity)), results(std::size_t(capacity)) {}

    Array<T> x, c;
    std::vector<typename MatchingPursuit<T>::Signal> signals;
    std::vector<typename MatchingPursuit<T>::Result> results;
};

template <class T>
void correlate(const MatchingPursuit<T>& pursuit, const DenseSignals<T>&, Index, Index rows, Block<T>& block) {
    pursuit.correlate(block.x.data(), rows, block.c.data());
}

template <class T>
void correlate(const MatchingPursuit<T>& pursuit, const SparseSignals<T>& signals, Index first, Index rows, Block<T>& block) {
    for (Index r = 0; r < rows; ++r) {
        const Index start = signals.start(first + r), count = signals.count(first + r);
        const std::int32_t* const indices = signals.indices.data() + start;
        std::vector<T> values;  // as scaled; a feature that occurs twice has its sum once
        std::vector<std::int32_t> features(indices, indices + count);
        std::sort(features.begin(), features.end());
        features.erase(std::unique(features.begin(), features.end()), features.end());
        for (const std::int32_t feature : features) values.push_back(block.x[r * pursuit.features() + feature]);
        pursuit.correlate_sparse(features.data(), values.data(), Index(features.size()), block.c.data() + r * pursuit.stride());
    }
}

template <class T, template <class> class Signals>
void load_block(const MatchingPursuit<T>& pursuit, const Signals<T>& signals, Index first, Index rows, Block<T>& block) {
    const Index m = pursuit.features();
    for (Index r = 0; r < rows; ++r)
        block.signals[std::size_t(r)].loaded = load_row<T>(signals, first + r, m, pursuit.scales_signals(), block.x.data() + r * m, nullptr);
    if (pursuit.has_gram()) correlate(pursuit, signals, first, rows, block);
}

// Appends the code of one signal, in ascending order of the atoms.
template <class T>
void append(const typename MatchingPursuit<T>::Result& result, std::vector<std::pair<std::int32_t, T>>& sorted, Codes<T>& codes) {
    sorted.clear();
    for (std::size_t i = 0; i < result.atoms.size(); ++i)
        if (result.alpha[i] != 0) sorted.emplace_back(result.atoms[i], result.alpha[i]);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::int32_t* indices = codes.indices.extend(Index(sorted.size()));
    T* values = codes.values.extend(Index(sorted.size()));
    for (const auto& [atom, value] : sorted) *indices++ = atom, *values++ = value;
    const T kkt = T(result.kkt);
    const std::int32_t steps = std::int32_t(result.atoms.size());
    const std::int64_t end = codes.indices.size();
    codes.indptr.append(&end, 1);
    codes.status.append(&result.status, 1);
    codes.kkt.append(&kkt, 1);
    codes.steps.append(&steps, 1);
    const double none = std::numeric_limits<double>::quiet_NaN();
    codes.lambda1.append(&none, 1);
}

constexpr Index cache_bytes = Index(1) << 18;  // the second-level cache, or a little less
constexpr Index min_block = 24, max_block = 96;
constexpr Index blocks_per_thread = 4;  // at least, for even shares
constexpr Index tile_multiple = 12;     // whole tiles of the product

// Signals per block: small enough for the second-level cache and for even shares, large enough for the product.
template <class T>
Index block_size(const MatchingPursuit<T>& pursuit, Index rows, int n_threads) {
    const Index bytes = (pursuit.features() + pursuit.stride()) * Index(sizeof(T));
    const Index fits = pursuit.has_gram() ? std::clamp(cache_bytes / bytes / min_block * min_block, min_block, max_block) : max_block;
    const Index shares = blocks_per_thread * Index(n_threads), share = round_up((rows + shares - 1) / shares, tile_multiple);
    return std::max<Index>(1, std::min(fits, share));
}

}  // namespace

template <class T, template <class> class Signals>
void pursue(const MatchingPursuit<T>& pursuit, const Signals<T>& signals, const PursuitRules& rules, Codes<T>& codes, int n_threads,
            Interrupt& interrupt) {
    const Index p = pursuit.atoms(), m = pursuit.features(), most = std::min(p, m);
    n_threads = worthwhile_threads(n_threads, double(signals.rows) * (cost::per_signal + cost::per_pursuit_product * double(m) * double(p)));
    const Index size = block_size(pursuit, signals.rows, n_threads), blocks = (signals.rows + size - 1) / size;
    struct Memory {
        Memory(const MatchingPursuit<T>& pursuit, Index size) : scratch(pursuit), block(pursuit, size) {}
        typename MatchingPursuit<T>::Scratch scratch;
        Block<T> block;
        std::vector<std::pair<std::int32_t, T>> sorted;
    };
    encode_blocks(blocks, codes, n_threads, interrupt, [&] {
        return [&, memory = std::make_unique<Memory>(pursuit, size)](Index b, Index, Codes<T>& part) {
            Block<T>& block = memory->block;
            const Index first = b * size, rows = std::min(size, signals.rows - first);
            load_block(pursuit, signals, first, rows, block);
            for (Index r = 0; r < rows; ++r) {
                auto& signal = block.signals[std::size_t(r)];
                signal.x = block.x.data() + r * m;
                signal.c = pursuit.has_gram() ? block.c.data() + r * pursuit.stride() : nullptr;
                signal.rule = rules.of(first + r, most);
            }
            pursuit.pursue({block.signals.data(), std::size_t(rows)}, {block.results.data(), std::size_t(rows)}, memory->scratch, interrupt);
            for (Index r = 0; r < rows; ++r) append(block.results[std::size_t(r)], memory->sorted, part);
        };
    });
}

#define TASKDICT_INSTANTIATE(T)                                                                                                                \
    template void pursue<T, DenseSignals>(const MatchingPursuit<T>&, const DenseSignals<T>&, const PursuitRules&, Codes<T>&, int, Interrupt&); \
    template void pursue<T, SparseSignals>(const MatchingPursuit<T>&, const SparseSignals<T>&, const PursuitRules&, Codes<T>&, int, Interrupt&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
