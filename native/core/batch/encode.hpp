// Encoding a batch: threads share blocks of signals, and the codes are collected in order.
#pragma once

#include "batch/codes.hpp"
#include "batch/signals.hpp"
#include "dictionary/encoder.hpp"

namespace taskdict {

// Appends the codes of all signals, each at the point of its path that `goals` chooses.
// Their bits do not depend on the number of threads. Throws BadSignal or Interrupted.
template <class T, template <class> class Signals>
void encode(const Encoder<T>& encoder, const Signals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
