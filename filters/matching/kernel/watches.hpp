// Atoms as messages meet them: whether each holds, how often lately, and who waits for it.
#pragma once

#include <algorithm>
#include <vector>

#include "tables.hpp"

namespace dragoman {

// A filter that is looked at when an atom holds.
struct Watch {
    uint32_t filter;
    uint32_t also;      // another atom that the filter needs too; see Engine::also_of
    uint32_t branches;  // of the filter
};

class Watches {
  public:
    void resize(uint32_t atoms) {
        if (rows_.size() < atoms) rows_.resize(atoms);
    }

    // An atom with this number is new.
    void reset(uint32_t atom) { rows_[atom] = Row(); }

    bool holds(uint32_t atom, uint32_t message) const { return rows_[atom].message == message; }
    uint32_t heat(uint32_t atom) const { return rows_[atom].heat; }

    // True if somebody waits for *atom*, which was not known to hold.
    bool fire(uint32_t atom, uint32_t message) {
        Row& row = rows_[atom];
        if (row.message == message) return false;
        row.message = message;
        ++row.heat;
        return row.count;
    }

    void cool() {
        for (Row& row : rows_) row.heat >>= 1;
    }

    void forget_messages() {
        for (Row& row : rows_) row.message = 0;
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

  private:
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

    std::vector<Row> rows_;
    std::vector<Watch> watches_;
    std::vector<std::vector<uint32_t>> free_;  // by power
};

}  // namespace dragoman
