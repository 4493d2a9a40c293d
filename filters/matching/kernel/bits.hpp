// Sets of numbers as rows of bits.
#pragma once

#include <algorithm>
#include <vector>

#include "containers.hpp"

namespace dragoman {

class SparseBits;

// Numbers that lie side by side. A word of them is 12 octets.
#pragma pack(push, 4)
struct BitsAt {
    static constexpr size_t SIZE = 64;

    uint64_t bits;
    uint32_t at;  // numbers / SIZE

    static BitsAt of(uint32_t number) { return {bit(number), uint32_t(number / SIZE)}; }
    static uint64_t bit(uint32_t number) { return uint64_t(1) << (number % SIZE); }

    bool covers(uint32_t number) const { return number / SIZE == at; }
    bool has(uint32_t number) const { return bits & bit(number); }
    void add(uint32_t number) { bits |= bit(number); }
    void erase(uint32_t number) { bits &= ~bit(number); }

    // Call *take* with each number.
    template <typename Take>
    void each(Take take) const {
        for (uint64_t word = bits; word; word &= word - 1) {
            take(uint32_t(at * SIZE + __builtin_ctzll(word)));
        }
    }
};
#pragma pack(pop)

class Bits {
  public:
    static constexpr size_t SIZE = BitsAt::SIZE;  // of a word

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

    // Add those of *others*; returns those that were not there.
    BitsAt put(BitsAt others) {
        uint64_t& word = words_[others.at];
        const uint64_t fresh = others.bits & ~word;
        word |= others.bits;
        return {fresh, others.at};
    }

    // Those of *others* that are here.
    BitsAt in(BitsAt others) const { return {others.bits & words_[others.at], others.at}; }

    // Add *number*, and to *again* if it was there.
    void merge(uint32_t number, Bits& again) {
        uint64_t& word = words_[number / SIZE];
        again.words_[number / SIZE] |= word & bit(number);
        word |= bit(number);
    }

    // The same for all of *others*, for whose words there is room.
    void merge(const SparseBits& others, Bits& again);

    // Call *take* with each number.
    template <typename Take>
    void each(Take take) const {
        for (size_t at = 0; at < words_.size(); ++at) BitsAt{words_[at], uint32_t(at)}.each(take);
    }

    // Call *take* with each number that is in *others* too.
    template <typename Take>
    void each_in(const Bits& others, Take take) const {
        const size_t size = std::min(words_.size(), others.words_.size());
        for (size_t at = 0; at < size; ++at) {
            BitsAt{words_[at] & others.words_[at], uint32_t(at)}.each(take);
        }
    }

  private:
    static uint64_t bit(uint32_t number) { return BitsAt::bit(number); }

    std::vector<uint64_t> words_;

    friend class SparseBits;
};

// Few numbers, many of them neighbours: the words that are not 0 lie side by side once more.
class SparseBits {
  public:
    // As of Bits.
    void reserve(size_t bound) { bits_.reserve(bound); }
    size_t size() const { return bits_.size(); }
    bool covers(uint32_t number) const { return bits_.covers(number); }
    bool has(uint32_t number) const { return bits_.has(number); }
    const uint64_t* data() const { return bits_.words_.data(); }
    const std::vector<BitsAt>& used() const { return used_; }

    // Soon somebody will ask for the first of them: memory is slower than we are.
    void expect() const {
        constexpr size_t LINE = 5, LINES = 8;  // words, or nearly
        const size_t size = std::min(used_.size(), LINE * LINES);
        for (size_t at = 0; at < size; at += LINE) __builtin_prefetch(&used_[at]);
    }

    void add(uint32_t number) {
        const uint32_t at = number / Bits::SIZE;
        if (!bits_.words_[at]) used_.push_back({0, at});
        bits_.add(number);
        find(at)->bits = bits_.words_[at];
    }

    void erase(uint32_t number) {
        const uint32_t at = number / Bits::SIZE;
        if (!bits_.has(number)) return;
        bits_.erase(number);
        const auto word = find(at);
        word->bits = bits_.words_[at];
        if (word->bits) return;
        *word = used_.back();
        used_.pop_back();
    }

  private:
    // The word at *at*, which is not 0. Most come in order.
    std::vector<BitsAt>::reverse_iterator find(uint32_t at) {
        return std::find_if(used_.rbegin(), used_.rend(),
                            [&](const BitsAt& word) { return word.at == at; });
    }

    Bits bits_;
    std::vector<BitsAt> used_;
};

inline void Bits::merge(const SparseBits& others, Bits& again) {
    uint64_t* here = words_.data();
    uint64_t* twice = again.words_.data();
    for (const BitsAt& word : others.used()) {
        twice[word.at] |= here[word.at] & word.bits;
        here[word.at] |= word.bits;
    }
}

}  // namespace dragoman
