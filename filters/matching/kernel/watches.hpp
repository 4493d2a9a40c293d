// Atoms as messages meet them: whether each holds, how often lately, and who waits for it.
#pragma once

#include <algorithm>
#include <vector>

#include "containers.hpp"

namespace dragoman {

// A filter that is looked at when an atom holds.
struct Watch {
    static constexpr uint32_t DECIDES = 1u << 31, NO_ATOM = DECIDES - 1;

    uint32_t filter;
    uint32_t also;      // what Watching::also_of tells of the rest of the formula
    uint32_t branches;  // of the filter

    bool decides() const { return also & DECIDES; }
    uint32_t other() const { return also & NO_ATOM; }
};

class Watches {
  public:
    // Messages are counted from *message* on.
    explicit Watches(uint32_t message) : message_(message) {}

    // An atom with this number is new.
    void welcome(uint32_t atom) {
        if (rows_.size() <= atom) rows_.resize(atom + 1);
        rows_[atom] = Row();
    }

    // The message at hand.
    uint32_t message() const { return message_; }

    // Another message. True if numbers of messages begin anew: none may look new that is old.
    bool begin() {
        const bool anew = !++message_;
        if (anew) {
            for (Row& row : rows_) row.message = 0;
            message_ = 1;
        }
        if (!(message_ % HALF_LIFE)) {
            for (Row& row : rows_) row.heat >>= 1;
        }
        return anew;
    }

    bool holds(uint32_t atom) const { return rows_[atom].message == message_; }
    uint32_t heat(uint32_t atom) const { return rows_[atom].heat; }

    // True if somebody waits for *atom*, which was not known to hold.
    bool fire(uint32_t atom) {
        Row& row = rows_[atom];
        if (row.message == message_) return false;
        row.message = message_;
        ++row.heat;
        return row.count;
    }

    // Soon somebody will ask for these: memory is slower than we are.
    void expect(uint32_t atom) const { __builtin_prefetch(&rows_[atom]); }
    void expect_watches(uint32_t atom) const { __builtin_prefetch(&watches_[rows_[atom].offset]); }

    uint32_t count(uint32_t atom) const { return rows_[atom].count; }
    Watch at(uint32_t atom, uint32_t place) const { return watches_[rows_[atom].offset + place]; }

    void add(uint32_t atom, Watch watch) {
        Row& row = rows_[atom];
        if (!row.count) {
            row.offset = take(row.power = 0);
        } else if (row.count == 1u << row.power) {
            move(row, row.power + 1);
        }
        watches_[row.offset + row.count++] = watch;
    }

    // The last one takes the place of the one that goes.
    void erase(uint32_t atom, uint32_t place) {
        Row& row = rows_[atom];
        watches_[row.offset + place] = watches_[row.offset + --row.count];
        if (!row.count) {
            free_[row.power].push_back(row.offset);
        } else if (row.power > 2 && row.count <= 1u << (row.power - 2)) {
            move(row, row.power - 1);
        }
    }

    void erase_filter(uint32_t atom, uint32_t filter) {
        for (uint32_t place = 0; place < rows_[atom].count; ++place) {
            if (at(atom, place).filter == filter) return erase(atom, place);
        }
    }

    size_t size() const { return watches_.size(); }

  private:
    static constexpr uint32_t HALF_LIFE = 4096;  // of heat, in messages

    // A block of 2^power watches, of which *count* are in use.
    struct Row {
        uint32_t message = 0, heat = 0, offset = 0;
        uint32_t count : 27;
        uint32_t power : 5;
        Row() : count(0), power(0) {}
    };

    void move(Row& row, uint32_t power) {
        uint32_t offset = take(power);
        std::copy_n(watches_.begin() + row.offset, row.count, watches_.begin() + offset);
        free_[row.power].push_back(row.offset);
        row.offset = offset;
        row.power = power;
    }

    uint32_t take(uint32_t power) {
        if (free_.size() <= power) free_.resize(power + 1);
        if (free_[power].empty()) {
            uint32_t offset = uint32_t(watches_.size());
            watches_.resize(watches_.size() + (size_t(1) << power));
            return offset;
        }
        uint32_t offset = free_[power].back();
        free_[power].pop_back();
        return offset;
    }

    uint32_t message_;
    std::vector<Row> rows_;
    std::vector<Watch> watches_;
    std::vector<std::vector<uint32_t>> free_;  // by power
};

}  // namespace dragoman
