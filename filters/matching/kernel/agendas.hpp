// What is to be looked at where elements of a state are.
//
// Each state of the automaton has an agenda: its nodes, and the tables to look into at its
// elements, in groups that one look at a value serves. Agendas are made when messages come to a
// state; between messages they are mended where they stand.
#pragma once

#include <algorithm>
#include <vector>

#include "atoms.hpp"
#include "automaton.hpp"
#include "bits.hpp"
#include "containers.hpp"
#include "trie.hpp"

namespace dragoman {

// The tables of one aspect at all nodes of a state: one look at the value serves them.
struct Group {
    Aspect aspect;
    uint64_t key;  // of what is remembered of it; never used again

    bool shares_subject(const Group& other) const {
        return aspect.subject[0] == other.aspect.subject[0] &&
               aspect.label[0] == other.aspect.label[0];
    }
};

// Groups side by side that look at the same values of an element. An element of HL7 with three
// attributes has 200 groups, which look at ten.
struct Look {
    uint8_t subject;
    uint32_t label;
    uint32_t begin, end;  // among the groups
};

class Agenda {
  public:
    // By the rank of their aspects.
    const std::vector<Group>& groups() const { return groups_; }
    // All but those that look at whole elements, which are behind the last one.
    const std::vector<Look>& looks() const { return looks_; }
    const Group* whole() const {
        return groups_.data() + (looks_.empty() ? 0 : looks_.back().end);
    }
    // The tables of one of the groups: few ask for them.
    const Words& tables(const Group& group) const { return tables_[&group - groups_.data()]; }
    // Nodes with tests of two bounds.
    const Words& ranged() const { return ranged_; }
    // The nodes of the state, as bits; none if they would take too much room.
    const SparseBits& nodes() const { return nodes_; }

    uint32_t visits = 0;  // by elements of one message

  private:
    friend class Agendas;

    std::vector<Group>::iterator place(const Aspect& aspect) {
        return std::lower_bound(groups_.begin(), groups_.end(), aspect,
                                [](const Group& group, const Aspect& other) {
                                    return group.aspect.rank() < other.rank();
                                });
    }
    // Where a group of *aspect* is among the groups, or their number.
    size_t find(const Aspect& aspect) {
        const auto found = place(aspect);
        const bool there = found != groups_.end() && found->aspect == aspect;
        return there ? size_t(found - groups_.begin()) : groups_.size();
    }
    // Groups came or went; there is room for a look more than there were.
    void find_looks() {
        looks_.clear();
        for (uint32_t at = 0; at < groups_.size() && groups_[at].aspect.kind != SCAN; ++at) {
            const Aspect& aspect = groups_[at].aspect;
            if (!at || !groups_[at - 1].shares_subject(groups_[at])) {
                looks_.push_back({aspect.subject[0], aspect.label[0], at, at});
            }
            looks_.back().end = at + 1;
        }
    }

    bool stale_ = true;  // nothing is known yet
    std::vector<Group> groups_;
    std::vector<Look> looks_;
    SparseBits nodes_;
    Words ranged_;
    std::vector<Words> tables_;  // by group
};

class Agendas {
  public:
    Agendas(const Trie& trie, const Automaton& automaton, const Atoms& atoms)
        : trie_(trie), automaton_(automaton), atoms_(atoms) {}

    // ---- messages

    // Of a state for which `make` was called.
    Agenda& operator[](uint32_t state) { return agendas_[state]; }
    const Agenda& operator[](uint32_t state) const { return agendas_[state]; }

    // Soon somebody will ask for it: memory is slower than we are.
    void expect(uint32_t state) const {
        if (state >= agendas_.size()) return;
        const char* agenda = reinterpret_cast<const char*>(&agendas_[state]);
        __builtin_prefetch(agenda);
        __builtin_prefetch(agenda + sizeof(Agenda) - sizeof(Agenda::tables_) - 1);
    }

    Agenda& make(uint32_t state) {
        if (state >= agendas_.size()) agendas_.resize(state + 1);
        Agenda& agenda = agendas_[state];
        if (agenda.stale_) refresh(agenda, automaton_.active(state));
        return agenda;
    }

    // The nodes of a state, whatever room they take.
    const Words& active(uint32_t state) const { return automaton_.active(state); }
    // Whether the elements of a state are at *node*.
    bool is_at(uint32_t state, uint32_t node) const {
        const SparseBits& nodes = agendas_[state].nodes_;
        if (nodes.size()) return nodes.has(node);
        return std::binary_search(active(state).begin(), active(state).end(), node);
    }

    // States are forgotten.
    void forget() {
        std::vector<Agenda>().swap(agendas_);
        parts_ = 0;
    }

    // ---- between messages

    // Call *take* with the key of each group that has a table.
    template <typename Take>
    void each_group_of(const Table& table, Take take) {
        each_at(table.node, [&](Agenda& agenda) {
            const size_t at = agenda.find(table.aspect);
            if (at != agenda.groups_.size()) take(agenda.groups_[at].key);
        });
    }

