// Containers of the kernel: hash tables without tombstones, interned strings, pools of numbered
// slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

// The slots of a hash table with linear probing, of which at most *PERCENT* are taken: their number
// grows by a quarter, too.
template <size_t PERCENT>
class Slots {
  public:
    // Where the search for a hash begins: its upper bits say so.
    size_t home(uint64_t hash) const { return size_t(__uint128_t(hash) * size_ >> 64); }
    size_t after(size_t at) const { return at + 1 == size_ ? 0 : at + 1; }

    // Whether what is at *next*, whose search begins at *home*, may move back to *at*.
    bool may_move(size_t at, size_t next, size_t home) const {
        return at <= next ? home <= at || home > next : home <= at && home > next;
    }

    size_t size() const { return size_; }
    void resize(size_t size) { size_ = size; }

    // How many there should be for one more than *count*; at least as many as there are.
    size_t wanted(size_t count) const {
        return is_full(count) ? std::max<size_t>(16, size_ / 4 * 5) : size_;
    }
    // Whether so few are less than half of what there may be.
    bool is_sparse(size_t count) const { return size_ > 64 && count * 225 < size_ * PERCENT; }
    size_t reduced() const { return size_ / 3 * 2; }

  private:
    bool is_full(size_t count) const { return (count + 1) * 100 > size_ * PERCENT; }

    size_t size_ = 0;
};

// 64-bit keys to 32-bit values; linear probing, deletion by moving back.
class NumberMap {
  public:
    uint32_t find(uint64_t key) const {
        if (!count_) return NONE;
        for (size_t at = home(key);; at = slots_.after(at)) {
            const Row& row = rows_[at];
            if (row.value == NONE || row.key == key) return row.value;
        }
    }

    void set(uint64_t key, uint32_t value) {
        if (const size_t size = slots_.wanted(count_); size != slots_.size()) resize(size);
        size_t at = home(key);
        while (rows_[at].value != NONE && rows_[at].key != key) at = slots_.after(at);
        if (rows_[at].value == NONE) ++count_;
        rows_[at] = {key, value};
    }

    void erase(uint64_t key) {
        if (!count_) return;
        size_t at = home(key);
        while (rows_[at].value != NONE && rows_[at].key != key) at = slots_.after(at);
        if (rows_[at].value == NONE) return;
        for (size_t next = slots_.after(at); rows_[next].value != NONE; next = slots_.after(next)) {
            if (slots_.may_move(at, next, home(rows_[next].key))) {
                rows_[at] = rows_[next];
                at = next;
            }
        }
        rows_[at].value = NONE;
        --count_;
        if (slots_.is_sparse(count_)) resize(slots_.reduced());
    }

    size_t size() const { return count_; }

    void clear() noexcept {
        std::vector<Row>().swap(rows_);
        slots_.resize(0);
        count_ = 0;
    }

  private:
// A row is 12 octets.
#pragma pack(push, 4)
    struct Row {
        uint64_t key;
        uint32_t value;
    };
#pragma pack(pop)

    size_t home(uint64_t key) const { return slots_.home(hash_number(key)); }

    void resize(size_t size) {
        std::vector<Row> rows(size, Row{0, NONE});
        rows.swap(rows_);
        slots_.resize(size);
        for (const Row& row : rows) {
            if (row.value == NONE) continue;
            size_t at = home(row.key);
            while (rows_[at].value != NONE) at = slots_.after(at);
            rows_[at] = row;
        }
    }

    std::vector<Row> rows_;
    Slots<75> slots_;
    size_t count_ = 0;
};

// Hashes to numbers whose equality the caller judges (the keys lie elsewhere).
class HashIndex {
  public:
    // Soon somebody will ask for this one.
    void expect(uint32_t hash) const {
        if (count_) __builtin_prefetch(&rows_[home(hash)]);
    }

    template <typename Same>
    uint32_t find(uint32_t hash, Same same) const {
        if (!count_) return NONE;
        for (size_t at = home(hash);; at = slots_.after(at)) {
            const Row& row = rows_[at];
            if (row.number == NONE) return NONE;
            if (row.hash == hash && same(row.number)) return row.number;
        }
    }

    void add(uint32_t hash, uint32_t number) {
        if (const size_t size = slots_.wanted(count_); size != slots_.size()) resize(size);
        size_t at = home(hash);
        while (rows_[at].number != NONE) at = slots_.after(at);
        rows_[at] = {hash, number};
        ++count_;
    }

    void erase(uint32_t hash, uint32_t number) {
        size_t at = home(hash);
        while (rows_[at].number != number) at = slots_.after(at);
        for (size_t next = slots_.after(at); rows_[next].number != NONE;
             next = slots_.after(next)) {
            if (slots_.may_move(at, next, home(rows_[next].hash))) {
                rows_[at] = rows_[next];
                at = next;
            }
        }
        rows_[at].number = NONE;
        --count_;
        if (slots_.is_sparse(count_)) resize(slots_.reduced());
    }

  private:
    struct Row {
        uint32_t hash, number;
    };

    size_t home(uint32_t hash) const { return slots_.home(uint64_t(hash) << 32); }

    void resize(size_t size) {
        std::vector<Row> rows(size, Row{0, NONE});
        rows.swap(rows_);
        slots_.resize(size);
        for (const Row& row : rows) {
            if (row.number == NONE) continue;
            size_t at = home(row.hash);
            while (rows_[at].number != NONE) at = slots_.after(at);
            rows_[at] = row;
        }
    }

    std::vector<Row> rows_;
    Slots<50> slots_;  // most are asked in vain
    size_t count_ = 0;
};

// Numbered slots; a number that was let go of is used again, the lowest ones are not preferred.
template <typename T>
class Pool {
  public:
    uint32_t add(T value) {
        if (free_.empty()) {
            reserve_for(slots_, 1);
            slots_.push_back(std::move(value));
            return uint32_t(slots_.size() - 1);
        }
        uint32_t number = free_.back();
        free_.pop_back();
        slots_[number] = std::move(value);
        return number;
    }

    void erase(uint32_t number) {
        slots_[number] = T();
        free_.push_back(number);
    }

    T& operator[](uint32_t number) { return slots_[number]; }
    const T& operator[](uint32_t number) const { return slots_[number]; }
    uint32_t bound() const { return uint32_t(slots_.size()); }
    size_t live() const { return slots_.size() - free_.size(); }

  private:
    std::vector<T> slots_;
    std::vector<uint32_t> free_;
};

// Strings that filters name, each once, with a count of its users.
class Strings {
  public:
    ~Strings() {
        for (uint32_t number = 0; number < strings_.bound(); ++number)
            std::free(strings_[number].data);
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
            char* data = static_cast<char*>(std::malloc(text.size() + 1));
            if (!data) throw std::bad_alloc();
            text.copy(data, text.size());
            number = strings_.add({data, uint32_t(text.size()), 0});
            index_.add(hash, number);
            if (text.size() > longest_) longest_ = text.size();
        }
        ++strings_[number].users;
        return number;
    }

    void keep(uint32_t number) { ++strings_[number].users; }

    void let_go(uint32_t number) {
        String& string = strings_[number];
        if (--string.users) return;
        index_.erase(hash_of({string.data, string.size}), number);
        std::free(string.data);
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
