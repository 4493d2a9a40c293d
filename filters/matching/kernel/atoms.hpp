// Atoms, each once, and the tables at nodes of the trie that find them by what an element has.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "bits.hpp"
#include "containers.hpp"
#include "facts.hpp"
#include "runs.hpp"
#include "tests.hpp"
#include "trie.hpp"
#include "vocabulary.hpp"

namespace dragoman {

struct Atom {
    uint32_t table = NONE;
    uint32_t next = NONE;  // of those with the same hash
    uint32_t users = 0;
    uint32_t tests = NONE;  // unless the key says all that they do
    uint64_t key = 0;

    bool is_keyed() const { return tests == NONE; }
};

// What is left to ask once a table has found an atom by a value.
struct Lead {
    enum Question : uint8_t {
        NOTHING,  // it holds
        DIFFERS,  // whether the element's string-value is not *text*
        PART,     // whether *text* is in the value, where the gram that was found is at *offset*
        START,    // whether the value begins with it
        TESTS,    // all its tests
    };

    uint32_t atom;
    uint32_t text;  // a string among the values
    uint16_t offset;
    Question question;

    bool asks_for_text() const { return question == PART || question == START; }
};

struct Interval {
    double low, high;
    uint32_t atom;
    bool low_included, high_included;
    bool both, alone;  // two bounds; the atom has no other test

    bool has(double value) const {
        return (low_included ? value >= low : value > low) &&
               (high_included ? value <= high : value < high);
    }
};

// Intervals by their lower bound, in blocks of which the highest upper bound is known.
class Intervals {
  public:
    void add(const Interval& interval) {
        all_.insert(std::upper_bound(all_.begin(), all_.end(), interval, is_below), interval);
        stale_ = true;
    }

    // Nothing fails when the next one is added.
    void make_room() { reserve_for(all_, 1); }

    Interval erase(uint32_t atom, double low) noexcept {
        Interval bound{};
        bound.low = low;
        auto place = std::lower_bound(all_.begin(), all_.end(), bound, is_below);
        while (place->atom != atom) ++place;
        const Interval interval = *place;
        all_.erase(place);
        stale_ = true;
        return interval;
    }

    const std::vector<Interval>& all() const { return all_; }

    // Call *take* with each interval that *value*, which may be no number, lies in.
    template <typename Take>
    void each_around(double value, Take take) {
        if (stale_) summarize();
        for (size_t block = 0; block < highest_.size(); ++block) {
            const Interval* at = all_.data() + block * BLOCK;
            if (!(at->low <= value)) return;
            if (highest_[block] < value) continue;
            const Interval* end = all_.data() + std::min((block + 1) * BLOCK, all_.size());
            for (; at != end; ++at) {
                if (at->has(value)) take(*at);
            }
        }
    }

  private:
    static constexpr size_t BLOCK = 32;

    static bool is_below(const Interval& a, const Interval& b) { return a.low < b.low; }

    void summarize() {
        highest_.assign((all_.size() + BLOCK - 1) / BLOCK,
                        -std::numeric_limits<double>::infinity());
        for (size_t at = 0; at < all_.size(); ++at) {
            double& highest = highest_[at / BLOCK];
            highest = std::max(highest, all_[at].high);
        }
        stale_ = false;
    }

    std::vector<Interval> all_;
    std::vector<double> highest_;
    bool stale_ = false;
};

// The atoms of one node that are found in the same way.
struct Table {
    uint32_t node = NONE, next = NONE;  // of the node's tables
    uint32_t atoms = 0;
    Aspect aspect;
    // What hashing does not find, or not alone: most tables have none.
    struct Rows {
        Words list;
        Intervals intervals;
    };
    std::unique_ptr<Rows> rows;
};

class Atoms {
  public:
    Atoms(Vocabulary& vocabulary, Trie& trie)
        : vocabulary_(vocabulary), trie_(trie), chooser_(vocabulary) {}

    Atom& operator[](uint32_t atom) { return atoms_[atom]; }
    const Atom& operator[](uint32_t atom) const { return atoms_[atom]; }
    uint32_t bound() const { return uint32_t(atoms_.size()); }
    size_t live() const { return numbers_.live(); }
    uint32_t node_of(uint32_t atom) const { return tables_[atoms_[atom].table].node; }
    // Nodes of which some filter asks whether there is an element.
    size_t presences() const { return presences_; }
    Table& table(uint32_t table) { return tables_[table]; }
    const Table& table(uint32_t table) const { return tables_[table]; }
    size_t tables() const { return tables_.live(); }
    const Tests& tests(uint32_t atom) const { return tests_[atoms_[atom].tests]; }

