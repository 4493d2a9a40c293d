// Which atoms hold at the elements of one message. An atom fires once a message.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "agendas.hpp"
#include "atoms.hpp"
#include "facts.hpp"
#include "memory.hpp"
#include "reading.hpp"
#include "symbols.hpp"
#include "watches.hpp"
#include "witnesses.hpp"

namespace dragoman {

class Firing {
  public:
    Firing(const Vocabulary& vocabulary, Symbols& symbols, const Trie& trie, Agendas& agendas,
           Atoms& atoms, Facts& facts, const Watches& watches, Witnesses& witnesses,
           Reading& reading)
        : vocabulary_(vocabulary),
          symbols_(symbols),
          trie_(trie),
          agendas_(agendas),
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
        paired_element_ = nullptr;
    }

    // An element of a state. In a message, each is visited once; it is looked at soon, with others,
    // for memory is slower than we are.
    void visit(const xmlNode* element, uint32_t state) {
        agendas_.expect(state);
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
            for (uint32_t node : agendas_[state].ranged()) {
                if (facts_.are_several(node)) fire_ranges(node);
            }
        }
        leave_states();
    }

    // The atoms that hold, of those that somebody waits for.
    const Words& fired() const { return fired_; }
    // Whether some number was doubtful: its atoms count as holding.
    bool is_unsure() const { return unsure_; }

    // ---- between messages

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

    // States are forgotten.
    void forget() {
        memory_.forget();
        visits_.clear();
        probes_.clear();
        visited_.clear();
    }

    size_t remembered() const { return memory_.size(); }

  private:
    static constexpr size_t TOGETHER = 64;  // elements that are looked at, values looked for
    static constexpr ptrdiff_t AHEAD = 8;   // leads

    struct Visit {
        const xmlNode* element;
        uint32_t state, row;
    };

    struct Attribute {
        const xmlAttr* node;
        uint32_t symbol;
    };

    // An attribute whose value some filter speaks of, by its number.
    struct Paired {
        uint32_t symbol, value;
    };

    // A value of an element, whose state and row this is, that groups look for.
    struct Probe {
        const xmlNode* element;
        std::string_view value;
        const Group *at, *end;
        uint32_t state, row;
        uint32_t hash;
        uint32_t known;  // the number of a string that is like it
        bool is_hashed = false;
    };

    // Call *mend* with the group and the value of all that may be remembered of an atom.
    template <typename Mend>
    void each_memory_of(uint32_t number, Mend mend) {
        const Atom& atom = atoms_[number];
        const Table& table = atoms_.table(atom.table);
        if (!memory_.size() || !is_hashed(table.aspect.kind)) return;
        agendas_.each_group_of(table, [&](uint64_t group) { mend(group, atom.key); });
    }

    // Elements of a state are met, for the first time or again.
    void meet(uint32_t state) {
        const SparseBits& nodes = agendas_[state].nodes();
        if (nodes.size()) facts_.meet(nodes);
        else facts_.meet(agendas_.active(state));
    }

    void look_at_all() {
        for (const Visit& visit : visits_) {
            Agenda& agenda = agendas_.make(visit.state);
            if (!agenda.visits++) {
                visited_.push_back(visit.state);
                agenda.nodes().expect();
            }
            __builtin_prefetch(agenda.looks().data());
            __builtin_prefetch(agenda.groups().data());
            __builtin_prefetch(visit.element->children);
        }
        for (const Visit& visit : visits_) {
            row_ = visit.row;
            state_ = visit.state;
            look_at(visit.element, agendas_[state_]);
        }
        visits_.clear();
    }

    void look_at(const xmlNode* element, const Agenda& agenda) {
        const Group* groups = agenda.groups().data();
        const Look *at = agenda.looks().data(), *end = at + agenda.looks().size();
        for (; at != end && at->subject != ATTRIBUTE; ++at) {
            reading_.each(element, at->subject, at->label, [&](std::string_view value) {
                put_off(element, value, groups + at->begin, groups + at->end);
            });
        }
        if (at != end && element->properties) look_at_attributes(element, groups, at, end);
        const Group* last = groups + agenda.groups().size();
        for (const Group* whole = agenda.whole(); whole != last; ++whole) {
            try_lists(*whole, element);
        }
    }

    // The same for attributes. Where filters name many, an element has few of them: so names are
    // looked up once each, and then compared as numbers.
    void look_at_attributes(const xmlNode* element, const Group* groups, const Look* at,
                            const Look* end) {
        attributes_.clear();
        for (const xmlAttr* one = element->properties; one; one = one->next) {
            attributes_.push_back({one, symbols_.of(one)});
        }
        for (; at != end; ++at) {
            for (const Attribute& one : attributes_) {
                if (!symbols_.fits(at->label, one.symbol)) continue;
                reading_.value_of(one.node, [&](std::string_view value) {
                    put_off(element, value, groups + at->begin, groups + at->end);
                });
            }
        }
    }

    void leave_states() {
        for (uint32_t state : visited_) agendas_[state].visits = 0;
        visited_.clear();
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
        probe.state = state_;
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
        const uint32_t row = row_, state = state_;
        for (const Probe& probe : probes_) {
            row_ = probe.row;
            state_ = probe.state;
            const uint32_t known = probe.known == NONE
                                       ? NONE
                                       : values.find(probe.value, probe.hash, probe.known);
            this->probe(probe.element, probe.value, known, probe.at, probe.end);
        }
        row_ = row;
        state_ = state;
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
                each_second(element, at->aspect, [&](uint32_t other) {
                    const uint64_t key = uint64_t(known) << 32 | other;
                    if (atoms_.may_have_two(at->aspect, key)) recall(*at, key, element);
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
        for (uint32_t table : tables_of(group)) {
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
        each_second(element, group.aspect, [&](uint32_t known) { look(uint64_t(known) + 1); });
    }

    // Call *take* with the number of each value that an aspect looks at beside another one, if some
    // filter speaks of it. Many aspects look at the same attributes: those are looked up once.
    template <typename Take>
    void each_second(const xmlNode* element, const Aspect& aspect, Take take) {
        if (aspect.subject[1] != ATTRIBUTE) {
            return reading_.each(element, aspect.subject[1], aspect.label[1],
                                 [&](std::string_view value) {
                                     const uint32_t known = vocabulary_.values.find(value);
                                     if (known != NONE) take(known);
                                 });
        }
        if (paired_element_ != element) find_paired(element);
        for (const Paired& one : paired_) {
            if (symbols_.fits(aspect.label[1], one.symbol)) take(one.value);
        }
    }

    void find_paired(const xmlNode* element) {
        paired_element_ = element;
        paired_.clear();
        for (const xmlAttr* one = element->properties; one; one = one->next) {
            reading_.value_of(one, [&](std::string_view value) {
                const uint32_t known = vocabulary_.values.find(value);
                if (known != NONE) paired_.push_back({symbols_.of(one), known});
            });
        }
    }

    // Fire what a value fires in a group of hashed tables. *text* has the gram that *value* is, if
    // it is one, at *from*.
    void recall(const Group& group, uint64_t value, const xmlNode* element,
                std::string_view text = {}, size_t from = 0) {
        const Memory::Row* found = memory_.find(group.key, value);
        if (!found) {
            if (memory_.is_full(atoms_.live())) memory_.forget();
            found = memory_.learn(group.key, value, [&](auto remember) {
                for (uint32_t table : tables_of(group)) {
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

    const Words& tables_of(const Group& group) const { return agendas_[state_].tables(group); }

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
        for (uint32_t table : tables_of(group)) {
            for (uint32_t atom : atoms_.table(table).rows->list) try_atom(atom, element);
        }
    }

    // Fire the atom if *element* passes its tests, or may.
    void try_atom(uint32_t number, const xmlNode* element) {
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
        const BitsAt again{atoms.bits & ~fresh.bits, atoms.at};
        again.each([&](uint32_t atom) { witnesses_.note_again(atom, row_); });
        witnesses_.note_atoms(fresh, row_);
        watches_.watched(fresh).each([&](uint32_t atom) { fired_.push_back(atom); });
    }

    void fire(uint32_t number) {
        if (!facts_.fire(number)) return witnesses_.note_again(number, row_);
        witnesses_.note_atom(number, row_);
        if (watches_.is_watched(number)) fired_.push_back(number);
    }

    const Vocabulary& vocabulary_;
    Symbols& symbols_;
    const Trie& trie_;
    Agendas& agendas_;
    Atoms& atoms_;
    Facts& facts_;
    const Watches& watches_;
    Witnesses& witnesses_;
    Reading& reading_;
    Memory memory_;
    Words fired_, visited_;
    std::vector<Attribute> attributes_;  // of the element that is looked at
    std::vector<Visit> visits_;  // put off
    std::vector<Probe> probes_;  // the same
    std::string copy_;           // of the last one's value, where that does not last
    uint32_t state_ = NONE, row_ = Witnesses::MOST;  // of the element that is looked at
    bool unsure_ = false;
    const xmlNode* own_element_ = nullptr;  // whose text is known by number
    uint32_t own_text_ = NONE;
    const xmlNode* paired_element_ = nullptr;  // whose attributes are known by number
    std::vector<Paired> paired_;
};

}  // namespace dragoman
