// The atoms that a value fires in a group of tables: real values come again.
#pragma once

#include <algorithm>
#include <vector>

#include "atoms.hpp"
#include "containers.hpp"

namespace dragoman {

class Memory {
  public:
    struct Row {
        uint64_t group, value;
        uint32_t offset, count;
    };

    // What *value* fires in *group*, or null if that is not known.
    const Row* find(uint64_t group, uint64_t value) const {
        const uint32_t found = known(group, value);
        return found == NONE ? nullptr : &rows_[found];
    }

    // Remember the leads that *tell* gives to the function that it is called with.
    template <typename Tell>
    const Row* learn(uint64_t group, uint64_t value, Tell tell) {
        if (leads_.size() > 2 * used_ + SLACK) compact();
        const uint32_t offset = uint32_t(leads_.size());
        tell([&](const Lead& lead) { leads_.push_back(lead); });
        const uint32_t count = uint32_t(leads_.size() - offset);
        used_ += count;
        rows_.push_back({group, value, offset, count});
        by_hash_.set(hash_of(group, value), uint32_t(rows_.size() - 1));
        return &rows_.back();
    }

    const Lead* leads(const Row& row) const { return leads_.data() + row.offset; }

    // A value that may be known has one more lead.
    void add(uint64_t group, uint64_t value, const Lead& lead) {
        const uint32_t found = known(group, value);
        if (found == NONE) return;
        if (leads_.size() > 2 * used_ + SLACK) compact();
        Row& row = rows_[found];
        reserve_for(leads_, row.count + 1);
        if (row.offset + row.count < leads_.size()) {
            const uint32_t from = row.offset;
            row.offset = uint32_t(leads_.size());
            for (uint32_t at = 0; at < row.count; ++at) leads_.push_back(leads_[from + at]);
        }
        leads_.push_back(lead);
        ++row.count;
        ++used_;
    }

    // And one less, that to *atom*.
    void erase(uint64_t group, uint64_t value, uint32_t atom) {
        const uint32_t found = known(group, value);
        if (found == NONE) return;
        Row& row = rows_[found];
        Lead *begin = leads_.data() + row.offset, *end = begin + row.count;
        Lead* lead = std::find_if(begin, end, [&](const Lead& one) { return one.atom == atom; });
        if (lead == end) return;
        *lead = *(end - 1);
        --used_;
        if (!--row.count) forget(found);
    }

    size_t size() const { return rows_.size(); }

    // Whether it is more than is worth keeping, of so many *atoms*: strangers choose values.
    bool is_full(size_t atoms) const {
        return rows_.size() > MAX_ROWS + atoms || used_ > 4 * (MAX_ROWS + atoms);
    }

    void forget() {
        by_hash_.clear();
        std::vector<Row>().swap(rows_);
        std::vector<Lead>().swap(leads_);
        used_ = 0;
    }

  private:
    static constexpr size_t MAX_ROWS = 1u << 14;
    static constexpr size_t SLACK = 1u << 12;

    static uint64_t hash_of(uint64_t group, uint64_t value) {
        return mix(hash_number(value), group + SALT);
    }

    uint32_t known(uint64_t group, uint64_t value) const {
        const uint32_t found = by_hash_.find(hash_of(group, value));
        if (found == NONE || rows_[found].group != group || rows_[found].value != value) {
            return NONE;
        }
        return found;
    }

    // The last row takes the place of the one that goes.
    void forget(uint32_t row) {
        by_hash_.erase(hash_of(rows_[row].group, rows_[row].value));
        if (row + 1 < rows_.size()) {
            rows_[row] = rows_.back();
            by_hash_.set(hash_of(rows_[row].group, rows_[row].value), row);
        }
        rows_.pop_back();
    }

    // Close the gaps between rows.
    void compact() {
        std::vector<Lead> leads;
        leads.reserve(used_);
        for (Row& row : rows_) {
            const auto from = leads_.begin() + row.offset;
            row.offset = uint32_t(leads.size());
            leads.insert(leads.end(), from, from + row.count);
        }
        leads_.swap(leads);
    }

    NumberMap by_hash_;
    std::vector<Row> rows_;
    std::vector<Lead> leads_;
    size_t used_ = 0;  // leads of the rows
};

}  // namespace dragoman