    struct Placed {
        uint32_t fact;
        bool fresh;  // it was not there before, and has no user
    };

    // The fact that *tests* are passed at *node*: without any it is the presence of an element,
    // else an atom. Takes over the tests' labels and strings, even if it fails.
    Placed place(uint32_t node, Tests tests) {
        if (tests.empty()) return {node | PRESENT, !trie_[node].presence};
        Choice choice;
        uint32_t table = NONE, number = NONE;
        bool keyed = false;
        try {
            choice = chooser_.choose(tests);
            keyed = Chooser::is_keyed(choice, tests);
            table = table_of(node, choice.aspect);
            number = keyed ? find_keyed(table, choice.key) : find(table, tests);
            if (number != NONE) {
                release(tests);
                return {number, false};
            }
            make_room(table);
            number = numbers_.take(owner_of(choice), atoms_);
        } catch (...) {
            if (table != NONE && !tables_[table].atoms) erase_table(table);
            release(tests);
            throw;
        }
        // Nothing fails from here on.
        Atom& atom = atoms_[number];
        atom.table = table;
        atom.key = choice.key;
        trie_.keep(node);
        if (keyed) {
            // The table keeps the labels.
            for (const Test& test : tests) vocabulary_.let_go(test.label);
        } else {
            atom.tests = tests_.add(std::move(tests));
        }
        file(number, choice.test);
        return {number, true};
    }

    // Let go of what tests name, which no atom has.
    void release(const Tests& tests) noexcept {
        for (const Test& test : tests) {
            vocabulary_.let_go(test.label);
            if (test.text != NONE) vocabulary_.values.let_go(test.text);
        }
    }

    // A fact has one more user.
    void keep(uint32_t fact) {
        if (!is_presence(fact)) {
            ++atoms_[fact].users;
        } else if (!trie_[index_of(fact)].presence++) {
            ++presences_;
            trie_.keep(index_of(fact));
        }
    }

    // One user less; true if it is an atom that has none any more, which is to be erased.
    bool let_go(uint32_t fact) noexcept {
        if (!is_presence(fact)) return !--atoms_[fact].users;
        if (!--trie_[index_of(fact)].presence) {
            --presences_;
            trie_.let_go(index_of(fact));
        }
        return false;
    }

    // An atom that is not needed.
    bool is_unused(uint32_t fact) const {
        return !is_presence(fact) && atoms_[fact].table != NONE && !atoms_[fact].users;
    }

    // Without users, an atom goes.
    void erase(uint32_t number) noexcept {
        const Atom atom = atoms_[number];
        const uint32_t node = node_of(number);
        const bool paired = tables_[atom.table].aspect.kind == TWO;
        unfile(number, atom);
        if (!atom.is_keyed()) {
            release(tests_[atom.tests]);
            tests_.erase(atom.tests);
        } else {
            vocabulary_.values.let_go(uint32_t(paired ? atom.key >> 32 : atom.key));
            if (paired) vocabulary_.values.let_go(uint32_t(atom.key));
        }
        atoms_[number] = Atom();
        numbers_.give_back(number);
        trie_.let_go(node);
    }

    // Call *take* with each atom of a hashed table that has *key*.
    template <typename Take>
    void each_with(uint32_t table, uint64_t key, Take take) const {
        uint32_t atom = buckets_.find(bucket(table, key));
        for (; atom != NONE; atom = atoms_[atom].next) {
            if (atoms_[atom].table == table && atoms_[atom].key == key) take(atom);
        }
    }

