// Containers of the kernel: hash tables without tombstones, interned strings, pools of numbered
// slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dragoman {

constexpr uint32_t NONE = 0xffffffffu;

using Words = std::vector<uint32_t>;

// Strangers choose names and values: the seed keeps them from choosing collisions.
inline uint64_t seed() {
    static const uint64_t value = [] {
        std::random_device device;
        return (uint64_t(device()) << 32) ^ device() ^ 0x9e3779b97f4a7c15ull;
    }();
    return value;
}

inline uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t product = __uint128_t(a) * b;
    return uint64_t(product) ^ uint64_t(product >> 64);
}

inline uint64_t hash_number(uint64_t key) {
    return mix(key ^ seed(), 0x9e3779b97f4a7c15ull);
}

inline uint64_t read_8(const char* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}
inline uint64_t read_4(const char* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

inline uint64_t hash_octets(const char* data, size_t length) {
    uint64_t hash = seed() ^ (length * 0xa0761d6478bd642full);
    // What is left in the end is read together with octets before it: the length tells them apart.
    uint64_t last = 0;
    if (length > 8) {
        const char* end = data + length - 8;
        for (; data < end; data += 8) hash = mix(hash ^ read_8(data), 0xe7037ed1a0b428dbull);
        last = read_8(end);
    } else if (length >= 4) {
        last = read_4(data) << 32 | read_4(data + length - 4);
    } else if (length) {
        last = uint64_t(uint8_t(data[0])) << 16 | uint64_t(uint8_t(data[length / 2])) << 8 |
               uint8_t(data[length - 1]);
    }
    return mix(mix(hash ^ last, 0x8ebc6af09c88c6e3ull), 0x589965cc75374cc3ull);
}

constexpr uint64_t SALT = 0x9e3779b97f4a7c15ull;

inline uint64_t hash_words(const Words& words) {
    return hash_octets(reinterpret_cast<const char*>(words.data()),
                       words.size() * sizeof(uint32_t));
}

// Make room for some *more*. Vectors grow by a quarter: with a hundred thousand filters, what lies
// idle counts more than how often things move.
template <typename T>
void reserve_for(std::vector<T>& vector, size_t more) {
    const size_t wanted = vector.size() + more;
    if (wanted > vector.capacity()) vector.reserve(std::max(wanted, vector.size() / 4 * 5 + 16));
}

// A hash table with linear probing, of which at most *PERCENT* are taken; its size grows by a
// quarter, too. Where one goes, those behind it close up.
//
// A *Row* says whether it `is_taken`, which a new one is not, and its 64-bit `hash`, of which the
// upper bits count.
template <typename Row, size_t PERCENT>
class HashTable {
  public:
    size_t size() const { return count_; }

    // Soon somebody will ask for it: memory is slower than we are.
    void expect(uint64_t hash) const {
        if (count_) __builtin_prefetch(&rows_[home(hash)]);
    }

    // The row with this hash that is the *same*, or null.
    template <typename Same>
    const Row* find(uint64_t hash, Same same) const {
        if (!count_) return nullptr;
        for (size_t at = home(hash);; at = after(at)) {
            const Row& row = rows_[at];
            if (!row.is_taken()) return nullptr;
            if (same(row)) return &row;
        }
    }

    // One that was not there.
    Row* add(const Row& row) {
        make_room();
        ++count_;
        return put(row);
    }

    // Nothing fails when the next one is added.
    void make_room() {
        if ((count_ + 1) * 100 > slots_ * PERCENT) {
            resize(std::max<size_t>(16, slots_ / 4 * 5));
        }
    }

    // One that is there.
    void erase(const Row* row) noexcept {
        auto at = size_t(row - rows_.data());
        for (size_t next = after(at); rows_[next].is_taken(); next = after(next)) {
            if (may_move(at, next)) {
                rows_[at] = rows_[next];
                at = next;
            }
        }
        rows_[at] = Row();
        --count_;
        // So few are less than half of what there may be.
        if (slots_ > 64 && count_ * 225 < slots_ * PERCENT) shrink();
    }

    // Call *take* with each row.
    template <typename Take>
    void each(Take take) {
        for (Row& row : rows_) {
            if (row.is_taken()) take(row);
        }
    }

    void clear() noexcept {
        std::vector<Row>().swap(rows_);
        slots_ = count_ = 0;
    }

  private:
    // Where the search for a hash begins.
    size_t home(uint64_t hash) const { return size_t(__uint128_t(hash) * slots_ >> 64); }
    size_t after(size_t at) const { return at + 1 == slots_ ? 0 : at + 1; }

    // Whether what is at *next* is found at *at*, too.
    bool may_move(size_t at, size_t next) const {
        const size_t from = home(rows_[next].hash());
        return at <= next ? from <= at || from > next : from <= at && from > next;
    }

    Row* put(const Row& row) {
        size_t at = home(row.hash());
        while (rows_[at].is_taken()) at = after(at);
        rows_[at] = row;
        return &rows_[at];
    }

    // Where there is no memory for fewer slots, there are as many as before.
    void shrink() noexcept {
        try {
            resize(slots_ / 3 * 2);
        } catch (const std::bad_alloc&) {
        }
    }

    void resize(size_t size) {
        std::vector<Row> rows(size);
        rows.swap(rows_);
        slots_ = size;
        for (const Row& row : rows) {
            if (row.is_taken()) put(row);
        }
    }

    std::vector<Row> rows_;
    size_t slots_ = 0;  // their number: to ask the vector takes a division
    size_t count_ = 0;
};

// 64-bit keys to 32-bit values.
class NumberMap {
  public:
    uint32_t find(uint64_t key) const {
        const Row* row = row_of(key);
        return row ? row->value : NONE;
    }

    void set(uint64_t key, uint32_t value) {
        if (const Row* row = row_of(key)) const_cast<Row*>(row)->value = value;
        else rows_.add({key, value});
    }

    void make_room() { rows_.make_room(); }

    void erase(uint64_t key) noexcept {
        if (const Row* row = row_of(key)) rows_.erase(row);
    }

    size_t size() const { return rows_.size(); }
    void clear() noexcept { rows_.clear(); }

  private:
// A row is 12 octets.
#pragma pack(push, 4)
    struct Row {
        uint64_t key = 0;
        uint32_t value = NONE;

        bool is_taken() const { return value != NONE; }
        uint64_t hash() const { return hash_number(key); }
    };
#pragma pack(pop)

    const Row* row_of(uint64_t key) const {
        return rows_.find(hash_number(key), [&](const Row& row) { return row.key == key; });
    }

    HashTable<Row, 75> rows_;
};

// Hashes to numbers whose equality the caller judges (the keys lie elsewhere).
class HashIndex {
  public:
    // Soon somebody will ask for this one.
    void expect(uint32_t hash) const { rows_.expect(widened(hash)); }

    template <typename Same>
    uint32_t find(uint32_t hash, Same same) const {
        const Row* row = rows_.find(widened(hash), [&](const Row& one) {
            return one.upper == hash && same(one.number);
        });
        return row ? row->number : NONE;
    }

    void add(uint32_t hash, uint32_t number) { rows_.add({hash, number}); }

    void make_room() { rows_.make_room(); }

    void erase(uint32_t hash, uint32_t number) noexcept {
        rows_.erase(
            rows_.find(widened(hash), [&](const Row& row) { return row.number == number; }));
    }

  private:
    struct Row {
        uint32_t upper = 0;  // half of the hash
        uint32_t number = NONE;

        bool is_taken() const { return number != NONE; }
        uint64_t hash() const { return widened(upper); }
    };

    static uint64_t widened(uint32_t hash) { return uint64_t(hash) << 32; }

    HashTable<Row, 50> rows_;  // most are asked in vain
};

// Numbered slots; a number that was let go of is used again, the lowest ones are not preferred.
template <typename T>
class Pool {
  public:
    uint32_t add(T value) {
        make_room();
        ++live_;
        if (live_ > slots_.size()) {
            slots_.push_back(std::move(value));
            return uint32_t(slots_.size() - 1);
        }
        while (!free_[next_]) next_ = next_ + 1 == free_.size() ? 0 : next_ + 1;
        const auto number = uint32_t(next_ * 64 + size_t(__builtin_ctzll(free_[next_])));
        free_[next_] &= free_[next_] - 1;
        slots_[number] = std::move(value);
        return number;
    }

    // Nothing fails when so many are added, nor when they are erased.
    void make_room(size_t more = 1) {
        const size_t idle = slots_.size() - live_;
        if (more <= idle) return;
        reserve_for(slots_, more - idle);
        if (free_.size() * 64 < slots_.capacity()) free_.resize(slots_.capacity() / 64 + 1);
    }

    void erase(uint32_t number) noexcept {
        slots_[number] = T();
        next_ = number / 64;
        free_[next_] |= uint64_t(1) << (number % 64);
        --live_;
    }

    T& operator[](uint32_t number) { return slots_[number]; }
    const T& operator[](uint32_t number) const { return slots_[number]; }
    uint32_t bound() const { return uint32_t(slots_.size()); }
    size_t live() const { return live_; }

  private:
    std::vector<T> slots_;
    std::vector<uint64_t> free_;  // bits
    size_t next_ = 0;             // the word of bits to look at first
    size_t live_ = 0;
};

// Strings that filters name, each once, with a count of its users.
class Strings {
  public:
    ~Strings() {
        for (uint32_t number = 0; number < strings_.bound(); ++number)
            ::operator delete(strings_[number].data);
    }

    uint32_t find(std::string_view text) const {
        return may_be(text) ? find(text, hash_of(text)) : NONE;
    }

    // The same in steps, for memory is slower than we are: somebody else is looked for between
    // them. A text that may be one; whose number is like, if there is any; and is it.
    bool may_be(std::string_view text) const { return text.size() <= longest_; }
    static uint32_t hash_of(std::string_view text) {
        return uint32_t(hash_octets(text.data(), text.size()));
    }
    void expect_like(uint32_t hash) const { index_.expect(hash); }
    uint32_t like(uint32_t hash) const {
        const uint32_t number = index_.find(hash, [](uint32_t) { return true; });
        if (number != NONE) expect(number);
        return number;
    }
    void expect(uint32_t number) const { __builtin_prefetch(&strings_[number]); }
    void expect_text(uint32_t number) const { __builtin_prefetch(strings_[number].data); }
    uint32_t find(std::string_view text, uint32_t hash, uint32_t like) const {
        return like == NONE || (*this)[like] == text ? like : find(text, hash);
    }

    uint32_t keep(std::string_view text) {
        const uint32_t hash = hash_of(text);
        uint32_t number = find(text, hash);
        if (number == NONE) {
            strings_.make_room();
            index_.make_room();
            auto* data = static_cast<char*>(::operator new(text.size() + 1));
            text.copy(data, text.size());
            number = strings_.add({data, uint32_t(text.size()), 0});
            index_.add(hash, number);
            if (text.size() > longest_) longest_ = text.size();
        }
        ++strings_[number].users;
        return number;
    }

    void keep(uint32_t number) { ++strings_[number].users; }

    void let_go(uint32_t number) noexcept {
        String& string = strings_[number];
        if (--string.users) return;
        index_.erase(hash_of({string.data, string.size}), number);
        ::operator delete(string.data);
        strings_.erase(number);
    }

    size_t size() const { return strings_.live(); }

    std::string_view operator[](uint32_t number) const {
        return {strings_[number].data, strings_[number].size};
    }

  private:
    struct String {
        char* data = nullptr;
        uint32_t size = 0, users = 0;
    };

    uint32_t find(std::string_view text, uint32_t hash) const {
        return index_.find(hash, [&](uint32_t number) { return (*this)[number] == text; });
    }

    Pool<String> strings_;
    HashIndex index_;
    size_t longest_ = 0;
};

}  // namespace dragoman
