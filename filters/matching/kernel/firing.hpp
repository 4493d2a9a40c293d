// Which atoms hold at the elements of one message.
//
// Each state of the automaton has an agenda: the tables to look into at its elements. An atom fires
// once a message.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "atoms.hpp"
#include "automaton.hpp"
#include "facts.hpp"
#include "memory.hpp"
#include "reading.hpp"
#include "watches.hpp"
#include "witnesses.hpp"

namespace dragoman {

class Firing {
  public:
    Firing(const Vocabulary& vocabulary, Trie& trie, const Automaton& automaton, Atoms& atoms,
           Facts& facts, const Watches& watches, Witnesses& witnesses, Reading& reading)
        : vocabulary_(vocabulary),
          trie_(trie),
          automaton_(automaton),
          atoms_(atoms),
          facts_(facts),
          watches_(watches),
          witnesses_(witnesses),
          reading_(reading) {}

    // Another message.
    void begin() {
        fired_.clear();
        visits_.clear();
        probes_.clear();
        leave_states();
        unsure_ = false;
        own_element_ = nullptr;
    }

    // An element of a state. In a message, each is visited once; it is looked at soon, with others,
    // for memory is slower than we are.
    void visit(const xmlNode* element, uint32_t state) {
        if (state < agendas_.size()) {
            const char* agenda = reinterpret_cast<const char*>(&agendas_[state]);
            __builtin_prefetch(agenda);
            __builtin_prefetch(agenda + sizeof(Agenda) - 1);
        }
        Visit& visit = visits_.emplace_back();
        visit.element = element;
        visit.state = state;
        visit.row = witnesses_.row();
        if (visits_.size() == TOGETHER) look_at_all();
    }

    // Find the nodes where several elements are. To be done at the end, and before numbers of
    // states change.
    void count_elements() {
        look_at_all();
        probe_all();
        for (uint32_t state : visited_) meet(state);
        for (uint32_t state : visited_) {
            if (agendas_[state].visits > 1) meet(state);
        }
        // Each bound may be met by another element: tests of two bounds say nothing, then.
        row_ = Witnesses::MOST;
        for (uint32_t state : visited_) {
            for (uint32_t node : agendas_[state].ranged) {
                if (facts_.are_several(node)) fire_ranges(node);
            }
        }
        leave_states();
    }

    // The atoms that hold, of those that somebody waits for.
    const Words& fired() const { return fired_; }
    // Whether some number was doubtful: its atoms count as holding.
    bool is_unsure() const { return unsure_; }

    // The nodes of *state*, which was visited, as bits; none if they would take too much room.
    const SparseBits& nodes_at(uint32_t state) const { return agendas_[state].nodes; }
    // Whether its elements are at *node*.
    bool is_at(uint32_t state, uint32_t node) const {
        const SparseBits& nodes = agendas_[state].nodes;
        if (nodes.size()) return nodes.covers(node) && nodes.has(node);
        const Words& active = automaton_.active(state);
        return std::binary_search(active.begin(), active.end(), node);
    }

    // ---- between messages: what agendas know is mended where it stands

    // An atom is new, in a table that agendas have: values that are known lead to it.
    void add_atom(uint32_t number) {
        each_memory_of(number, [&](uint64_t group, uint64_t value) {
            memory_.add(group, value, atoms_.lead(number));
        });
    }

    // An atom is about to go.
    void drop_atom(uint32_t number) {
        each_memory_of(number, [&](uint64_t group, uint64_t value) {
            memory_.erase(group, value, number);
        });
    }

    // A table is new.
    void add_table(uint32_t number) {
        const Table& table = atoms_.table(number);
        if (table.aspect.kind == NEVER) return;
        each_agenda_at(table.node, [&](Agenda& agenda) {
            auto group = agenda.find(table.aspect);
            if (group == agenda.groups.end()) {
                group = agenda.groups.insert(agenda.place(table.aspect),
                                             {table.aspect, next_group_++, {}});
            }
            group->tables.push_back(number);
        });
    }

    // A table is about to go, without atoms.
    void drop_table(uint32_t number) {
        const Table& table = atoms_.table(number);
        if (table.aspect.kind == NEVER) return;
        each_agenda_at(table.node, [&](Agenda& agenda) {
            const auto group = agenda.find(table.aspect);
            Words& tables = group->tables;
            *std::find(tables.begin(), tables.end(), number) = tables.back();
            tables.pop_back();
            if (tables.empty()) agenda.groups.erase(group);
        });
    }

