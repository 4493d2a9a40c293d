// Who waits for which atom: a short row of entries an atom, all rows in one block of memory.
#pragma once

#include <vector>

#include "tables.hpp"

namespace dragoman {

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

    uint32_t count(uint32_t atom) const { return rows_[atom].count; }
    Watch& at(uint32_t atom, uint32_t place) { return entries_[rows_[atom].offset + place]; }

    void add(uint32_t atom, Watch watch) {
        Row& row = rows_[atom];
        if (!row.count) {
            row.offset = take(row.power = 0);
        } else if (row.count == 1u << row.power) {
            uint32_t larger = take(row.power + 1);
            std::copy_n(entries_.begin() + row.offset, row.count, entries_.begin() + larger);
            free_[row.power].push_back(row.offset);
            row.offset = larger;
            ++row.power;
        }
        entries_[row.offset + row.count++] = watch;
    }

    // The last one takes the place of the one that goes.
    void erase(uint32_t atom, uint32_t place) {
        Row& row = rows_[atom];
        entries_[row.offset + place] = entries_[row.offset + --row.count];
        if (!row.count) {
            free_[row.power].push_back(row.offset);
        } else if (row.power > 2 && row.count <= 1u << (row.power - 2)) {
            uint32_t smaller = take(row.power - 1);
            std::copy_n(entries_.begin() + row.offset, row.count, entries_.begin() + smaller);
            free_[row.power].push_back(row.offset);
            row.offset = smaller;
            --row.power;
        }
    }

    void erase_filter(uint32_t atom, uint32_t filter) {
        for (uint32_t place = 0; place < rows_[atom].count; ++place) {
            if (at(atom, place).filter == filter) return erase(atom, place);
        }
    }

  private:
    struct Row {
        uint32_t offset = 0;
        uint32_t count : 27;
        uint32_t power : 5;
        Row() : count(0), power(0) {}
    };

    uint32_t take(uint32_t power) {
        if (free_.size() <= power) free_.resize(power + 1);
        if (free_[power].empty()) {
            uint32_t offset = uint32_t(entries_.size());
            entries_.resize(entries_.size() + (size_t(1) << power));
            return offset;
        }
        uint32_t offset = free_[power].back();
        free_[power].pop_back();
        return offset;
    }

    std::vector<Row> rows_;
    std::vector<Watch> entries_;
    std::vector<std::vector<uint32_t>> free_;
};

}  // namespace dragoman
