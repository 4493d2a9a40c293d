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
        uint64_t group = 0, value = 0;
        Atoms::Stretch atoms{NONE, 0};  // that hold
        Leads::Stretch leads;           // to those of which something is left to ask

        bool is_taken() const { return atoms.offset != NONE; }
        uint64_t hash() const { return hash_of(group, value); }
    };

    // What *value* fires in *group*, or null if that is not known.
    const Row* find(uint64_t group, uint64_t value) const {
        return rows_.find(hash_of(group, value), [&](const Row& row) {
            return row.group == group && row.value == value;
        });
    }

    // Soon somebody will ask for it, and then for what it fires.
    void expect(uint64_t group, uint64_t value) const { rows_.expect(hash_of(group, value)); }
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
        Row row{group, value, {}, {}};
        tell([&](const Lead& lead) { add(row, lead); });
        return rows_.add(row);
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
        if (!row->atoms.count && !row->leads.count) rows_.erase(row);
    }

    size_t size() const { return rows_.size(); }

    // Whether it is more than is worth keeping, of so many *atoms*: strangers choose values.
    bool is_full(size_t atoms) const {
        return size() > MAX_ROWS + atoms || atoms_.used() + leads_.used() > 4 * (MAX_ROWS + atoms);
    }

    void forget() {
        rows_.clear();
        atoms_.clear();
        leads_.clear();
    }

  private:
    static constexpr size_t MAX_ROWS = 1u << 14;

    static uint64_t hash_of(uint64_t group, uint64_t value) {
        return mix(hash_number(value), group + SALT);
    }

    Row* known(uint64_t group, uint64_t value) {
        return const_cast<Row*>(find(group, value));
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

    void close_gaps() {
        if (atoms_.has_gaps()) {
            atoms_.compact([&](auto take) { rows_.each([&](Row& row) { take(row.atoms); }); });
        }
        if (leads_.has_gaps()) {
            leads_.compact([&](auto take) { rows_.each([&](Row& row) { take(row.leads); }); });
        }
    }

    HashTable<Row, 60> rows_;
    Atoms atoms_;
    Leads leads_;
};

}  // namespace dragoman