    // The first test of two bounds came to *node*, or the last one went.
    void count(uint32_t node) {
        each_agenda_at(node, [&](Agenda& agenda) {
            const auto found = std::find(agenda.ranged.begin(), agenda.ranged.end(), node);
            if (found != agenda.ranged.end()) agenda.ranged.erase(found);
            if (trie_[node].counted) agenda.ranged.push_back(node);
        });
    }

    // *node*, on which nothing hangs, was put in a state, or is about to be taken from it.
    void enter(uint32_t state, uint32_t node) {
        if (Agenda* agenda = agenda_of(state); agenda && agenda->nodes.size()) {
            words_ -= agenda->nodes.size();
            if (words_ > MAX_WORDS) {
                agenda->nodes = SparseBits();
                return;
            }
            agenda->nodes.reserve(trie_.bound());
            words_ += agenda->nodes.size();
            agenda->nodes.add(node);
        }
    }
    void leave(uint32_t state, uint32_t node) {
        if (Agenda* agenda = agenda_of(state); agenda && agenda->nodes.size()) {
            agenda->nodes.erase(node);
        }
    }

    // A state went.
    void drop_state(uint32_t state) {
        if (state >= agendas_.size()) return;
        words_ -= agendas_[state].nodes.size();
        agendas_[state] = Agenda();
    }

    // States are forgotten.
    void forget() {
        std::vector<Agenda>().swap(agendas_);
        memory_.forget();
        visited_.clear();
        words_ = 0;
    }

    size_t remembered() const { return memory_.size(); }

  private:
    static constexpr size_t MAX_WORDS = 1u << 20;
    static constexpr size_t TOGETHER = 64;  // values that are looked for together
    static constexpr ptrdiff_t AHEAD = 8;   // leads

    // The tables of one aspect at all nodes of a state: one look at the value serves them.
    struct Group {
        Aspect aspect;
        uint64_t key;  // of what is remembered of it; never used again
        Words tables;

        bool shares_subject(const Group& other) const {
            return other.aspect.kind != SCAN && aspect.subject[0] == other.aspect.subject[0] &&
                   aspect.label[0] == other.aspect.label[0];
        }
    };

    struct Visit {
        const xmlNode* element;
        uint32_t state, row;
    };

    // A value of an element, whose row this is, that groups look for.
    struct Probe {
        const xmlNode* element;
        std::string_view value;
        const Group *at, *end;
        uint32_t row, hash;
        uint32_t known;  // the number of a string that is like it
        bool is_hashed = false;
    };

    struct Agenda {
        std::vector<Group> groups;
        Words ranged;      // nodes with tests of two bounds
        SparseBits nodes;  // those of the state, as long as there is room
        uint32_t visits = 0;
        bool stale = true;  // nothing is known yet

        // Where a group of *aspect* is, or should be.
        std::vector<Group>::iterator place(const Aspect& aspect) {
            return std::lower_bound(groups.begin(), groups.end(), aspect,
                                    [](const Group& group, const Aspect& other) {
                                        return group.aspect.rank() < other.rank();
                                    });
        }
        std::vector<Group>::iterator find(const Aspect& aspect) {
            const auto found = place(aspect);
            return found != groups.end() && found->aspect == aspect ? found : groups.end();
        }
    };

    // Null where nothing is known yet.
    Agenda* agenda_of(uint32_t state) {
        return state < agendas_.size() && !agendas_[state].stale ? &agendas_[state] : nullptr;
    }

    // Call *mend* with the group and the value of all that may be remembered of an atom.
    template <typename Mend>
    void each_memory_of(uint32_t number, Mend mend) {
        const Atom& atom = atoms_[number];
        const Table& table = atoms_.table(atom.table);
        if (!memory_.size() || !is_hashed(table.aspect.kind)) return;
        each_agenda_at(table.node, [&](Agenda& agenda) {
            const auto group = agenda.find(table.aspect);
            if (group != agenda.groups.end()) mend(group->key, atom.key);
        });
    }

    template <typename Mend>
    void each_agenda_at(uint32_t node, Mend mend) {
        automaton_.each_at(node, [&](uint32_t state) {
            if (Agenda* agenda = agenda_of(state)) mend(*agenda);
        });
    }

