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
};

// Few numbers, many of them neighbours: only words that are not 0 are there, in order, and how many
// of them are before each of the parts of the range. What a set does not have is found out in the
// parts, which are few, and so at hand when memory is slow.
class SparseBits {
  public:
    // Make room for numbers below *bound*.
    void reserve(size_t bound) {
        const size_t size = (bound + PART * Bits::SIZE - 1) / (PART * Bits::SIZE);
        if (parts_.size() < size) parts_.resize(size, {0, uint32_t(used_.size())});
    }
    // How many parts there are; none before the first `reserve`.
    size_t size() const { return parts_.size(); }
    bool has(uint32_t number) const { return word(number / Bits::SIZE) & BitsAt::bit(number); }
    const std::vector<BitsAt>& used() const { return used_; }

    // Numbers that lie side by side, from *at* * Bits::SIZE on.
    uint64_t word(uint32_t at) const {
        if (at / PART >= parts_.size()) return 0;
        const Part& part = parts_[at / PART];
        return part.words & BitsAt::bit(at) ? used_[part.place(at)].bits : 0;
    }

    // Soon somebody will ask for the first of them: memory is slower than we are.
    void expect() const {
        constexpr size_t LINE = 5, LINES = 8;  // words, or nearly
        const size_t size = std::min(used_.size(), LINE * LINES);
        for (size_t at = 0; at < size; at += LINE) __builtin_prefetch(&used_[at]);
    }

    // There is room for *number*.
    void add(uint32_t number) {
        const uint32_t at = number / Bits::SIZE;
        Part& part = parts_[at / PART];
        const uint32_t place = part.place(at);
        if (part.words & BitsAt::bit(at)) return used_[place].add(number);
        used_.insert(used_.begin() + place, BitsAt::of(number));
        part.words |= BitsAt::bit(at);
        for (size_t later = at / PART + 1; later < parts_.size(); ++later) ++parts_[later].before;
    }

    void erase(uint32_t number) noexcept {
        if (!has(number)) return;
        const uint32_t at = number / Bits::SIZE;
        Part& part = parts_[at / PART];
        const uint32_t place = part.place(at);
        used_[place].erase(number);
        if (used_[place].bits) return;
        used_.erase(used_.begin() + place);
        part.words &= ~BitsAt::bit(at);
        for (size_t later = at / PART + 1; later < parts_.size(); ++later) --parts_[later].before;
    }

  private:
    static constexpr uint32_t PART = 64;  // words

    struct Part {
        uint64_t words;   // those that are not 0, as bits
        uint32_t before;  // how many there are in the parts before

        // Where the word at *at* is among the used ones, or would be.
        uint32_t place(uint32_t at) const {
            return before + count(words & (BitsAt::bit(at) - 1));
        }

        // The builtin is a call into a library, for it must do without the processor's instruction.
        static uint32_t count(uint64_t bits) {
            bits -= bits >> 1 & 0x5555555555555555u;
            bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
            bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
            return uint32_t(bits * 0x0101010101010101u >> 56);
        }
    };

    std::vector<Part> parts_;
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

// Says of a hash that it was not added, or that it may have been: a bit for each, of eight at least.
class BloomFilter {
  public:
    explicit BloomFilter(size_t room) {
        while (words_.size() * BitsAt::SIZE < room * SPARSE) {
            words_.resize(words_.size() * 2);
            --shift_;
        }
    }

    bool may_have(uint64_t hash) const {
        return words_[hash >> shift_] >> (hash % BitsAt::SIZE) & 1;
    }
    // So many were added that most would be found.
    bool is_full() const { return added_ * SPARSE >= words_.size() * BitsAt::SIZE; }
    void add(uint64_t hash) {
        words_[hash >> shift_] |= BitsAt::bit(uint32_t(hash));
        ++added_;
    }

  private:
    static constexpr size_t SPARSE = 8;

    std::vector<uint64_t> words_ = std::vector<uint64_t>(2);
    unsigned shift_ = 63;
    size_t added_ = 0;
};

}  // namespace dragoman
