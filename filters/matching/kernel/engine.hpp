// The engine: see plan.py for what it is told, and index.py for what it answers.
//
// The paths of all atoms are one trie, run as an automaton that is made deterministic state by state,
// as real documents reach them. A state knows which atoms without tests hold at an element, and which
// tables of tests to probe there. Expressions are watched: each is filed under atoms of which one must
// hold if its formula does. One that fails moves to atoms that are false now, as the solvers of
// satisfiability do, so that it ends up under what is rarely true.
#pragma once

#include <libxml/tree.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "programs.hpp"
#include "symbols.hpp"
#include "tables.hpp"
#include "values.hpp"
#include "vocabulary.hpp"
#include "watches.hpp"

namespace dragoman {

constexpr uint32_t ROOT = 0;  // the trie's node that stands for the document
enum Axis : uint8_t { CHILD, DESCENDANT };

// ---- formulas: in each word a kind and a number, that of an atom or of the words of the operands
enum Kind : uint32_t { HOLDS, FAILS, ALL, ANY };
constexpr uint32_t KIND_SHIFT = 30, NUMBER_MASK = (1u << KIND_SHIFT) - 1;
inline uint32_t word(Kind kind, uint32_t number) { return kind << KIND_SHIFT | number; }
inline Kind kind_of(uint32_t word) { return Kind(word >> KIND_SHIFT); }
inline uint32_t number_in(uint32_t word) { return word & NUMBER_MASK; }

struct Test {
    uint8_t subject = SELF, comparison = EXISTS;
    bool low_included = false, high_included = false;
    uint32_t label = NONE;
    uint32_t text = NONE;  // a string among the values
    double low = 0, high = 0;

    bool operator==(const Test& other) const {
        return subject == other.subject && comparison == other.comparison && label == other.label &&
               text == other.text && low == other.low && high == other.high &&
               low_included == other.low_included && high_included == other.high_included;
    }
};

using Tests = std::vector<Test>;

// What one message says of the filters; all others are false.
struct Found {
    Words yes;
    Words doubtful;      // libxml2 has to decide
    Words unprogrammed;  // to be decided with their programs, see Engine::decide
};

class Engine {
  public:
    Engine() {
        nodes_.add(Node());  // ROOT
    }

    ~Engine() {
        for (uint32_t number = 0; number < filters_.bound(); ++number) std::free(filters_[number].block);
    }

    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // ---- what filters are made of -----------------------------------------------------------

    // A name, or NONE for any; the label has one more user.
    uint32_t label(const char* ns, size_t ns_size, const char* local, size_t local_size) {
        uint32_t space = ns ? vocabulary_.names.keep({ns, ns_size}) : NONE;
        uint32_t name = local ? vocabulary_.names.keep({local, local_size}) : NONE;
        return vocabulary_.keep_label(space, name);
    }

    uint32_t string(const char* text, size_t size) { return vocabulary_.values.keep({text, size}); }

    // The trie's node one step behind *parent*; takes over the label. Kept alive by atoms and branches.
    uint32_t step(uint32_t parent, uint8_t axis, uint32_t label) {
        uint64_t key = child_key(parent, axis, label);
        uint32_t found = children_.find(key);
        if (found != NONE) {
            vocabulary_.let_go(label);
            return found;
        }
        Node node;
        node.parent = parent;
        node.label = label;
        node.axis = axis;
        uint32_t number = nodes_.add(std::move(node));
        ++idle_;
        children_.set(key, number);
        keep_node(parent);
        adopt(parent, axis, label);
        return number;
    }

    // The atom of *tests* at *node*; takes over the tests' labels and strings. No user yet.
    uint32_t atom(uint32_t node, Tests tests) {
        Choice choice = choose(tests);
        uint32_t table = NONE;
        if (choice.kind != PRESENCE) {
            table = table_of(node, choice);
            for (uint32_t other = first_of(table, choice); other != NONE;
                 other = next_of(table, choice, other)) {
                if (is(atoms_[other], table, choice, tests)) {
                    release(tests);
                    return other;
                }
            }
        } else if (nodes_[node].presence != NONE) {
            return nodes_[node].presence;
        }
        Atom atom;
        atom.node = node;
        atom.table = table;
        atom.key = choice.key;
        keep_node(node);
        if (table == NONE) {
            uint32_t number = enter(atom);
            nodes_[node].presence = number;
            soil(node);
            return number;
        }
        atom.keyed = is_keyed(choice, tests);
        if (atom.keyed) {
            // The table keeps the labels.
            for (const Test& test : tests) vocabulary_.let_go(test.label);
        } else {
            atom.tests = tests_.add(std::move(tests));
        }
        uint32_t number = enter(atom);
        file(table, choice, number);
        return number;
    }

    // An atom that turned out not to be needed.
    void drop_unused(uint32_t atom) {
        if (!atoms_[atom].users) drop(atom);
    }

    // ---- filters ----------------------------------------------------------------------------

    uint32_t find_filter(std::string_view text, uint32_t scope) const {
        return texts_.find(hash_of(text, scope), [&](uint32_t number) {
            return filters_[number].scope == scope && text_of(number) == text;
        });
    }

    uint32_t add_filter(std::string_view text, uint32_t scope, const Words& formula, bool exact,
                        bool numeric, const Words& branches, bool programmed) {
        Filter filter;
        const size_t words = formula.size();
        filter.block = static_cast<uint32_t*>(
            std::malloc(HEAD_WORDS * sizeof(uint32_t) + words * sizeof(uint32_t) + text.size()));
        if (!filter.block) throw std::bad_alloc();
        filter.block[0] = uint32_t(formula.size()) << 16 | uint32_t(text.size());
        uint32_t* at = filter.block + HEAD_WORDS;
        at = std::copy(formula.begin(), formula.end(), at);
        std::memcpy(at, text.data(), text.size());
        filter.scope = scope;
        filter.exact = exact;
        filter.numeric = numeric;
        filter.programmed = programmed;
        filter.users = 1;
        filter.branches = keep_branches(branches);
        uint32_t number = filters_.add(filter);
        if (told_.size() < filters_.bound()) told_.resize(filters_.bound());
        told_[number] = 0;
        texts_.add(hash_of(text, scope), number);
        for (uint32_t word : formula) {
            if (kind_of(word) <= FAILS) ++atoms_[number_in(word)].users;
        }
        watch(number);
        ++size_;
        return number;
    }

    bool has(uint32_t number) const { return number < filters_.bound() && filters_[number].users; }
    void keep(uint32_t number) { ++filters_[number].users; }

