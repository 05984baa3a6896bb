// The certificate of a code: a bound on its violation of Lemma 1.
#pragma once

namespace taskdict {

// The bound on violations that the report promises, relative to max(λ1, ‖Dᵀx‖∞).
template <class T>
inline constexpr double promised_kkt = sizeof(T) == 4 ? 1e-4 : 1e-10;

// The largest violation of Lemma 1 by a code, relative to max(λ1, ‖Dᵀx‖∞), and a bound on the error of that measurement.
struct Certificate {
    double kkt = 0;
    double bound = 0;
    double worst() const { return kkt + bound; }
    // The measured violation. If only its error bound exceeds the promise, their sum.
    double reported(double promise) const { return kkt <= promise && worst() > promise ? worst() : kkt; }

    // From absolute numbers and a scale that may be zero. NaN stays NaN.
    static Certificate relative(double violation, double bound, double scale) {
        const auto of = [scale](double value) { return value <= 0 ? 0.0 : value / scale; };
        return {of(violation), of(bound)};
    }
};

}  // namespace taskdict
