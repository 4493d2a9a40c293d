// Facts as filters wait for them: who waits for each, and how often it held lately.
#pragma once

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "bits.hpp"
#include "containers.hpp"
#include "facts.hpp"
#include "records.hpp"

namespace dragoman {

// The filters that wait for one fact, as words that are read one after the other: first *records*
// of those that ask for more (see records.hpp), then the numbers of those that it decides.
struct Waiting {
    // Beside a number: it may be met elsewhere too. What is above it says nothing.
    static constexpr uint32_t AGAIN = 1u << 30;
    static uint32_t number_in(uint32_t word) { return word & (AGAIN - 1); }

    const uint32_t *records, *records_end;
    const uint32_t *decided, *decided_end;

    size_t words() const { return size_t(records_end - records + decided_end - decided); }
};

class Watches {
  public:
    // A fact with this number is new.
    void welcome(uint32_t fact) {
        Side& side = side_of(fact);
        const uint32_t index = index_of(fact);
        if (side.places.size() <= index) {
            const size_t more = index + 1 - side.places.size();
            reserve_for(side.places, more);
            reserve_for(side.heat, more);
            side.places.resize(index + 1, NOBODY);
            side.heat.resize(index + 1);
        }
        side.places[index] = NOBODY;
        side.heat[index] = 0;
        side.watched.reserve(side.places.size());
        side.watched.erase(index);
    }

    // Whether somebody waits for an atom; those of *atoms* that somebody waits for.
    bool is_watched(uint32_t atom) const { return sides_[0].watched.has(atom); }
    BitsAt watched(BitsAt atoms) const { return sides_[0].watched.in(atoms); }

    // The nodes that somebody waits for to have an element.
    const Bits& watched_nodes() const { return sides_[1].watched; }

    // How often it held lately, in units that all facts share.
    uint32_t heat(uint32_t fact) const { return side_of(fact).heat[index_of(fact)]; }

    // All facts of a message are known.
    void take_note(const Facts& facts) {
        ++messages_;
        if (!(messages_ % HALF_LIFE)) {
            for (Side& side : sides_) {
                for (uint32_t& heat : side.heat) heat >>= 1;
            }
        }
        // To count each time would cost more than all else. The first ones teach most.
        uint32_t step = 1;
        while (step < MOST_STEP && messages_ >= LEARNING * step) step *= 2;
        if (messages_ % step) return;
        facts.atoms().each([&](uint32_t atom) { ++sides_[0].heat[atom]; });
        facts.nodes().each([&](uint32_t node) {
            if (node < sides_[1].heat.size()) ++sides_[1].heat[node];
        });
    }

    // Soon somebody will ask who waits for these: memory is slower than we are.
    void expect(uint32_t fact) const { __builtin_prefetch(&place_of(fact)); }
    void expect_waiting(uint32_t fact) const {
        if (const uint32_t place = place_of(fact); !(place & ALONE)) {
            __builtin_prefetch(&words_[place]);
        }
    }

    // The filter that alone waits for *fact*, is decided by it, and is met nowhere else; NONE if
    // there is none such.
    uint32_t alone(uint32_t fact) const {
        const uint32_t place = place_of(fact);
        return (place & (ALONE | Waiting::AGAIN)) == ALONE ? Waiting::number_in(place) : NONE;
    }

    Waiting waiting(uint32_t fact) const {
        const uint32_t* place = &place_of(fact);
        if (*place & ALONE) return {place, place, place, place + (*place != NOBODY)};
        const uint32_t* block = &words_[*place];
        const uint32_t* end = end_of(block);
        return {block + HEADER, block + HEADER + block[0], end - decided_in(block), end};
    }

    // *filter*, maybe with AGAIN, is decided by *fact*.
    void add(uint32_t fact, uint32_t filter) {
        Side& side = side_of(fact);
        if (side.places[index_of(fact)] == NOBODY) {
            side.places[index_of(fact)] = filter | ALONE;
            side.watched.add(index_of(fact));
        } else {
            put(make_room(fact, 1), filter);
        }
    }