    // True if that was the last user, and the filter is gone.
    bool let_go(uint32_t number) {
        if (--filters_[number].users) return false;
        Filter& filter = filters_[number];
        unwatch(number);
        if (filter.always) always_.erase(std::find(always_.begin(), always_.end(), number));
        texts_.erase(hash_of(text_of(number), filter.scope), number);
        for (const uint32_t *at = formula_of(filter), *end = end_of(filter); at != end; ++at) {
            if (kind_of(*at) > FAILS) continue;
            uint32_t atom = number_in(*at);
            if (!--atoms_[atom].users) drop(atom);
        }
        let_go_branches(filter.branches);
        drop_program(number);
        std::free(filter.block);
        filters_.erase(number);
        --size_;
        if (idle_ > 1024 + nodes_.live() / 8) purge();
        return true;
    }

    std::string_view text_of(uint32_t number) const {
        const Filter& filter = filters_[number];
        return {reinterpret_cast<const char*>(end_of(filter)), filter.block[0] & 0xffff};
    }

    uint32_t scope_of(uint32_t number) const { return filters_[number].scope; }
    size_t size() const { return size_; }
    size_t states() const { return states_.size(); }

    // ---- matching ---------------------------------------------------------------------------

    // Decide an unprogrammed filter of the message that was matched last; its program is kept a while.
    Verdict decide(uint32_t number, Words program) {
        if (programs_.live() >= MAX_PROGRAMS) drop_programs();
        const uint32_t place = programs_.add(std::move(program));
        program_of_.set(number, place);
        return interpreter_.run(programs_[place].data());
    }

    void find(const xmlNode* root, Found& found) {
        if (!size_) return;
        begin();
        document_.begin(root);
        walk(root);
        count_elements();
        settle(found);
        for (uint32_t number : always_) judge(number, found);
    }

  private:
    static constexpr size_t HEAD_WORDS = 1;  // how many there are of the formula, and octets of the text
    static constexpr size_t MAX_STATES = 20000;
    static constexpr size_t MAX_MEMBERS = 4u << 20;  // of all states
    static constexpr size_t MAX_TRANSITIONS = 1u << 20;
    static constexpr size_t MAX_SYMBOLS = 1u << 16;
    static constexpr size_t MAX_REMEMBERED = 1u << 14;  // and one for each atom
    static constexpr uint32_t KEYED = 1u << 31;      // of an atom that is remembered
    static constexpr uint32_t SEVERAL = NONE - 1;
    // In a watch: whether its atom and the other one decide the filter.
    static constexpr uint32_t WAITS = 0, DECIDES = 1u << 31, ATOM_MASK = DECIDES - 1, NO_ATOM = ATOM_MASK;
    static constexpr size_t MAX_PROGRAMS = 1u << 15;
    static constexpr size_t AHEAD = 8;
    static constexpr uint32_t PATIENCE = 32;
    static constexpr uint32_t PRESENCE_COST = 64;
    static constexpr uint32_t HALF_LIFE = 4096;      // of heat, in messages
    static constexpr size_t GRAM = 4;
    static constexpr size_t BLOCK = 32;

    struct Node {
        uint32_t parent = NONE, label = NONE;
        uint32_t users = 0;     // atoms, branches, children
        uint32_t presence = NONE;  // the atom without tests
        uint32_t counted = 0;   // users that want to know whether two elements are here
        uint8_t axis = CHILD;
        bool forks = false;     // it has DESCENDANT children
        Words tables;
        Words active, below;    // the states that hold it
    };

    static constexpr uint8_t NOTHING = 0xff;  // no subject

    enum TableKind : uint8_t { PRESENCE, ONE, TWO, NUMBERS, RANGES, GRAMS, HAS, SCAN, NEVER };

    struct Choice {
        TableKind kind = PRESENCE;
        uint8_t subject[2] = {NOTHING, NOTHING};
        uint32_t label[2] = {NONE, NONE};
        uint64_t key = 0;  // within the table
        uint32_t test = 0;  // that was chosen
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

    struct Table {
        uint32_t node = NONE, atoms = 0;
        TableKind kind = SCAN;
        uint8_t subject[2] = {NOTHING, NOTHING};
        uint32_t label[2] = {NONE, NONE};
        Words list;                        // HAS, SCAN, NUMBERS
        std::vector<Interval> intervals;   // RANGES, by their lower bound
        std::vector<double> highest;       // of each block of them
        bool stale = false;                // *highest* is
    };

    struct Atom {
        uint32_t node = NONE, table = NONE, next = NONE;
        uint32_t users = 0, tests = NONE;
        bool keyed = false;  // the key says all that the tests do
        uint64_t key = 0;
    };

    struct Met {
        uint32_t epoch = 0, count = 0;
    };

    struct Filter {
        uint32_t* block = nullptr;
        uint32_t scope = 0, users = 0;
        uint32_t branches = NONE;  // a set of nodes that must not be met twice
        uint32_t watched = NONE;   // the atom; SEVERAL
        bool exact = false, numeric = false, programmed = false, always = false;
    };

    // The tables of one kind and subject at all nodes of a state: one look at the value serves them.
    struct Group {
        TableKind kind;
        uint8_t subject[2];
        uint32_t label[2];
        uint32_t key;  // of what is remembered of it
        Words tables;

        bool paired() const { return subject[1] != NOTHING; }

        bool asks(const Table& table) const {
            return kind == table.kind && subject[0] == table.subject[0] && label[0] == table.label[0] &&
                   subject[1] == table.subject[1] && label[1] == table.label[1];
        }
    };

    struct State {
        Words active, below;
        Words present, counted;
        std::vector<Group> groups;
        uint32_t key = 0, epoch = 0, visits = 0;
        bool dirty = true, dead = false;
    };

    // The atoms that a value fires in a group: real values come again.
    struct Remembered {
        uint64_t value;
        uint32_t group, offset, count;
    };

    // ---- the vocabulary ---------------------------------------------------------------------

    void release(const Tests& tests) {
        for (const Test& test : tests) {
            vocabulary_.let_go(test.label);
            if (test.text != NONE) vocabulary_.values.let_go(test.text);
        }
    }

    // ---- the trie ---------------------------------------------------------------------------

    static uint64_t child_key(uint32_t parent, uint8_t axis, uint32_t label) {
        return uint64_t(parent << 1 | axis) << 32 | label;
    }

    void keep_node(uint32_t number) {
        if (number != ROOT && !nodes_[number].users++) --idle_;
    }