    // What is left to ask of an atom that a hashed table has found.
    Lead lead(uint32_t number) const {
        const Atom& atom = atoms_[number];
        if (atom.is_keyed()) return {number, NONE, 0, Lead::NOTHING};
        const Tests& tests = tests_[atom.tests];
        const Aspect& aspect = tables_[atom.table].aspect;
        if (aspect.kind == ONE && tests.size() == 2) {
            for (const Test& test : tests) {
                if (test.subject == SELF && test.comparison == DIFFERENT) {
                    return {number, test.text, 0, Lead::DIFFERS};
                }
            }
        } else if (aspect.kind == GRAMS && tests.size() == 1u + aspect.is_paired()) {
            const Test& test = tests[is_part(tests[0]) ? 0 : 1];
            const std::string_view text = vocabulary_.values[test.text];
            size_t offset = 0;
            while (gram(text.data() + offset) != uint32_t(atom.key)) ++offset;
            if (offset <= UINT16_MAX) {
                return {number, test.text, uint16_t(offset),
                        test.comparison == CONTAINS ? Lead::PART : Lead::START};
            }
        }
        return {number, NONE, 0, Lead::TESTS};
    }

    // False: no table of GRAMS has *key*.
    bool may_have(uint64_t key) const { return has_gram_.has(gram_bit(key)); }
    // False: no table of TWO with this aspect has *key*. Of twenty attributes there are 190 pairs,
    // and mostly filters ask for few: to look for the others takes eight times as long.
    bool may_have_two(const Aspect& aspect, uint64_t key) const {
        return pairs_.may_have(hash_of_two(aspect, key));
    }

  private:
    // A value is looked for at many nodes at once: its atoms have numbers side by side.
    static uint32_t owner_of(const Choice& choice) {
        return choice.aspect.kind <= TWO ? 1 + uint32_t(choice.key) : 0;
    }

    void make_room(uint32_t table) {
        if (tables_[table].aspect.kind == TWO && pairs_.is_full()) find_pairs();
        tests_.make_room();
        by_tests_.make_room();
        buckets_.make_room();
        if (Table::Rows* rows = tables_[table].rows.get()) {
            reserve_for(rows->list, 1);
            rows->intervals.make_room();
        }
    }

    uint32_t find_keyed(uint32_t table, uint64_t key) const {
        uint32_t found = NONE;
        each_with(table, key, [&](uint32_t atom) {
            if (atoms_[atom].is_keyed()) found = atom;
        });
        return found;
    }

    uint32_t find(uint32_t table, const Tests& tests) const {
        return by_tests_.find(identity(table, tests), [&](uint32_t atom) {
            return atoms_[atom].table == table && tests_[atoms_[atom].tests] == tests;
        });
    }

    static uint32_t identity(uint32_t table, const Tests& tests) {
        return uint32_t(mix(hash_of(tests) ^ seed(), table + SALT));
    }

    uint32_t table_of(uint32_t node, const Aspect& aspect) {
        for (uint32_t at = trie_[node].tables; at != NONE; at = tables_[at].next) {
            if (tables_[at].aspect == aspect) return at;
        }
        Table table;
        table.node = node;
        table.next = trie_[node].tables;
        table.aspect = aspect;
        if (!is_hashed(aspect.kind) || aspect.kind == NUMBERS) {
            table.rows = std::make_unique<Table::Rows>();
        }
        const uint32_t number = tables_.add(std::move(table));
        for (uint32_t label : aspect.label) vocabulary_.keep(label);
        trie_[node].tables = number;
        return number;
    }

    void erase_table(uint32_t number) noexcept {
        const Table& table = tables_[number];
        uint32_t* at = &trie_[table.node].tables;
        while (*at != number) at = &tables_[*at].next;
        *at = table.next;
        for (uint32_t label : table.aspect.label) vocabulary_.let_go(label);
        tables_.erase(number);
    }

    // Where atoms of a hashed table begin; one chain may hold those of several tables.
    static uint64_t bucket(uint32_t table, uint64_t key) {
        return mix(hash_number(key), table + SALT);
    }

    static bool is_part(const Test& test) {
        return test.comparison == CONTAINS || test.comparison == STARTS;
    }

    static uint64_t hash_of_two(const Aspect& aspect, uint64_t key) {
        return hash_number(mix(uint64_t(aspect.label[0]) << 32 | aspect.label[1], SALT) ^ key);
    }

    // Leave out the pairs of atoms that went, and make room for as many as there are.
    void find_pairs() {
        size_t count = 0;
        const auto each = [&](auto take) {
            for (const Atom& atom : atoms_) {
                if (atom.table == NONE) continue;
                const Aspect& aspect = tables_[atom.table].aspect;
                if (aspect.kind == TWO) take(hash_of_two(aspect, atom.key));
            }
        };
        each([&](uint64_t) { ++count; });
        BloomFilter pairs(std::max(2 * count, LEAST_PAIRS));
        each([&](uint64_t hash) { pairs.add(hash); });
        pairs_ = std::move(pairs);
    }

