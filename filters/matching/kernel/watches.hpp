// Facts as filters wait for them: who waits for each, and how often it held lately.
#pragma once

#include <algorithm>
#include <vector>

#include "bits.hpp"
#include "containers.hpp"
#include "facts.hpp"
#include "records.hpp"

namespace dragoman {

// The filters that wait for one fact, as words that are read one after the other: first *records*
// of those that ask for more (see records.hpp), then the numbers of those that it decides.
struct Waiting {
    static constexpr uint32_t AGAIN = 1u << 31;  // beside a number: it may be met elsewhere too

    const uint32_t *records, *records_end;
    const uint32_t *decided, *decided_end;
};

class Watches {
  public:
    // A fact with this number is new.
    void welcome(uint32_t fact) {
        Side& side = side_of(fact);
        const uint32_t index = index_of(fact);
        if (side.rows.size() <= index) {
            reserve_for(side.rows, index + 1 - side.rows.size());
            side.rows.resize(index + 1);
        }
        side.rows[index] = Row();
        side.watched.reserve(side.rows.size());
        side.watched.erase(index);
    }

    // Whether somebody waits for an atom.
    bool is_watched(uint32_t atom) const { return sides_[0].watched.has(atom); }

    // The nodes that somebody waits for to have an element.
    const Bits& watched_nodes() const { return sides_[1].watched; }

    // How often it held lately, in units that all facts share.
    uint32_t heat(uint32_t fact) const { return row(fact).heat; }

    // All facts of a message are known.
    void take_note(const Facts& facts) {
        ++messages_;
        if (!(messages_ % HALF_LIFE)) {
            for (Side& side : sides_) {
                for (Row& row : side.rows) row.heat >>= 1;
            }
        }
        // To count each time would cost more than all else.
        if (messages_ > LEARNING && messages_ % SAMPLE) return;
        facts.atoms().each([&](uint32_t atom) { ++sides_[0].rows[atom].heat; });
        facts.nodes().each([&](uint32_t node) {
            if (node < sides_[1].rows.size()) ++sides_[1].rows[node].heat;
        });
    }

    // Soon somebody will ask for these: memory is slower than we are.
    void expect(uint32_t fact) const { __builtin_prefetch(&row(fact)); }
    void expect_waiting(uint32_t fact) const {
        const Row& row = this->row(fact);
        if (row.power) __builtin_prefetch(&words_[row.offset]);
    }

    Waiting waiting(uint32_t fact) const {
        const Row& row = this->row(fact);
        const uint32_t* begin = block(row);
        const uint32_t* end = begin + capacity(row.power);
        return {begin, begin + row.records, end - row.decided, end};
    }

    // *filter*, maybe with AGAIN, is decided by *fact*.
    void add(uint32_t fact, uint32_t filter) {
        Row& row = make_room(fact, 1);
        if (!row.power) row.offset = filter;
        else words_[row.offset + capacity(row.power) - row.decided - 1] = filter;
        ++row.decided;
    }

    // What may be met again comes first, those who ask for the same together.
    void add_record(uint32_t fact, const Words& record) {
        const Row& row = side_of(fact).rows[index_of(fact)];
        if (!Record(record.data()).has(Record::AGAIN)) {
            return insert(fact, row.records, record.data(), record.size());
        }
        const uint32_t *begin = block(row), *end = begin + row.records;
        const uint32_t* at = begin;
        for (uint32_t looks = 0; at != end && looks < MOST_LOOKS; ++looks) {
            const Record other(at);
            if (!other.has(Record::AGAIN)) break;
            if (other.takes(record)) {
                const auto header = uint32_t(at + 1 - begin);
                insert(fact, uint32_t(other.end() - begin), record.data(), 1);
                ++block(side_of(fact).rows[index_of(fact)])[header];
                return;
            }
            at = other.end();
        }
        insert(fact, 0, record.data(), record.size());
    }