    // Elements of a state are met, for the first time or again.
    void meet(uint32_t state) {
        const SparseBits& nodes = agendas_[state].nodes;
        if (nodes.size()) facts_.meet(nodes);
        else facts_.meet(automaton_.active(state));
    }

    void look_at_all() {
        for (const Visit& visit : visits_) {
            if (visit.state >= agendas_.size()) agendas_.resize(visit.state + 1);
            Agenda& agenda = agendas_[visit.state];
            if (agenda.stale) refresh(agenda, automaton_.active(visit.state));
            if (!agenda.visits++) {
                visited_.push_back(visit.state);
                agenda.nodes.expect();
            }
            __builtin_prefetch(agenda.groups.data());
            __builtin_prefetch(visit.element->children);
        }
        for (const Visit& visit : visits_) {
            row_ = visit.row;
            look_at(visit.element, agendas_[visit.state].groups);
        }
        visits_.clear();
    }

    void look_at(const xmlNode* element, const std::vector<Group>& groups) {
        const Group *at = groups.data(), *end = at + groups.size();
        while (at != end) {
            const Group* first = at++;
            if (first->aspect.kind == SCAN) {
                try_lists(*first, element);
                continue;
            }
            while (at != end && first->shares_subject(*at)) ++at;
            reading_.each(element, first->aspect.subject[0], first->aspect.label[0],
                          [&](std::string_view value) { put_off(element, value, first, at); });
        }
    }

    void leave_states() {
        for (uint32_t state : visited_) agendas_[state].visits = 0;
        visited_.clear();
    }

    void refresh(Agenda& agenda, const Words& nodes) {
        words_ -= agenda.nodes.size();
        agenda = Agenda();
        Words tables;
        for (uint32_t number : nodes) {
            const Node& node = trie_[number];
            if (node.counted) agenda.ranged.push_back(number);
            for (uint32_t at = node.tables; at != NONE; at = atoms_.table(at).next) {
                if (atoms_.table(at).aspect.kind != NEVER) tables.push_back(at);
            }
        }
        if (words_ < MAX_WORDS) {
            agenda.nodes.reserve(trie_.bound());
            for (uint32_t node : nodes) agenda.nodes.add(node);
            words_ += agenda.nodes.size();
        }
        std::sort(tables.begin(), tables.end(), [&](uint32_t a, uint32_t b) {
            const auto one = atoms_.table(a).aspect.rank(), other = atoms_.table(b).aspect.rank();
            return one < other || (one == other && a < b);
        });
        for (uint32_t table : tables) {
            const Aspect& aspect = atoms_.table(table).aspect;
            if (agenda.groups.empty() || !(agenda.groups.back().aspect == aspect)) {
                agenda.groups.push_back({aspect, next_group_++, {}});
            }
            agenda.groups.back().tables.push_back(table);
        }
        agenda.stale = false;
    }

    void fire_ranges(uint32_t node) {
        for (uint32_t at = trie_[node].tables; at != NONE; at = atoms_.table(at).next) {
            const Table& table = atoms_.table(at);
            if (table.aspect.kind != RANGES) continue;
            for (const Interval& interval : table.rows->intervals.all()) {
                if (interval.both) fire(interval.atom);
            }
        }
    }

    // One value of an element is to be looked for in groups: soon, with others, for memory is
    // slower than we are.
    void put_off(const xmlNode* element, std::string_view value, const Group* at,
                 const Group* end) {
        const Strings& values = vocabulary_.values;
        const bool lasting = reading_.is_lasting();
        if (!lasting) value = copy_.assign(value);
        // Field by field, in its place: a copy would have to wait for them.
        Probe& probe = probes_.emplace_back();
        probe.element = element;
        probe.value = value;
        probe.at = at;
        probe.end = end;
        probe.row = row_;
        probe.known = NONE;
        probe.is_hashed = at->aspect.kind <= TWO && values.may_be(value);
        if (probe.is_hashed) {
            probe.hash = Strings::hash_of(value);
            values.expect_like(probe.hash);
        }
        if (!lasting || probes_.size() == TOGETHER) probe_all();
    }