    static uint16_t gram_bit(uint64_t key) { return uint16_t((key * SALT) >> 48); }

    static Interval interval_of(const Test& test, uint32_t atom, bool alone) {
        constexpr double infinite = std::numeric_limits<double>::infinity();
        Interval interval{test.low, test.low, atom, true, true, false, alone};
        switch (test.comparison) {
            case LESS: interval.high_included = false; [[fallthrough]];
            case AT_MOST: interval.low = -infinite; break;
            case GREATER: interval.low_included = false; [[fallthrough]];
            case AT_LEAST: interval.high = infinite; break;
            default:
                interval.high = test.high;
                interval.low_included = test.low_included;
                interval.high_included = test.high_included;
                interval.both = true;
        }
        return interval;
    }

    // Put an atom where its table finds it; *chosen* is the test that it was chosen for.
    void file(uint32_t number, uint32_t chosen) {
        Atom& atom = atoms_[number];
        Table& table = tables_[atom.table];
        const TableKind kind = table.aspect.kind;
        ++table.atoms;
        if (!atom.is_keyed()) by_tests_.add(identity(atom.table, tests_[atom.tests]), number);
        if (is_hashed(kind)) {
            const uint64_t key = bucket(atom.table, atom.key);
            atom.next = buckets_.find(key);
            buckets_.set(key, number);
        }
        if (kind == RANGES) {
            const Tests& tests = tests_[atom.tests];
            const Interval interval = interval_of(tests[chosen], number, tests.size() == 1);
            // Where it is filed, for whoever takes it out.
            std::memcpy(&atom.key, &interval.low, sizeof interval.low);
            table.rows->intervals.add(interval);
            if (interval.both) trie_.count(table.node, +1);
        } else if (kind == TWO) {
            pairs_.add(hash_of_two(table.aspect, atom.key));
        } else if (kind == GRAMS) {
            if (!grams_[gram_bit(atom.key)]++) has_gram_.add(gram_bit(atom.key));
        } else if (table.rows) {
            table.rows->list.push_back(number);
        }
    }

    void unfile(uint32_t number, const Atom& atom) noexcept {
        Table& table = tables_[atom.table];
        const TableKind kind = table.aspect.kind;
        if (!atom.is_keyed()) by_tests_.erase(identity(atom.table, tests_[atom.tests]), number);
        if (is_hashed(kind)) unchain(number, atom);
        if (kind == RANGES) {
            double low;
            std::memcpy(&low, &atom.key, sizeof low);
            if (table.rows->intervals.erase(number, low).both) trie_.count(table.node, -1);
        } else if (kind == GRAMS) {
            if (!--grams_[gram_bit(atom.key)]) has_gram_.erase(gram_bit(atom.key));
        } else if (table.rows) {
            Words& list = table.rows->list;
            *std::find(list.begin(), list.end(), number) = list.back();
            list.pop_back();
        }
        if (!--table.atoms) erase_table(atom.table);
    }

    void unchain(uint32_t number, const Atom& atom) {
        const uint64_t key = bucket(atom.table, atom.key);
        uint32_t at = buckets_.find(key);
        if (at == number) {
            if (atom.next == NONE) buckets_.erase(key);
            else buckets_.set(key, atom.next);
            return;
        }
        while (atoms_[at].next != number) at = atoms_[at].next;
        atoms_[at].next = atom.next;
    }

    static constexpr size_t LEAST_PAIRS = 4096;  // that come before all atoms are gone through

    Vocabulary& vocabulary_;
    Trie& trie_;
    Chooser chooser_;
    Runs<1, 4, 16, 64> numbers_;
    std::vector<Atom> atoms_;
    Pool<Tests> tests_;
    Pool<Table> tables_;
    NumberMap buckets_;
    HashIndex by_tests_;  // atoms whose key does not say all
    size_t presences_ = 0;
    std::vector<uint32_t> grams_ = std::vector<uint32_t>(1u << 16);
    Bits has_gram_{1u << 16};  // those that are not 0
    BloomFilter pairs_{LEAST_PAIRS};  // of values, of the tables of TWO
};

}  // namespace dragoman