    // Take out what *fact* has of *filter*, be it a record or *decided*.
    void erase(uint32_t fact, uint32_t decided, uint32_t filter) {
        Side& side = side_of(fact);
        Row& row = side.rows[index_of(fact)];
        uint32_t* begin = block(row);
        uint32_t* end = begin + capacity(row.power);
        uint32_t* first = end - row.decided;
        if (uint32_t* found = std::find(first, end, decided); found != end) {
            *found = *first;
            --row.decided;
        } else {
            erase_record(row, filter);
        }
        if (!row.decided && !row.records) side.watched.erase(index_of(fact));
        shrink(row);
    }

  private:
    static constexpr uint32_t HALF_LIFE = 4096;  // of heat, in messages
    static constexpr uint32_t MOST_LOOKS = 64;   // for records that ask for the same
    static constexpr uint32_t LEARNING = 64, SAMPLE = 16;

    // A block of 2^power words, of which the first hold *records*, the last are *decided*. One word
    // needs no block.
    struct Row {
        uint32_t heat = 0, offset = 0, decided = 0;
        uint32_t records : 27;
        uint32_t power : 5;
        Row() : records(0), power(0) {}
    };

    struct Side {
        std::vector<Row> rows;
        Bits watched;
    };

    // Put words among those of records.
    void insert(uint32_t fact, uint32_t place, const uint32_t* words, size_t count) {
        Row& row = make_room(fact, uint32_t(count));
        uint32_t* begin = block(row);
        std::copy_backward(begin + place, begin + row.records, begin + row.records + count);
        std::copy_n(words, count, begin + place);
        row.records += uint32_t(count);
    }

    void erase_record(Row& row, uint32_t filter) {
        uint32_t *begin = block(row), *end = begin + row.records;
        uint32_t* at = begin;
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
        row.records -= uint32_t(behind - gap);
    }

    static uint32_t capacity(uint32_t power) { return 1u << power; }

    Side& side_of(uint32_t fact) { return sides_[is_presence(fact)]; }
    const Row& row(uint32_t fact) const { return sides_[is_presence(fact)].rows[index_of(fact)]; }

    uint32_t* block(Row& row) { return row.power ? &words_[row.offset] : &row.offset; }
    const uint32_t* block(const Row& row) const {
        return row.power ? &words_[row.offset] : &row.offset;
    }

    Row& make_room(uint32_t fact, uint32_t words) {
        Side& side = side_of(fact);
        Row& row = side.rows[index_of(fact)];
        uint32_t power = row.power;
        while (row.records + row.decided + words > capacity(power)) ++power;
        if (power != row.power) move(row, power);
        side.watched.add(index_of(fact));
        return row;
    }

    void shrink(Row& row) {
        const uint32_t used = row.records + row.decided;
        uint32_t power = row.power;
        while (power && used * 4 <= capacity(power)) --power;
        // A block of one word holds no record.
        if (!power && row.records) power = 1;
        if (power != row.power) move(row, power);
    }

    void move(Row& row, uint32_t power) {
        uint32_t place = 0;
        const uint32_t offset = power ? take(power) : 0;
        uint32_t* to = power ? &words_[offset] : &place;
        const uint32_t* from = block(row);
        std::copy_n(from, row.records, to);
        std::copy_n(from + capacity(row.power) - row.decided, row.decided,
                    to + capacity(power) - row.decided);
        if (row.power) free_[row.power].push_back(row.offset);
        row.offset = power ? offset : place;
        row.power = power;
    }

    uint32_t take(uint32_t power) {
        if (free_.size() <= power) free_.resize(power + 1);
        if (free_[power].empty()) {
            const uint32_t offset = uint32_t(words_.size());
            reserve_for(words_, capacity(power));
            words_.resize(words_.size() + capacity(power));
            return offset;
        }
        const uint32_t offset = free_[power].back();
        free_[power].pop_back();
        return offset;
    }

    Side sides_[2];  // atoms, nodes
    Words words_;
    std::vector<Words> free_;  // by power
    uint32_t messages_ = 0;
};

}  // namespace dragoman
