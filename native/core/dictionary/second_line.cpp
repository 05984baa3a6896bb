#include "dictionary/second_line.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace taskdict {
namespace {

constexpr Index max_atoms = 8192;  // of single-precision dictionaries: M takes half a gigabyte in double

}  // namespace

SecondLine<double>::SecondLine(const ScaledDictionary<double>& dictionary, int n_threads, Interrupt& interrupt)
    : solver_(dictionary.data(), dictionary.atoms(), dictionary.features(), dictionary.lambda2(), dictionary.bounds(), n_threads, interrupt) {}

const DoubleSolver* SecondLine<float>::solver(Interrupt& interrupt) const {
    const Index p = dictionary_.atoms(), m = dictionary_.features();
    if (p > max_atoms) return nullptr;
    std::unique_lock lock(mutex_, std::try_to_lock);
    for (; !lock; (void)lock.try_lock()) {
        interrupt.poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!solver_) {
        atoms_ = Array<double>(p * m);
        std::copy_n(dictionary_.data(), p * m, atoms_.data());
        solver_ = std::make_unique<const DoubleSolver>(atoms_.data(), p, m, dictionary_.lambda2(), dictionary_.bounds(), 1, interrupt);
    }
    return solver_.get();
}

const double* SecondLine<float>::widen(const float* x, Scratch& scratch) const {
    if (scratch.x.size() == 0) scratch.x = Array<double>(dictionary_.features());
    std::copy_n(x, dictionary_.features(), scratch.x.data());
    return scratch.x.data();
}

}  // namespace taskdict