    // What may be met again comes first, those who ask for the same together.
    void add_record(uint32_t fact, const Words& record) {
        const Waiting there = waiting(fact);
        const uint32_t *begin = there.records, *end = there.records_end;
        if (!Record(record.data()).has(Record::AGAIN)) {
            insert(fact, uint32_t(end - begin), record.data(), record.size());
            return;
        }
        const uint32_t* at = begin;
        for (uint32_t looks = 0; at != end && looks < MOST_LOOKS; ++looks) {
            const Record other(at);
            if (!other.has(Record::AGAIN)) break;
            if (other.takes(record)) {
                const size_t header = size_t(at + 1 - begin);
                ++insert(fact, uint32_t(other.end() - begin), record.data(), 1)[header];
                return;
            }
            at = other.end();
        }
        insert(fact, 0, record.data(), record.size());
    }

    // Take out what *fact* has of *filter*, be it a record or *decided*.
    void erase(uint32_t fact, uint32_t decided, uint32_t filter) noexcept {
        Side& side = side_of(fact);
        uint32_t& place = side.places[index_of(fact)];
        if (!(place & ALONE)) {
            uint32_t* block = &words_[place];
            uint32_t *end = end_of(block), *first = end - decided_in(block);
            if (uint32_t* found = std::find(first, end, decided); found != end) {
                *found = *first;
                block[1] -= ONE_DECIDED;
            } else {
                erase_record(block, filter);
            }
            shrink(place);
        } else if (place == (decided | ALONE)) {
            place = NOBODY;
        }
        if (place == NOBODY) side.watched.erase(index_of(fact));
    }

  private:
    static constexpr uint32_t HALF_LIFE = 8192;  // of heat, in messages
    static constexpr uint32_t MOST_LOOKS = 64;   // for records that ask for the same
    static constexpr uint32_t LEARNING = 256;  // messages, all of which count
    static constexpr uint32_t MOST_STEP = 32;  // from one that counts to the next

    // The place of a fact is that of a block: how many words are records, how many are decided
    // beside the block's size, then the records; at the end, what is decided. One decided filter,
    // with ALONE, needs no block.
    static constexpr uint32_t ALONE = 1u << 31, NOBODY = NONE;
    static constexpr uint32_t HEADER = 2;
    static constexpr uint32_t ONE_DECIDED = 1u << 6, SIZES = ONE_DECIDED - 1;
    static constexpr uint32_t LARGEST = 48;  // of sizes: 2^25 words

    struct Side {
        Words places, heat;
        Bits watched;
    };

    // Blocks have two sizes in each power of two.
    static uint32_t capacity(uint32_t size) { return (2 | (size & 1)) << size / 2; }
    static uint32_t size_for(uint32_t words) {
        uint32_t size = 0;
        while (capacity(size) < words) ++size;
        return size;
    }
    static uint32_t* end_of(uint32_t* block) { return block + capacity(block[1] & SIZES); }
    static const uint32_t* end_of(const uint32_t* block) {
        return block + capacity(block[1] & SIZES);
    }
    static uint32_t decided_in(const uint32_t* block) { return block[1] / ONE_DECIDED; }
    static uint32_t used_in(const uint32_t* block) {
        return HEADER + block[0] + decided_in(block);
    }

    static std::array<uint32_t, LARGEST + 1> none_free() {
        std::array<uint32_t, LARGEST + 1> free;
        free.fill(NONE);
        return free;
    }

    Side& side_of(uint32_t fact) { return sides_[is_presence(fact)]; }
    const Side& side_of(uint32_t fact) const { return sides_[is_presence(fact)]; }
    const uint32_t& place_of(uint32_t fact) const {
        return side_of(fact).places[index_of(fact)];
    }

    static void put(uint32_t* block, uint32_t decided) {
        block[1] += ONE_DECIDED;
        *(end_of(block) - decided_in(block)) = decided;
    }