    // A node without users stays until the next purge: it may come back, and states hold it.
    void let_go_node(uint32_t number) {
        if (number != ROOT && !--nodes_[number].users) ++idle_;
    }

    void count(uint32_t number, int change) {
        Node& node = nodes_[number];
        node.counted += change;
        if (node.counted == uint32_t(change > 0)) soil(number);
    }

    void soil(uint32_t number) {
        for (uint32_t state : nodes_[number].active) states_[state].dirty = true;
    }

    // *parent* got a child: states that do not know it must be told.
    void adopt(uint32_t parent, uint8_t axis, uint32_t label) {
        Node& node = nodes_[parent];
        if (axis == DESCENDANT && !node.forks) {
            node.forks = true;
            for (uint32_t state : node.active) states_[state].dead = true;
            if (parent == ROOT) start_ = NONE;
            return;
        }
        const Words& states = axis == CHILD ? node.active : node.below;
        bool all = label == symbols_.any;
        for (uint32_t state : states) {
            if (states_[state].dead) continue;
            if (all) {
                states_[state].key = next_key_++;
                continue;
            }
            for (uint32_t symbol : symbols_.with(label)) {
                transitions_.erase(uint64_t(states_[state].key) << 32 | symbol);
            }
        }
    }

    void purge() {
        Words idle;
        for (uint32_t number = 1; number < nodes_.bound(); ++number) {
            if (nodes_[number].parent != NONE && !nodes_[number].users) idle.push_back(number);
        }
        forget();
        while (!idle.empty()) {
            const uint32_t number = idle.back();
            idle.pop_back();
            Node& node = nodes_[number];
            uint32_t parent = node.parent;
            children_.erase(child_key(parent, node.axis, node.label));
            vocabulary_.let_go(node.label);
            nodes_.erase(number);
            --idle_;
            let_go_node(parent);
            if (parent != ROOT && !nodes_[parent].users) idle.push_back(parent);
        }
        for (uint32_t number = 0; number < nodes_.bound(); ++number) nodes_[number].forks = false;
        for (uint32_t number = 1; number < nodes_.bound(); ++number) {
            const Node& node = nodes_[number];
            if (node.parent != NONE && node.axis == DESCENDANT) nodes_[node.parent].forks = true;
        }
    }

    // ---- atoms and their tables -------------------------------------------------------------

    uint32_t enter(const Atom& atom) {
        uint32_t number = atoms_.add(atom);
        watches_.resize(atoms_.bound());
        watches_.reset(number);
        return number;
    }

    Choice choose(const Tests& tests) const {
        Choice choice;
        if (tests.empty()) return choice;
        uint32_t equal[2] = {NONE, NONE};
        for (uint32_t at = 0; at < tests.size(); ++at) {
            if (tests[at].comparison != EQUAL) continue;
            if (contradicts(tests, at)) {
                choice.kind = NEVER;
                return choice;
            }
            if (equal[0] == NONE) {
                equal[0] = at;
            } else if (equal[1] == NONE && !(tests[at] == tests[equal[0]])) {
                equal[1] = at;
            }
        }
        auto take = [&](TableKind kind, uint32_t at) {
            choice.kind = kind;
            choice.test = at;
            choice.subject[0] = tests[at].subject;
            choice.label[0] = tests[at].label;
        };
        if (equal[1] != NONE) {
            // The order must not depend on how the filter was written. Longer texts are rarer: SELF first.
            auto rank = [&](uint32_t at) { return std::make_pair(tests[at].subject, tests[at].label); };
            if (rank(equal[1]) < rank(equal[0])) std::swap(equal[0], equal[1]);
            take(TWO, equal[0]);
            choice.subject[1] = tests[equal[1]].subject;
            choice.label[1] = tests[equal[1]].label;
            choice.key = uint64_t(tests[equal[0]].text) << 32 | tests[equal[1]].text;
            return choice;
        }
        auto has_gram = [&](const Test& test) { return kind_for(test) == GRAMS; };
        if (equal[0] != NONE && std::none_of(tests.begin(), tests.end(), has_gram)) {
            take(ONE, equal[0]);
            choice.key = tests[equal[0]].text;
            return choice;
        }
        // What comes later is dearer, but parts of texts are rarer than whole names.
        TableKind best = SCAN;
        uint32_t chosen = 0;
        for (uint32_t at = 0; at < tests.size(); ++at) {
            TableKind kind = kind_for(tests[at]);
            if (kind < best && (equal[0] == NONE || kind == GRAMS)) {
                best = kind;
                chosen = at;
            }
        }
        if (best == SCAN) {
            choice.kind = SCAN;
            return choice;
        }
        take(best, chosen);
        const Test& test = tests[chosen];
        if (best == NUMBERS) {
            double number = test.low == 0 ? 0.0 : test.low;
            std::memcpy(&choice.key, &number, sizeof number);
        } else if (best == GRAMS) {
            choice.key = gram_of(vocabulary_.values[test.text]);
            if (equal[0] != NONE) {
                choice.subject[1] = tests[equal[0]].subject;
                choice.label[1] = tests[equal[0]].label;
                choice.key |= uint64_t(tests[equal[0]].text + 1) << 32;
            }
        }
        return choice;
    }

    // Whether one value would have to equal two texts.
    bool contradicts(const Tests& tests, uint32_t at) const {
        const Test& test = tests[at];
        if (!vocabulary_.is_single(test.subject, test.label)) return false;
        return std::any_of(tests.begin(), tests.begin() + at, [&](const Test& other) {
            return other.comparison == EQUAL && other.subject == test.subject &&
                   other.label == test.label && other.text != test.text;
        });
    }

    TableKind kind_for(const Test& test) const {
        switch (test.comparison) {
            case NUMBER_EQUAL: return NUMBERS;
            case LESS:
            case AT_MOST:
            case GREATER:
            case AT_LEAST:
            case RANGE: return RANGES;
            case CONTAINS:
            case STARTS: return vocabulary_.values[test.text].size() >= GRAM ? GRAMS : SCAN;
            case EXISTS: return HAS;
            default: return SCAN;
        }
    }

    static uint32_t gram(const char* text) {
        uint32_t word;
        std::memcpy(&word, text, GRAM);
        return word;
    }

    // One that depends on the text alone, so that equal tests meet.
    uint32_t gram_of(std::string_view text) const {
        uint32_t chosen = gram(text.data());
        for (size_t at = 1; at + GRAM <= text.size(); ++at) {
            if (hash_number(gram(text.data() + at)) < hash_number(chosen)) chosen = gram(text.data() + at);
        }
        return chosen;
    }