    void probe_all() {
        const Strings& values = vocabulary_.values;
        for (Probe& probe : probes_) {
            if (probe.is_hashed) probe.known = values.like(probe.hash);
        }
        for (const Probe& probe : probes_) {
            if (probe.known == NONE) continue;
            values.expect_text(probe.known);
            each_with_one(probe, [&](uint64_t key) { memory_.expect(key, probe.known); });
        }
        for (const Probe& probe : probes_) {
            if (probe.known == NONE) continue;
            each_with_one(probe, [&](uint64_t key) { memory_.expect_fired(key, probe.known); });
        }
        const uint32_t row = row_;
        for (const Probe& probe : probes_) {
            row_ = probe.row;
            const uint32_t known = probe.known == NONE
                                       ? NONE
                                       : values.find(probe.value, probe.hash, probe.known);
            this->probe(probe.element, probe.value, known, probe.at, probe.end);
        }
        row_ = row;
        probes_.clear();
    }

    // Call *take* with the key of each group that looks for a probe's value alone.
    template <typename Take>
    static void each_with_one(const Probe& probe, Take take) {
        for (const Group* at = probe.at; at != probe.end && at->aspect.kind == ONE; ++at) {
            take(at->key);
        }
    }

    // One value of an element in groups that look at it; *known* is its number.
    void probe(const xmlNode* element, std::string_view value, uint32_t known, const Group* at,
               const Group* end) {
        if (at->aspect.kind <= TWO) {
            for (; at != end && at->aspect.kind <= TWO; ++at) {
                if (known == NONE) continue;
                if (at->aspect.kind == ONE) {
                    recall(*at, known, element);
                    continue;
                }
                reading_.each(element, at->aspect.subject[1], at->aspect.label[1],
                              [&](std::string_view second) {
                                  const uint32_t other = vocabulary_.values.find(second);
                                  if (other == NONE) return;
                                  recall(*at, uint64_t(known) << 32 | other, element);
                              });
            }
        }
        if (at == end) return;
        const Number number = at->aspect.kind <= RANGES ? number_of(value) : Number{0, true};
        for (; at != end; ++at) {
            switch (at->aspect.kind) {
                case NUMBERS: probe_numbers(*at, number, element); break;
                case RANGES: probe_ranges(*at, number, element); break;
                case GRAMS: probe_grams(*at, value, element); break;
                default: try_lists(*at, element);
            }
        }
    }

    void probe_numbers(const Group& group, Number number, const xmlNode* element) {
        if (!number.sure) return try_lists(group, element);
        const bool is_number = number.value == number.value;
        if (is_number) recall(group, key_of(number.value), element);
    }

    void probe_ranges(const Group& group, Number number, const xmlNode* element) {
        for (uint32_t table : group.tables) {
            Intervals& intervals = atoms_.table(table).rows->intervals;
            if (!number.sure) {
                for (const Interval& interval : intervals.all()) try_atom(interval.atom, element);
                continue;
            }
            intervals.each_around(number.value, [&](const Interval& interval) {
                if (interval.alone) fire(interval.atom);
                else try_atom(interval.atom, element);
            });
        }
    }

    // Parts of the value, maybe together with another value of the element.
    void probe_grams(const Group& group, std::string_view value, const xmlNode* element) {
        auto look = [&](uint64_t other) {
            for (size_t from = 0; from + GRAM <= value.size(); ++from) {
                const uint32_t part = gram(value.data() + from);
                const uint64_t key = other << 32 | part;
                if (atoms_.may_have(key)) recall(group, key, element, value, from);
            }
        };
        if (!group.aspect.is_paired()) return look(0);
        reading_.each(element, group.aspect.subject[1], group.aspect.label[1],
                      [&](std::string_view second) {
                          const uint32_t known = vocabulary_.values.find(second);
                          if (known != NONE) look(uint64_t(known) + 1);
                      });
    }

    // Fire what a value fires in a group of hashed tables. *text* has the gram that *value* is, if
    // it is one, at *from*.
    void recall(const Group& group, uint64_t value, const xmlNode* element,
                std::string_view text = {}, size_t from = 0) {
        const Memory::Row* found = memory_.find(group.key, value);
        if (!found) {
            if (memory_.is_full(atoms_.live())) memory_.forget();
            found = memory_.learn(group.key, value, [&](auto remember) {
                for (uint32_t table : group.tables) {
                    atoms_.each_with(table, value,
                                     [&](uint32_t atom) { remember(atoms_.lead(atom)); });
                }
            });
        }
        const BitsAt *word = memory_.atoms().begin(found->atoms), *last = word + found->atoms.count;
        for (; word != last; ++word) fire(*word);
        const Lead *lead = memory_.leads().begin(found->leads), *end = lead + found->leads.count;
        for (; lead != end; ++lead) {
            if (end - lead > AHEAD) {
                if (lead[AHEAD].asks_for_text()) vocabulary_.values.expect(lead[AHEAD].text);
                const Lead& next = lead[AHEAD / 2];
                if (next.asks_for_text()) vocabulary_.values.expect_text(next.text);
            }
            follow(*lead, element, text, from);
        }
    }

