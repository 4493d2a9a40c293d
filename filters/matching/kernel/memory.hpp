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
        uint32_t offset = NONE, count;  // of its leads; NONE: there is no row
    };

    // What *value* fires in *group*, or null if that is not known.
    const Row* find(uint64_t group, uint64_t value) const {
        if (!count_) return nullptr;
        const Row& row = rows_[place(group, value)];
        return row.offset == NONE ? nullptr : &row;
    }

    // Soon somebody will ask for it, and then for the leads.
    void expect(uint64_t group, uint64_t value) const {
        if (count_) __builtin_prefetch(&rows_[slots_.home(hash_of(group, value))]);
    }
    void expect_leads(uint64_t group, uint64_t value) const {
        if (const Row* row = find(group, value)) __builtin_prefetch(leads(*row));
    }

    // Remember the leads that *tell* gives to the function that it is called with.
    template <typename Tell>
    const Row* learn(uint64_t group, uint64_t value, Tell tell) {
        if (leads_.size() > 2 * used_ + SLACK) compact();
        if (const size_t size = slots_.wanted(count_); size != slots_.size()) resize(size);
        const uint32_t offset = uint32_t(leads_.size());
        tell([&](const Lead& lead) { leads_.push_back(lead); });
        const uint32_t count = uint32_t(leads_.size() - offset);
        used_ += count;
        ++count_;
        Row& row = rows_[place(group, value)];
        row = {group, value, offset, count};
        return &row;
    }

    const Lead* leads(const Row& row) const { return leads_.data() + row.offset; }

    // A value that may be known has one more lead.
    void add(uint64_t group, uint64_t value, const Lead& lead) {
        Row* found = known(group, value);
        if (!found) return;
        if (leads_.size() > 2 * used_ + SLACK) compact();
        Row& row = *found;
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
        Row* found = known(group, value);
        if (!found) return;
        Row& row = *found;
        Lead *begin = leads_.data() + row.offset, *end = begin + row.count;
        Lead* lead = std::find_if(begin, end, [&](const Lead& one) { return one.atom == atom; });
        if (lead == end) return;
        *lead = *(end - 1);
        --used_;
        if (!--row.count) forget(size_t(found - rows_.data()));
    }

    size_t size() const { return count_; }

    // Whether it is more than is worth keeping, of so many *atoms*: strangers choose values.
    bool is_full(size_t atoms) const {
        return count_ > MAX_ROWS + atoms || used_ > 4 * (MAX_ROWS + atoms);
    }

    void forget() {
        std::vector<Row>().swap(rows_);
        std::vector<Lead>().swap(leads_);
        slots_.resize(0);
        count_ = used_ = 0;
    }

  private:
    static constexpr size_t MAX_ROWS = 1u << 14;
    static constexpr size_t SLACK = 1u << 12;

    static uint64_t hash_of(uint64_t group, uint64_t value) {
        return mix(hash_number(value), group + SALT);
    }
    static uint64_t hash_of(const Row& row) { return hash_of(row.group, row.value); }

    Row* known(uint64_t group, uint64_t value) {
        return const_cast<Row*>(find(group, value));
    }

    // Where the row of *value* is, or would be.
    size_t place(uint64_t group, uint64_t value) const {
        size_t at = slots_.home(hash_of(group, value));
        while (rows_[at].offset != NONE &&
               (rows_[at].group != group || rows_[at].value != value)) {
            at = slots_.after(at);
        }
        return at;
    }

    // Rows behind it move back.
    void forget(size_t at) {
        for (size_t next = slots_.after(at); rows_[next].offset != NONE;
             next = slots_.after(next)) {
            if (slots_.may_move(at, next, slots_.home(hash_of(rows_[next])))) {
                rows_[at] = rows_[next];
                at = next;
            }
        }
        rows_[at] = Row();
        --count_;
        if (slots_.is_sparse(count_)) resize(slots_.reduced());
    }

    void resize(size_t size) {
        std::vector<Row> rows(size);
        rows.swap(rows_);
        slots_.resize(size);
        for (const Row& row : rows) {
            if (row.offset != NONE) rows_[place(row.group, row.value)] = row;
        }
    }

    // Close the gaps between rows.
    void compact() {
        std::vector<Lead> leads;
        leads.reserve(used_);
        for (Row& row : rows_) {
            if (row.offset == NONE) continue;
            const auto from = leads_.begin() + row.offset;
            row.offset = uint32_t(leads.size());
            leads.insert(leads.end(), from, from + row.count);
        }
        leads_.swap(leads);
    }

    std::vector<Row> rows_;  // a hash table
    Slots<60> slots_;
    std::vector<Lead> leads_;
    size_t count_ = 0, used_ = 0;  // rows, and their leads
};

}  // namespace dragoman