    uint32_t table_of(uint32_t node, const Choice& choice) {
        for (uint32_t number : nodes_[node].tables) {
            const Table& table = tables_[number];
            if (table.kind == choice.kind && table.subject[0] == choice.subject[0] &&
                table.subject[1] == choice.subject[1] && table.label[0] == choice.label[0] &&
                table.label[1] == choice.label[1]) {
                return number;
            }
        }
        Table table;
        table.node = node;
        table.kind = choice.kind;
        for (int at : {0, 1}) {
            table.subject[at] = choice.subject[at];
            table.label[at] = choice.label[at];
            vocabulary_.keep(choice.label[at]);
        }
        uint32_t number = tables_.add(std::move(table));
        nodes_[node].tables.push_back(number);
        soil(node);
        return number;
    }

    // Whether the key of a table says all that the tests do.
    static bool is_keyed(const Choice& choice, const Tests& tests) {
        return (choice.kind == ONE && tests.size() == 1) || (choice.kind == TWO && tests.size() == 2);
    }

    bool is(const Atom& atom, uint32_t table, const Choice& choice, const Tests& tests) const {
        if (atom.table != table || atom.key != choice.key) return false;
        if (is_keyed(choice, tests)) return atom.keyed;
        return !atom.keyed && tests_[atom.tests] == tests;
    }

    // Where atoms of a hashed table begin; one chain may hold those of several tables.
    uint64_t bucket(uint32_t table, uint64_t key) const { return mix(hash_number(key), table + 0x9e37ull); }

    static bool hashed(TableKind kind) { return kind <= NUMBERS || kind == GRAMS; }

    uint32_t first_of(uint32_t table, const Choice& choice) const {
        if (hashed(choice.kind)) return buckets_.find(bucket(table, choice.key));
        cursor_ = 0;
        return next_of(table, choice, NONE);
    }

    uint32_t next_of(uint32_t table, const Choice& choice, uint32_t atom) const {
        if (hashed(choice.kind)) return atoms_[atom].next;
        const Table& in = tables_[table];
        if (choice.kind == RANGES) {
            return cursor_ < in.intervals.size() ? in.intervals[cursor_++].atom : NONE;
        }
        return cursor_ < in.list.size() ? in.list[cursor_++] : NONE;
    }

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

    void file(uint32_t number, const Choice& choice, uint32_t atom) {
        Table& table = tables_[number];
        ++table.atoms;
        if (hashed(choice.kind)) {
            uint64_t key = bucket(number, choice.key);
            atoms_[atom].next = buckets_.find(key);
            buckets_.set(key, atom);
            unlearn(table, choice.key);
        }
        if (choice.kind == RANGES) {
            const Tests& tests = tests_[atoms_[atom].tests];
            const Interval interval = interval_of(tests[choice.test], atom, tests.size() == 1);
            auto place = std::upper_bound(
                table.intervals.begin(), table.intervals.end(), interval,
                [](const Interval& a, const Interval& b) { return a.low < b.low; });
            table.intervals.insert(place, interval);
            table.stale = true;
            if (interval.both) count(table.node, +1);
        } else if (choice.kind == GRAMS) {
            ++grams_[gram_bit(uint32_t(choice.key))];
        } else if (!hashed(choice.kind) || choice.kind == NUMBERS) {
            table.list.push_back(atom);
        }
    }

    static uint16_t gram_bit(uint32_t gram) { return uint16_t((gram * 0x9e3779b1u) >> 16); }

    void drop(uint32_t number) {
        Atom atom = atoms_[number];
        if (atom.table == NONE) {
            nodes_[atom.node].presence = NONE;
            soil(atom.node);
        } else {
            const bool paired = tables_[atom.table].kind == TWO;
            unfile(number, atom);
            if (!atom.keyed) {
                release(tests_[atom.tests]);
                tests_.erase(atom.tests);
            } else {
                vocabulary_.values.let_go(uint32_t(paired ? atom.key >> 32 : atom.key));
                if (paired) vocabulary_.values.let_go(uint32_t(atom.key));
            }
        }
        atoms_.erase(number);
        let_go_node(atom.node);
    }

    void unfile(uint32_t number, const Atom& atom) {
        Table& table = tables_[atom.table];
        if (hashed(table.kind)) {
            uint64_t key = bucket(atom.table, atom.key);
            uint32_t at = buckets_.find(key);
            if (at == number) {
                if (atom.next == NONE) buckets_.erase(key);
                else buckets_.set(key, atom.next);
            } else {
                while (atoms_[at].next != number) at = atoms_[at].next;
                atoms_[at].next = atom.next;
            }
            unlearn(table, atom.key);
        }
        if (table.kind == RANGES) {
            auto place = std::find_if(table.intervals.begin(), table.intervals.end(),
                                      [&](const Interval& it) { return it.atom == number; });
            if (place->both) count(table.node, -1);
            table.intervals.erase(place);
            table.stale = true;
        } else if (table.kind == GRAMS) {
            --grams_[gram_bit(uint32_t(atom.key))];
        } else if (!hashed(table.kind) || table.kind == NUMBERS) {
            auto place = std::find(table.list.begin(), table.list.end(), number);
            *place = table.list.back();
            table.list.pop_back();
        }
        if (--table.atoms) return;
        Words& tables = nodes_[table.node].tables;
        tables.erase(std::find(tables.begin(), tables.end(), atom.table));
        soil(table.node);
        uint32_t labels[2] = {table.label[0], table.label[1]};
        tables_.erase(atom.table);
        for (uint32_t label : labels) vocabulary_.let_go(label);
    }

    // ---- watching ---------------------------------------------------------------------------

    const uint32_t* formula_of(const Filter& filter) const { return filter.block + HEAD_WORDS; }
    const uint32_t* end_of(const Filter& filter) const {
        return formula_of(filter) + (filter.block[0] >> 16);
    }

    static uint32_t hash_of(std::string_view text, uint32_t scope) {
        return uint32_t(mix(hash_octets(text.data(), text.size()), scope + 0x9e3779b97f4a7c15ull));
    }

    bool holds(uint32_t atom) const { return watches_.holds(atom, epoch_); }