    // A table is new.
    void add_table(uint32_t number) {
        const Table& table = atoms_.table(number);
        if (table.aspect.kind == NEVER) return;
        each_at(table.node, [&](Agenda& agenda) {
            size_t at = agenda.find(table.aspect);
            if (at == agenda.groups_.size()) {
                // First, for groups must not part from their tables where there is no memory.
                reserve_for(agenda.groups_, 1);
                reserve_for(agenda.looks_, 1);
                const auto place = agenda.place(table.aspect);
                at = size_t(place - agenda.groups_.begin());
                agenda.tables_.insert(agenda.tables_.begin() + ptrdiff_t(at), Words());
                agenda.groups_.insert(place, {table.aspect, next_group_++});
                agenda.find_looks();
            }
            agenda.tables_[at].push_back(number);
        });
    }

    // A table is about to go, without atoms.
    void drop_table(uint32_t number) {
        const Table& table = atoms_.table(number);
        if (table.aspect.kind == NEVER) return;
        each_at(table.node, [&](Agenda& agenda) {
            const auto at = ptrdiff_t(agenda.find(table.aspect));
            Words& tables = agenda.tables_[size_t(at)];
            *std::find(tables.begin(), tables.end(), number) = tables.back();
            tables.pop_back();
            if (!tables.empty()) return;
            agenda.groups_.erase(agenda.groups_.begin() + at);
            agenda.tables_.erase(agenda.tables_.begin() + at);
            agenda.find_looks();
        });
    }

    // The first test of two bounds came to *node*, or the last one went.
    void count(uint32_t node) {
        each_at(node, [&](Agenda& agenda) {
            Words& ranged = agenda.ranged_;
            const auto found = std::find(ranged.begin(), ranged.end(), node);
            if (found != ranged.end()) ranged.erase(found);
            if (trie_[node].counted) ranged.push_back(node);
        });
    }

    // *node*, on which nothing hangs, was put in a state, or is about to be taken from it.
    void enter(uint32_t state, uint32_t node) {
        Agenda* agenda = known(state);
        if (!agenda || !agenda->nodes_.size()) return;
        parts_ -= agenda->nodes_.size();
        if (parts_ > MAX_PARTS) {
            agenda->nodes_ = SparseBits();
            return;
        }
        agenda->nodes_.reserve(trie_.bound());
        parts_ += agenda->nodes_.size();
        agenda->nodes_.add(node);
    }
    void leave(uint32_t state, uint32_t node) {
        if (Agenda* agenda = known(state); agenda && agenda->nodes_.size()) {
            agenda->nodes_.erase(node);
        }
    }

    // A state went.
    void drop(uint32_t state) {
        if (state >= agendas_.size()) return;
        parts_ -= agendas_[state].nodes_.size();
        agendas_[state] = Agenda();
    }

  private:
    static constexpr size_t MAX_PARTS = 1u << 20;

    // Null where nothing is known yet.
    Agenda* known(uint32_t state) {
        return state < agendas_.size() && !agendas_[state].stale_ ? &agendas_[state] : nullptr;
    }

    template <typename Mend>
    void each_at(uint32_t node, Mend mend) {
        automaton_.each_at(node, [&](uint32_t state) {
            if (Agenda* agenda = known(state)) mend(*agenda);
        });
    }

    void refresh(Agenda& agenda, const Words& nodes) {
        parts_ -= agenda.nodes_.size();
        agenda = Agenda();
        Words tables;
        for (uint32_t number : nodes) {
            const Node& node = trie_[number];
            if (node.counted) agenda.ranged_.push_back(number);
            for (uint32_t at = node.tables; at != NONE; at = atoms_.table(at).next) {
                if (atoms_.table(at).aspect.kind != NEVER) tables.push_back(at);
            }
        }
        if (parts_ < MAX_PARTS) {
            agenda.nodes_.reserve(trie_.bound());
            for (uint32_t node : nodes) agenda.nodes_.add(node);
            parts_ += agenda.nodes_.size();
        }
        std::sort(tables.begin(), tables.end(), [&](uint32_t a, uint32_t b) {
            const auto one = atoms_.table(a).aspect.rank(), other = atoms_.table(b).aspect.rank();
            return one < other || (one == other && a < b);
        });
        for (uint32_t table : tables) {
            const Aspect& aspect = atoms_.table(table).aspect;
            if (agenda.groups_.empty() || !(agenda.groups_.back().aspect == aspect)) {
                agenda.groups_.push_back({aspect, next_group_++});
                agenda.tables_.emplace_back();
            }
            agenda.tables_.back().push_back(table);
        }
        agenda.find_looks();
        agenda.stale_ = false;
    }

    const Trie& trie_;
    const Automaton& automaton_;
    const Atoms& atoms_;
    std::vector<Agenda> agendas_;  // by state
    uint64_t next_group_ = 0;
    size_t parts_ = 0;  // of the nodes in all agendas
};

}  // namespace dragoman
