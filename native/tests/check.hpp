// Tests of the core without Python, to be run under the sanitizers (see CONTRIBUTING.md). They assert optimality.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "types.hpp"

namespace taskdict::tests {

// Counts a passed or failed test; a failure is printed.
void check(bool good, const char* what, const char* type);

// One per concept.
void test_coding();
void test_pursuit();
void test_adjoints();
void test_learning();
void test_images();
void test_system();

template <class T>
constexpr const char* type_name = sizeof(T) == 4 ? "float" : "double";

template <class T>
std::vector<T> random_numbers(Index count, unsigned seed, bool integers = false) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int> digit(-1, 1);
    std::vector<T> numbers(static_cast<std::size_t>(count));
    for (T& number : numbers) number = integers ? T(digit(generator)) : T(normal(generator));
    return numbers;
}

}  // namespace taskdict::tests
