// The atoms that a value fires in a group of tables: real values come again.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "atoms.hpp"
#include "bits.hpp"
#include "containers.hpp"

namespace dragoman {

// Rows of many owners, one behind the other. What grows moves to the end, and leaves a gap.
template <typename T>
class Stretches {
  public:
    struct Stretch {
        uint32_t offset = 0, count = 0;
    };

    const T* begin(Stretch stretch) const { return all_.data() + stretch.offset; }
    const T* end(Stretch stretch) const { return begin(stretch) + stretch.count; }
    T* begin(Stretch stretch) { return all_.data() + stretch.offset; }
    T* end(Stretch stretch) { return begin(stretch) + stretch.count; }

    size_t used() const { return used_; }
    bool has_gaps() const { return all_.size() > 2 * used_ + SLACK; }

    void add(Stretch& stretch, const T& one) {
        reserve_for(all_, stretch.count + 1);
        if (stretch.offset + stretch.count != all_.size()) {
            const uint32_t from = std::exchange(stretch.offset, uint32_t(all_.size()));
            for (uint32_t at = 0; at < stretch.count; ++at) all_.push_back(all_[from + at]);
        }
        all_.push_back(one);
        ++stretch.count;
        ++used_;
    }

    void erase(Stretch& stretch, T* one) {
        *one = *(end(stretch) - 1);
        --stretch.count;
        --used_;
    }

    // Close the gaps; *each* calls what it is given with all stretches.
    template <typename Each>
    void compact(Each each) {
        std::vector<T> all;
        all.reserve(used_);
        each([&](Stretch& stretch) {
            const auto from = all_.begin() + stretch.offset;
            stretch.offset = uint32_t(all.size());
            all.insert(all.end(), from, from + stretch.count);
        });
        all_.swap(all);
    }

    void clear() noexcept {
        std::vector<T>().swap(all_);
        used_ = 0;
    }

  private:
    static constexpr size_t SLACK = 1u << 12;

    std::vector<T> all_;
    size_t used_ = 0;
};

class Memory {
  public:
    // Atoms as words of bits.
    using Atoms = Stretches<BitsAt>;
    using Leads = Stretches<Lead>;

    struct Row {
        uint64_t group, value;
        Atoms::Stretch atoms;  // that hold
        Leads::Stretch leads;  // to those of which something is left to ask
        bool taken = false;
    };

    // What *value* fires in *group*, or null if that is not known.
    const Row* find(uint64_t group, uint64_t value) const {
        if (!count_) return nullptr;
        const Row& row = rows_[place(group, value)];
        return row.taken ? &row : nullptr;
    }

    // Soon somebody will ask for it, and then for what it fires.
    void expect(uint64_t group, uint64_t value) const {
        if (count_) __builtin_prefetch(&rows_[slots_.home(hash_of(group, value))]);
    }
    void expect_fired(uint64_t group, uint64_t value) const {
        const Row* row = find(group, value);
        if (!row) return;
        __builtin_prefetch(atoms_.begin(row->atoms));
        if (row->leads.count) __builtin_prefetch(leads_.begin(row->leads));
    }

    // Remember the leads that *tell* gives to the function that it is called with.
    template <typename Tell>
    const Row* learn(uint64_t group, uint64_t value, Tell tell) {
        close_gaps();
        if (const size_t size = slots_.wanted(count_); size != slots_.size()) resize(size);
        Row row{group, value, {}, {}, true};
        tell([&](const Lead& lead) { add(row, lead); });
        ++count_;
        Row& here = rows_[place(group, value)];
        here = row;
        return &here;
    }

    const Atoms& atoms() const { return atoms_; }
    const Leads& leads() const { return leads_; }

    // A value that may be known has one more lead.
    void add(uint64_t group, uint64_t value, const Lead& lead) {
        Row* row = known(group, value);
        if (!row) return;
        close_gaps();
        add(*row, lead);
    }

    // And one less, that to *atom*.
    void erase(uint64_t group, uint64_t value, uint32_t atom) {
        Row* row = known(group, value);
        if (!row) return;
        if (BitsAt* word = word_of(*row, atom); word && word->has(atom)) {
            word->erase(atom);
            if (!word->bits) atoms_.erase(row->atoms, word);
        } else {
            Lead* end = leads_.end(row->leads);
            Lead* lead = std::find_if(leads_.begin(row->leads), end,
                                      [&](const Lead& one) { return one.atom == atom; });
            if (lead == end) return;
            leads_.erase(row->leads, lead);
        }
        if (!row->atoms.count && !row->leads.count) forget(size_t(row - rows_.data()));
    }

    size_t size() const { return count_; }

    // Whether it is more than is worth keeping, of so many *atoms*: strangers choose values.
    bool is_full(size_t atoms) const {
        return count_ > MAX_ROWS + atoms || atoms_.used() + leads_.used() > 4 * (MAX_ROWS + atoms);
    }

    void forget() {
        std::vector<Row>().swap(rows_);
        atoms_.clear();
        leads_.clear();
        slots_.resize(0);
        count_ = 0;
    }

  private:
    static constexpr size_t MAX_ROWS = 1u << 14;

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
        while (rows_[at].taken && (rows_[at].group != group || rows_[at].value != value)) {
            at = slots_.after(at);
        }
        return at;
    }

    // The word with an atom's bit, or null.
    BitsAt* word_of(const Row& row, uint32_t atom) {
        BitsAt* end = atoms_.end(row.atoms);
        BitsAt* found = std::find_if(atoms_.begin(row.atoms), end,
                                     [&](const BitsAt& word) { return word.covers(atom); });
        return found == end ? nullptr : found;
    }

    void add(Row& row, const Lead& lead) {
        if (lead.question != Lead::NOTHING) leads_.add(row.leads, lead);
        else if (BitsAt* word = word_of(row, lead.atom)) word->add(lead.atom);
        else atoms_.add(row.atoms, BitsAt::of(lead.atom));
    }

    // Rows behind it move back.
    void forget(size_t at) {
        for (size_t next = slots_.after(at); rows_[next].taken; next = slots_.after(next)) {
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
            if (row.taken) rows_[place(row.group, row.value)] = row;
        }
    }

    void close_gaps() {
        if (atoms_.has_gaps()) {
            atoms_.compact([&](auto take) { each([&](Row& row) { take(row.atoms); }); });
        }
        if (leads_.has_gaps()) {
            leads_.compact([&](auto take) { each([&](Row& row) { take(row.leads); }); });
        }
    }

    template <typename Take>
    void each(Take take) {
        for (Row& row : rows_) {
            if (row.taken) take(row);
        }
    }

    std::vector<Row> rows_;  // a hash table
    Slots<60> slots_;
    Atoms atoms_;
    Leads leads_;
    size_t count_ = 0;
};

}  // namespace dragoman