    // The formula; in *loose* reading each negated atom counts as true.
    bool evaluate(const uint32_t*& at, bool loose) const {
        uint32_t word = *at++;
        switch (kind_of(word)) {
            case HOLDS: return holds(number_in(word));
            case FAILS: return loose || !holds(number_in(word));
            default: break;
        }
        bool all = kind_of(word) == ALL;
        for (const uint32_t* end = at + number_in(word); at != end;) {
            if (evaluate(at, loose) != all) {
                at = end;
                return !all;
            }
        }
        return all;
    }

    // Atoms of which one must hold for the formula to hold: those that did least often, lately.
    // False if there are none such.
    bool cut(const uint32_t*& at, Words& chosen, uint32_t& cost) const {
        uint32_t word = *at++;
        switch (kind_of(word)) {
            case HOLDS: {
                uint32_t atom = number_in(word);
                chosen.push_back(atom);
                cost += 1 + watches_.heat(atom) + (atoms_[atom].table == NONE ? PRESENCE_COST : 0);
                return true;
            }
            case FAILS: return false;
            default: break;
        }
        const uint32_t* end = at + number_in(word);
        if (kind_of(word) == ANY) {
            while (at != end) {
                if (!cut(at, chosen, cost)) {
                    at = end;
                    return false;
                }
            }
            return true;
        }
        bool found = false;
        Words best;
        uint32_t least = 0;
        while (at != end) {
            Words other;
            uint32_t price = 0;
            if (!cut(at, other, price) || (found && price >= least)) continue;
            found = true;
            best.swap(other);
            least = price;
        }
        chosen.insert(chosen.end(), best.begin(), best.end());
        cost += least;
        return found;
    }

    // File a filter under a cut of its formula.
    void watch(uint32_t number) {
        Filter& filter = filters_[number];
        Words& chosen = chosen_;
        chosen.clear();
        uint32_t cost = 0;
        const uint32_t* at = formula_of(filter);
        if (!cut(at, chosen, cost)) {
            filter.always = true;
            always_.push_back(number);
            return;
        }
        filter.watched = chosen.size() == 1 ? chosen[0] : SEVERAL;
        for (uint32_t atom : chosen) {
            watches_.add(atom, {number, also_of(filter, atom), filter.branches});
        }
    }

    // Whether a filter that was looked at in vain, by *atom*, should be filed elsewhere.
    bool is_misplaced(uint32_t number, uint32_t atom) {
        Words& chosen = chosen_;
        chosen.clear();
        uint32_t cost = 0;
        const uint32_t* at = formula_of(filters_[number]);
        cut(at, chosen, cost);
        // Not for a small gain, for others would make it move back.
        return std::find(chosen.begin(), chosen.end(), atom) == chosen.end() &&
               cost < watches_.heat(atom) / 4 * 3;
    }

    // What a watch under *atom* says of the rest of the formula.
    uint32_t also_of(const Filter& filter, uint32_t atom) const {
        const uint32_t decides = filter.exact ? DECIDES : WAITS;
        const uint32_t *at = formula_of(filter), *end = end_of(filter);
        if (kind_of(*at) == HOLDS) return decides | NO_ATOM;
        if (kind_of(*at) == ANY) return (names(at, atom) ? decides : WAITS) | NO_ATOM;
        uint32_t also = NO_ATOM, others = 0;
        for (++at; at != end; at += kind_of(*at) > FAILS ? 1 + number_in(*at) : 1) {
            if (*at == word(HOLDS, atom) || (kind_of(*at) == ANY && names(at, atom))) continue;
            ++others;
            if (kind_of(*at) != HOLDS) {
                ++others;
            } else if (also == NO_ATOM ||
                       watches_.heat(number_in(*at)) < watches_.heat(also)) {
                also = number_in(*at);
            }
        }
        return (others <= 1 ? decides : WAITS) | also;
    }

    // Whether *atom* is one of the alternatives at *at*.
    static bool names(const uint32_t* at, uint32_t atom) {
        const uint32_t* end = at + 1 + number_in(*at);
        for (++at; at != end; at += kind_of(*at) > FAILS ? 1 + number_in(*at) : 1) {
            if (*at == word(HOLDS, atom)) return true;
        }
        return false;
    }

    void unwatch(uint32_t number) {
        Filter& filter = filters_[number];
        if (filter.watched != SEVERAL) {
            if (filter.watched != NONE) watches_.erase_filter(filter.watched, number);
        } else {
            for (const uint32_t *at = formula_of(filter), *end = end_of(filter); at != end; ++at) {
                if (kind_of(*at) == HOLDS) watches_.erase_filter(number_in(*at), number);
            }
        }
        filter.watched = NONE;
    }

    // ---- one message ------------------------------------------------------------------------

    void begin() {
        if (!++epoch_) {
            // Once in four thousand million messages: what bears an old number must not look new.
            watches_.forget_messages();
            std::fill(told_.begin(), told_.end(), 0);
            for (uint32_t at = 0; at < branches_.bound(); ++at) branches_[at].epoch = 0;
            std::fill(met_.begin(), met_.end(), Met());
            for (State& state : states_) state.epoch = 0;
            epoch_ = 1;
        }
        if (remembered_.size() > MAX_REMEMBERED + atoms_.live() ||
            recalled_.size() > 4 * (MAX_REMEMBERED + atoms_.live())) {
            forget_values();
        }
        if (!(epoch_ % HALF_LIFE)) watches_.cool();
        if (met_.size() < nodes_.bound()) met_.resize(nodes_.bound());
        fired_.clear();
        visited_.clear();
        unsure_ = false;
        reading_.begin();
        symbols_.begin();
    }

    bool is_full() const {
        return states_.size() > MAX_STATES || members_ > MAX_MEMBERS ||
               transitions_.size() > MAX_TRANSITIONS || symbols_.size() > MAX_SYMBOLS;
    }

    // Forget all states but those of the elements around the present one.
    void begin_anew() {
        std::vector<std::pair<Words, Words>> around;
        for (uint32_t number : path_) around.emplace_back(states_[number].active, states_[number].below);
        forget();
        path_.clear();
        for (auto& [active, below] : around) {
            path_.push_back(state_of(std::move(active), std::move(below)));
        }
        start_ = path_.front();
    }

    void forget() {
        for (uint32_t at = 0; at < nodes_.bound(); ++at) {
            Words().swap(nodes_[at].active);
            Words().swap(nodes_[at].below);
        }
        std::vector<State>().swap(states_);
        symbols_.forget();
        states_by_members_ = HashIndex();
        transitions_.clear();
        forget_values();
        members_ = 0;
        next_key_ = next_group_ = 0;
        start_ = NONE;
    }