    // Fire an atom, which asks for more, if that is so.
    void follow(const Lead& lead, const xmlNode* element, std::string_view text, size_t from) {
        switch (lead.question) {
            case Lead::NOTHING: break;
            case Lead::DIFFERS:
                if (own_text(element) == lead.text) return;
                break;
            case Lead::PART:
                if (from < lead.offset || !has_at(text, from - lead.offset, lead.text)) return;
                break;
            case Lead::START:
                if (from != lead.offset || !has_at(text, 0, lead.text)) return;
                break;
            case Lead::TESTS: return try_atom(lead.atom, element);
        }
        fire(lead.atom);
    }

    // The number of an element's string-value, NONE where no filter speaks of it.
    uint32_t own_text(const xmlNode* element) {
        if (own_element_ != element) {
            own_element_ = element;
            reading_.each(element, SELF, NONE, [&](std::string_view text) {
                own_text_ = vocabulary_.values.find(text);
            });
        }
        return own_text_;
    }

    // Whether the string with *number* is in *text* at *from*.
    bool has_at(std::string_view text, size_t from, uint32_t number) const {
        const std::string_view part = vocabulary_.values[number];
        // Parts that begin alike end differently.
        return part.size() <= text.size() - from && part.back() == text[from + part.size() - 1] &&
               !std::memcmp(part.data(), text.data() + from, part.size());
    }

    void try_lists(const Group& group, const xmlNode* element) {
        for (uint32_t table : group.tables) {
            for (uint32_t atom : atoms_.table(table).rows->list) try_atom(atom, element);
        }
    }

    // Fire the atom if *element* passes its tests, or may.
    void try_atom(uint32_t number, const xmlNode* element) {
        if (facts_.holds(number)) return witnesses_.note_again(number);
        bool unsure = false;
        for (const Test& test : atoms_.tests(number)) {
            const Operand operand{
                test.text == NONE ? std::string_view() : vocabulary_.values[test.text], test.low,
                test.high, test.low_included, test.high_included};
            const Verdict verdict =
                reading_.check(element, test.subject, test.comparison, test.label, operand);
            if (verdict == NO) return;
            unsure |= verdict == UNKNOWN;
        }
        unsure_ |= unsure;
        fire(number);
    }

    void fire(BitsAt atoms) {
        const BitsAt fresh = facts_.fire(atoms);
        if (fresh.bits != atoms.bits) {
            BitsAt{atoms.bits & ~fresh.bits, atoms.at}.each(
                [&](uint32_t atom) { witnesses_.note_again(atom); });
        }
        witnesses_.note_atoms(fresh, row_);
        watches_.watched(fresh).each([&](uint32_t atom) { fired_.push_back(atom); });
    }

    void fire(uint32_t number) {
        if (!facts_.fire(number)) return witnesses_.note_again(number);
        witnesses_.note_atom(number, row_);
        if (watches_.is_watched(number)) fired_.push_back(number);
    }

    const Vocabulary& vocabulary_;
    Trie& trie_;
    const Automaton& automaton_;
    Atoms& atoms_;
    Facts& facts_;
    const Watches& watches_;
    Witnesses& witnesses_;
    Reading& reading_;
    std::vector<Agenda> agendas_;  // by state
    uint64_t next_group_ = 0;
    size_t words_ = 0;  // of the bits in all agendas
    Memory memory_;
    Words fired_, visited_;
    std::vector<Visit> visits_;       // put off
    std::vector<Probe> probes_;       // the same
    std::string copy_;                // of the last one's value, where that does not last
    uint32_t row_ = Witnesses::MOST;  // of the element that is looked at, see Witnesses
    bool unsure_ = false;
    const xmlNode* own_element_ = nullptr;  // whose text is known by number
    uint32_t own_text_ = NONE;
};

}  // namespace dragoman