    // Put words among those of records, the first of which is returned.
    uint32_t* insert(uint32_t fact, uint32_t place, const uint32_t* words, size_t count) {
        uint32_t* block = make_room(fact, uint32_t(count));
        uint32_t* records = block + HEADER;
        std::copy_backward(records + place, records + block[0], records + block[0] + count);
        std::copy_n(words, count, records + place);
        block[0] += uint32_t(count);
        return records;
    }

    static void erase_record(uint32_t* block, uint32_t filter) {
        uint32_t *at = block + HEADER, *end = at + block[0];
        while (at != end && !Record(at).is_of(filter)) at += Record(at).length();
        if (at == end) return;
        const Record record(at);
        uint32_t* behind = at + record.length();
        uint32_t* gap = at;
        if (record.has(Record::AGAIN) && record.others() != record.end()) {
            // Another one takes its place.
            uint32_t* others = at + (record.others() - at);
            uint32_t* found = *at == filter ? at : std::find(others, behind, filter);
            gap = behind - 1;
            *found = *gap;
            --at[1];
        }
        std::copy(behind, end, gap);
        block[0] -= uint32_t(behind - gap);
    }

    // The block of *fact*, with room for some words more.
    uint32_t* make_room(uint32_t fact, uint32_t words) {
        Side& side = side_of(fact);
        uint32_t& place = side.places[index_of(fact)];
        if (place & ALONE) {
            const uint32_t alone = place;
            const uint32_t fresh = take(size_for(HEADER + words + (alone != NOBODY)));
            place = fresh;
            if (alone != NOBODY) put(&words_[place], alone & ~ALONE);
        } else if (const uint32_t* block = &words_[place];
                   used_in(block) + words > capacity(block[1] & SIZES)) {
            move(place, size_for(used_in(block) + words));
        }
        side.watched.add(index_of(fact));
        return &words_[place];
    }

    void shrink(uint32_t& place) {
        const uint32_t* block = &words_[place];
        const uint32_t size = block[1] & SIZES, used = used_in(block);
        if (!block[0] && decided_in(block) <= 1) {
            const uint32_t alone = decided_in(block) ? end_of(block)[-1] | ALONE : NOBODY;
            free(place);
            place = alone;
        } else if (used * 4 <= capacity(size)) {
            try {
                move(place, size_for(used * 2));
            } catch (const std::bad_alloc&) {
                // It stays as large as it is.
            }
        }
    }

    void move(uint32_t& place, uint32_t size) {
        const uint32_t fresh = take(size);
        const uint32_t* from = &words_[place];
        uint32_t* to = &words_[fresh];
        const uint32_t decided = decided_in(from);
        to[0] = from[0];
        to[1] += decided * ONE_DECIDED;
        std::copy_n(from + HEADER, from[0], to + HEADER);
        std::copy_n(end_of(from) - decided, decided, end_of(to) - decided);
        free(place);
        place = fresh;
    }

    void free(uint32_t place) noexcept {
        const uint32_t size = words_[place + 1] & SIZES;
        words_[place] = free_[size];
        free_[size] = place;
    }

    // An empty block.
    uint32_t take(uint32_t size) {
        // Numbers of more would not fit into a place and a header.
        if (size > LARGEST || words_.size() + capacity(size) > ALONE) throw std::bad_alloc();
        uint32_t offset = free_[size];
        if (offset == NONE) {
            offset = uint32_t(words_.size());
            reserve_for(words_, capacity(size));
            words_.resize(words_.size() + capacity(size));
        } else {
            free_[size] = words_[offset];
        }
        words_[offset] = 0;
        words_[offset + 1] = size;
        return offset;
    }

    Side sides_[2];  // atoms, nodes
    Words words_;
    std::array<uint32_t, LARGEST + 1> free_ = none_free();  // first ones by size, each names the next
    uint32_t messages_ = 0;
};

}  // namespace dragoman