    void walk(const xmlNode* root) {
        if (start_ == NONE) {
            Words active{ROOT}, below;
            if (nodes_[ROOT].forks) below.push_back(ROOT);
            start_ = state_of(std::move(active), std::move(below));
        }
        path_.assign(1, start_);
        const xmlNode* node = root;
        while (true) {
            uint32_t state = NONE;
            if (is_element(node)) {
                if (is_full()) begin_anew();
                state = next_state(path_.back(), symbols_.of(node));
                visit(node, state);
            }
            if (state != NONE && node->children &&
                !(states_[state].active.empty() && states_[state].below.empty())) {
                path_.push_back(state);
                node = node->children;
                continue;
            }
            while (node != root && !node->next) {
                node = node->parent;
                path_.pop_back();
            }
            if (node == root) return;
            node = node->next;
        }
    }

    uint32_t next_state(uint32_t from, uint32_t symbol) {
        uint64_t key = uint64_t(states_[from].key) << 32 | symbol;
        uint32_t found = transitions_.find(key);
        if (found != NONE && !states_[found].dead) return found;
        Words active, below = states_[from].below;
        const Symbols::Labels& named = symbols_[symbol];
        const std::array<uint32_t, 4> labels{named[0], named[1], named[2], symbols_.any};
        auto enter = [&](const Words& nodes, uint8_t axis) {
            for (uint32_t node : nodes) {
                for (uint32_t label : labels) {
                    if (label == NONE) continue;
                    uint32_t child = children_.find(child_key(node, axis, label));
                    if (child != NONE) active.push_back(child);
                }
            }
        };
        enter(states_[from].active, CHILD);
        enter(states_[from].below, DESCENDANT);
        for (uint32_t node : active) {
            if (nodes_[node].forks) below.push_back(node);
        }
        for (Words* words : {&active, &below}) {
            std::sort(words->begin(), words->end());
            words->erase(std::unique(words->begin(), words->end()), words->end());
        }
        uint32_t state = state_of(std::move(active), std::move(below));
        transitions_.set(key, state);
        return state;
    }

    uint32_t state_of(Words active, Words below) {
        uint64_t hash = hash_octets(reinterpret_cast<const char*>(active.data()), active.size() * 4);
        hash = mix(hash ^ hash_octets(reinterpret_cast<const char*>(below.data()), below.size() * 4),
                   0x9e3779b97f4a7c15ull);
        uint32_t found = states_by_members_.find(uint32_t(hash), [&](uint32_t number) {
            const State& state = states_[number];
            return !state.dead && state.active == active && state.below == below;
        });
        if (found != NONE) return found;
        uint32_t number = uint32_t(states_.size());
        for (uint32_t node : active) nodes_[node].active.push_back(number);
        for (uint32_t node : below) nodes_[node].below.push_back(number);
        members_ += active.size() + below.size();
        State state;
        state.active = std::move(active);
        state.below = std::move(below);
        state.key = next_key_++;
        states_.push_back(std::move(state));
        states_by_members_.add(uint32_t(hash), number);
        return number;
    }

