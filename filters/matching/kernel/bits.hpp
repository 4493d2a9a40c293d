// Sets of numbers as rows of bits.
#pragma once

#include <algorithm>
#include <vector>

#include "containers.hpp"

namespace dragoman {

class Bits {
  public:
    Bits() = default;
    explicit Bits(size_t bound) { reserve(bound); }

    // Make room for numbers below *bound*.
    void reserve(size_t bound) {
        const size_t size = (bound + SIZE - 1) / SIZE;
        if (words_.size() < size) words_.resize(size);
    }

    bool has(uint32_t number) const { return words_[number / SIZE] >> (number % SIZE) & 1; }
    void add(uint32_t number) { words_[number / SIZE] |= bit(number); }
    void erase(uint32_t number) { words_[number / SIZE] &= ~bit(number); }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }
    size_t size() const { return words_.size(); }
    // Whether there is room for *number*.
    bool covers(uint32_t number) const { return number / SIZE < words_.size(); }

    // False if it was there.
    bool put(uint32_t number) {
        uint64_t& word = words_[number / SIZE];
        if (word & bit(number)) return false;
        word |= bit(number);
        return true;
    }

    // Add *number*, and to *again* if it was there.
    void merge(uint32_t number, Bits& again) {
        uint64_t& word = words_[number / SIZE];
        again.words_[number / SIZE] |= word & bit(number);
        word |= bit(number);
    }

    // The same for all of *others*, which may be fewer words.
    void merge(const Bits& others, Bits& again) {
        uint64_t* __restrict__ here = words_.data();
        uint64_t* __restrict__ twice = again.words_.data();
        const uint64_t* __restrict__ other = others.words_.data();
        for (size_t at = 0; at < others.words_.size(); ++at) {
            twice[at] |= here[at] & other[at];
            here[at] |= other[at];
        }
    }

    // Call *take* with each number.
    template <typename Take>
    void each(Take take) const {
        for (size_t at = 0; at < words_.size(); ++at) each_of(words_[at], at, take);
    }

    // Call *take* with each number that is in *others* too.
    template <typename Take>
    void each_in(const Bits& others, Take take) const {
        const size_t size = std::min(words_.size(), others.words_.size());
        for (size_t at = 0; at < size; ++at) each_of(words_[at] & others.words_[at], at, take);
    }

  private:
    static constexpr size_t SIZE = 64;

    static uint64_t bit(uint32_t number) { return uint64_t(1) << (number % SIZE); }

    template <typename Take>
    static void each_of(uint64_t word, size_t at, Take take) {
        for (; word; word &= word - 1) take(uint32_t(at * SIZE + __builtin_ctzll(word)));
    }

    std::vector<uint64_t> words_;
};

}  // namespace dragoman