    // What a state means for the atoms of its nodes.
    void refresh(State& state) {
        state.dirty = false;
        state.present.clear();
        state.counted.clear();
        state.groups.clear();
        Words tables;
        for (uint32_t number : state.active) {
            const Node& node = nodes_[number];
            if (node.presence != NONE) state.present.push_back(node.presence);
            if (node.counted) state.counted.push_back(number);
            for (uint32_t table : node.tables) {
                if (tables_[table].kind != NEVER) tables.push_back(table);
            }
        }
        auto rank = [&](uint32_t number) {
            const Table& table = tables_[number];
            return std::make_tuple(table.subject[0], table.label[0], table.kind, table.subject[1],
                                   table.label[1], number);
        };
        std::sort(tables.begin(), tables.end(),
                  [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
        for (uint32_t number : tables) {
            const Table& table = tables_[number];
            if (state.groups.empty() || !state.groups.back().asks(table)) {
                state.groups.push_back({table.kind,
                                        {table.subject[0], table.subject[1]},
                                        {table.label[0], table.label[1]},
                                        next_group_++,
                                        {}});
            }
            state.groups.back().tables.push_back(number);
        }
        std::sort(state.present.begin(), state.present.end());
        state.epoch = 0;
    }

    void visit(const xmlNode* node, uint32_t number) {
        if (states_[number].dirty) refresh(states_[number]);
        State& state = states_[number];
        if (state.epoch != epoch_) {
            state.epoch = epoch_;
            state.visits = 0;
            visited_.push_back(number);
            const Words& present = state.present;
            for (size_t at = 0; at < present.size(); ++at) {
                if (at + AHEAD < present.size()) watches_.expect(present[at + AHEAD]);
                fire(present[at]);
            }
        }
        ++state.visits;
        const Group *at = state.groups.data(), *end = at + state.groups.size();
        while (at != end) {
            const Group* first = at;
            ++at;
            if (first->kind == SCAN) {
                for (uint32_t table : first->tables) {
                    for (uint32_t atom : tables_[table].list) try_atom(atom, node);
                }
                continue;
            }
            while (at != end && at->kind != SCAN && at->subject[0] == first->subject[0] &&
                   at->label[0] == first->label[0]) {
                ++at;
            }
            reading_.each(node, first->subject[0], first->label[0],
                          [&](std::string_view value) { probe(node, value, first, at); });
        }
    }

    void probe(const xmlNode* node, std::string_view value, const Group* at, const Group* end) {
        if (at->kind <= TWO) {
            const uint32_t known = vocabulary_.values.find(value);
            for (; at != end && at->kind <= TWO; ++at) {
                if (known == NONE) continue;
                if (at->kind == ONE) {
                    recall(*at, known, node);
                    continue;
                }
                reading_.each(node, at->subject[1], at->label[1], [&](std::string_view second) {
                    const uint32_t other = vocabulary_.values.find(second);
                    if (other != NONE) recall(*at, uint64_t(known) << 32 | other, node);
                });
            }
        }
        if (at == end) return;
        const Number number = at->kind <= RANGES ? number_of(value) : Number{0, true};
        for (; at != end; ++at) {
            switch (at->kind) {
                case NUMBERS:
                    if (number.sure) {
                        uint64_t key;
                        double positive = number.value == 0 ? 0.0 : number.value;
                        std::memcpy(&key, &positive, sizeof key);
                        if (number.value == number.value) recall(*at, key, node);
                        break;
                    }
                    [[fallthrough]];
                case HAS:
                    for (uint32_t table : at->tables) {
                        for (uint32_t atom : tables_[table].list) try_atom(atom, node);
                    }
                    break;
                case RANGES:
                    for (uint32_t table : at->tables) stab(table, number, node);
                    break;
                default:
                    probe_grams(*at, value, node);
            }
        }
    }

    // Parts of the value, maybe together with another value of the element.
    void probe_grams(const Group& group, std::string_view value, const xmlNode* node) {
        auto look = [&](uint64_t other) {
            for (size_t from = 0; from + GRAM <= value.size(); ++from) {
                const uint32_t part = gram(value.data() + from);
                if (!grams_[gram_bit(part)]) continue;
                for (uint32_t table : group.tables) {
                    each_in_bucket(table, other << 32 | part, [&](uint32_t atom) { try_atom(atom, node); });
                }
            }
        };
        if (!group.paired()) return look(0);
        reading_.each(node, group.subject[1], group.label[1], [&](std::string_view second) {
            const uint32_t known = vocabulary_.values.find(second);
            if (known != NONE) look(uint64_t(known) + 1);
        });
    }

    template <typename Take>
    void each_in_bucket(uint32_t table, uint64_t key, Take take) {
        for (uint32_t atom = buckets_.find(bucket(table, key)); atom != NONE; atom = atoms_[atom].next) {
            if (atoms_[atom].table == table && atoms_[atom].key == key) take(atom);
        }
    }

    // Fire what a value fires in the tables of a group.
    void recall(const Group& group, uint64_t value, const xmlNode* node) {
        const uint64_t hash = mix(hash_number(value), group.key + 0x9e37ull);
        uint32_t found = remembered_by_hash_.find(hash);
        if (found == NONE || remembered_[found].group != group.key || remembered_[found].value != value) {
            found = uint32_t(remembered_.size());
            remembered_by_hash_.set(hash, found);
            uint32_t offset = uint32_t(recalled_.size());
            for (uint32_t table : group.tables) {
                each_in_bucket(table, value, [&](uint32_t atom) {
                    recalled_.push_back(atoms_[atom].keyed ? atom | KEYED : atom);
                });
            }
            remembered_.push_back({value, group.key, offset, uint32_t(recalled_.size() - offset)});
        }
        const Remembered known = remembered_[found];
        for (uint32_t at = known.offset; at < known.offset + known.count; ++at) {
            if (at + AHEAD < known.offset + known.count) {
                uint32_t soon = recalled_[at + AHEAD];
                if (soon & KEYED) watches_.expect(soon & ~KEYED);
                else __builtin_prefetch(&atoms_[soon]);
            }
            uint32_t atom = recalled_[at];
            if (atom & KEYED) fire(atom & ~KEYED);
            else try_atom(atom, node);
        }
    }

    // A table has one atom more or less with *value*: states must not remember otherwise.
    void unlearn(const Table& table, uint64_t value) {
        if (remembered_.empty()) return;
        for (uint32_t state : nodes_[table.node].active) {
            for (const Group& group : states_[state].groups) {
                if (group.asks(table)) {
                    remembered_by_hash_.erase(mix(hash_number(value), group.key + 0x9e37ull));
                }
            }
        }
    }

    void forget_values() {
        remembered_by_hash_.clear();
        std::vector<Remembered>().swap(remembered_);
        Words().swap(recalled_);
    }

    void stab(uint32_t number, Number value, const xmlNode* node) {
        Table& table = tables_[number];
        if (table.stale) {
            table.stale = false;
            table.highest.assign((table.intervals.size() + BLOCK - 1) / BLOCK,
                                 -std::numeric_limits<double>::infinity());
            for (size_t at = 0; at < table.intervals.size(); ++at) {
                double& highest = table.highest[at / BLOCK];
                highest = std::max(highest, table.intervals[at].high);
            }
        }
        for (size_t block = 0; block < table.highest.size(); ++block) {
            const Interval* at = table.intervals.data() + block * BLOCK;
            const Interval* end = table.intervals.data() +
                                  std::min((block + 1) * BLOCK, table.intervals.size());
            if (value.sure) {
                if (!(at->low <= value.value)) return;  // not a number either
                if (table.highest[block] < value.value) continue;
            }
            for (; at != end; ++at) {
                if (value.sure && !at->has(value.value)) continue;
                if (value.sure && at->alone) fire(at->atom);
                else try_atom(at->atom, node);
            }
        }
    }

    // Fire *atom* if *node* passes its tests, or may.
    void try_atom(uint32_t number, const xmlNode* node) {
        if (holds(number)) return;
        bool unsure = false;
        for (const Test& test : tests_[atoms_[number].tests]) {
            Operand operand{test.text == NONE ? std::string_view() : vocabulary_.values[test.text], test.low,
                            test.high, test.low_included, test.high_included};
            Verdict verdict = reading_.check(node, test.subject, test.comparison, test.label, operand);
            if (verdict == NO) return;
            unsure |= verdict == UNKNOWN;
        }
        unsure_ |= unsure;
        fire(number);
    }

    void fire(uint32_t number) {
        if (watches_.fire(number, epoch_)) fired_.push_back(number);
    }

    // ---- verdicts ---------------------------------------------------------------------------

    // How many elements are at each node that somebody wants counted.
    void count_elements() {
        for (uint32_t number : visited_) {
            const State& state = states_[number];
            for (uint32_t node : state.counted) {
                Met& met = met_[node];
                if (met.epoch != epoch_) met = {epoch_, 0};
                bool once = met.count < 2;
                met.count += state.visits;
                // Each bound may be met by another element: tests of two bounds say nothing, then.
                if (once && met.count > 1) fire_ranges(node);
            }
        }
    }

    void fire_ranges(uint32_t node) {
        for (uint32_t table : nodes_[node].tables) {
            if (tables_[table].kind != RANGES) continue;
            for (const Interval& interval : tables_[table].intervals) {
                if (interval.both) fire(interval.atom);
            }
        }
    }

    // Look at all that wait for an atom that holds.
    void settle(Found& found) {
        looks_.clear();
        for (size_t at = 0; at < fired_.size(); ++at) {
            if (at + AHEAD < fired_.size()) watches_.expect_watches(fired_[at + AHEAD]);
            for (uint32_t place = 0; place < watches_.count(fired_[at]); ++place) {
                looks_.push_back({fired_[at], watches_.at(fired_[at], place)});
            }
        }
        misplaced_.clear();
        for (size_t at = 0; at < looks_.size(); ++at) {
            if (at + 2 * AHEAD < looks_.size()) {
                const Watch& soon = looks_[at + 2 * AHEAD].watch;
                __builtin_prefetch(&told_[soon.filter]);
                if ((soon.also & ATOM_MASK) != NO_ATOM) watches_.expect(soon.also & ATOM_MASK);
                if (!decides(soon)) __builtin_prefetch(&filters_[soon.filter]);
            }
            if (at + AHEAD < looks_.size()) {
                const Watch& soon = looks_[at + AHEAD].watch;
                if (!decides(soon)) __builtin_prefetch(filters_[soon.filter].block);
            }
            const Look& look = looks_[at];
            if (settle(look.watch, found)) continue;
            // Looking costs more than waiting elsewhere would, now and then.
            if (!(++patience_ % PATIENCE) && is_misplaced(look.watch.filter, look.atom)) {
                misplaced_.push_back(look.watch.filter);
            }
        }
        for (uint32_t number : misplaced_) {
            unwatch(number);
            watch(number);
        }
    }

    // Whether a watch tells the verdict of its filter on this message.
    bool decides(const Watch& watch) {
        return watch.also & DECIDES && !unsure_ && are_single(watch.branches);
    }

    // False if the formula is.
    bool settle(const Watch& watch, Found& found) {
        if (told_[watch.filter] == epoch_) return true;
        const uint32_t also = watch.also & ATOM_MASK;
        if (also != NO_ATOM && !holds(also)) return false;
        if (!decides(watch)) {
            return judge(watch.filter, found);
        }
        told_[watch.filter] = epoch_;
        found.yes.push_back(watch.filter);
        return true;
    }

    // False if the formula is.
    bool judge(uint32_t number, Found& found) {
        if (told_[number] == epoch_) return true;
        const Filter& filter = filters_[number];
        const uint32_t* at = formula_of(filter);
        if (!evaluate(at, true)) return false;
        told_[number] = epoch_;
        if (filter.exact && !(unsure_ && filter.numeric) && are_single(filter.branches)) {
            at = formula_of(filter);
            if (evaluate(at, false)) found.yes.push_back(number);
            return true;
        }
        if (!filter.programmed) {
            found.doubtful.push_back(number);
            return true;
        }
        const uint32_t program = program_of_.find(number);
        if (program == NONE) found.unprogrammed.push_back(number);
        else put(number, interpreter_.run(programs_[program].data()), found);
        return true;
    }

    static void put(uint32_t number, Verdict verdict, Found& found) {
        if (verdict == YES) found.yes.push_back(number);
        else if (verdict == UNKNOWN) found.doubtful.push_back(number);
    }

    // ---- programs, as far as they were needed lately -----------------------------------------

    void drop_program(uint32_t filter) {
        const uint32_t program = program_of_.find(filter);
        if (program == NONE) return;
        release_program(programs_[program].data(), vocabulary_);
        programs_.erase(program);
        program_of_.erase(filter);
    }

    void drop_programs() {
        for (uint32_t program = 0; program < programs_.bound(); ++program) {
            if (!programs_[program].empty()) release_program(programs_[program].data(), vocabulary_);
        }
        programs_ = Pool<Words>();
        program_of_.clear();
    }

    // ---- branches: sets of nodes, each of which no two elements may meet ---------------------

    struct Branches {
        Words nodes;
        uint32_t users = 0, epoch = 0;
        bool single = false;
    };

    static uint32_t hash_of(const Words& nodes) {
        return uint32_t(hash_octets(reinterpret_cast<const char*>(nodes.data()), nodes.size() * 4));
    }

    uint32_t keep_branches(const Words& nodes) {
        if (nodes.empty()) return NONE;
        uint32_t found = branches_by_nodes_.find(
            hash_of(nodes), [&](uint32_t number) { return branches_[number].nodes == nodes; });
        if (found == NONE) {
            found = branches_.add({nodes});
            branches_by_nodes_.add(hash_of(nodes), found);
            for (uint32_t node : nodes) {
                keep_node(node);
                count(node, +1);
            }
        }
        ++branches_[found].users;
        return found;
    }

    void let_go_branches(uint32_t number) {
        if (number == NONE || --branches_[number].users) return;
        for (uint32_t node : branches_[number].nodes) {
            count(node, -1);
            let_go_node(node);
        }
        branches_by_nodes_.erase(hash_of(branches_[number].nodes), number);
        branches_.erase(number);
    }

    bool are_single(uint32_t number) {
        if (number == NONE) return true;
        Branches& branches = branches_[number];
        if (branches.epoch != epoch_) {
            branches.epoch = epoch_;
            branches.single = std::none_of(branches.nodes.begin(), branches.nodes.end(), [&](uint32_t node) {
                return met_[node].epoch == epoch_ && met_[node].count > 1;
            });
        }
        return branches.single;
    }

    Vocabulary vocabulary_;
    Reading reading_{vocabulary_};
    Symbols symbols_{vocabulary_};
    Document document_{symbols_};
    Interpreter interpreter_{vocabulary_, symbols_, document_, reading_};

    Pool<Node> nodes_;
    NumberMap children_;
    size_t idle_ = 0;  // nodes without users

    Pool<Atom> atoms_;
    Pool<Tests> tests_;
    Pool<Table> tables_;
    NumberMap buckets_;
    std::vector<uint32_t> grams_ = std::vector<uint32_t>(1u << 16);
    mutable size_t cursor_ = 0;

    Pool<Filter> filters_;
    std::vector<uint32_t> told_;  // of filters: the last message in which the verdict was found
    Pool<Words> programs_;
    NumberMap program_of_;  // filters
    Pool<Branches> branches_;
    HashIndex branches_by_nodes_;
    Watches watches_;
    uint32_t patience_ = 0;
    HashIndex texts_;
    Words always_, chosen_;
    size_t size_ = 0;

    std::vector<State> states_;
    HashIndex states_by_members_;
    NumberMap transitions_;
    size_t members_ = 0;
    uint32_t next_key_ = 0, next_group_ = 0, start_ = NONE;

    NumberMap remembered_by_hash_;
    std::vector<Remembered> remembered_;
    Words recalled_;

    uint32_t epoch_ = 0;
    std::vector<Met> met_;          // of nodes
    Words path_, fired_, visited_, misplaced_;
    struct Look {
        uint32_t atom;
        Watch watch;
    };
    std::vector<Look> looks_;
    bool unsure_ = false;
};

}  // namespace dragoman
