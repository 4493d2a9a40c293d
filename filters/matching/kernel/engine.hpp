// The engine: see plan.py for what it is told, and index.py for what it answers.
//
//   vocabulary, symbols    names and values that filters speak of
//   trie, automaton        paths, and the states that elements are in
//   atoms, agendas         tests at the ends of paths, and those to ask of elements of a state
//   firing, memory         which of them elements pass
//   facts                  what one message says of atoms, and of the presence of elements
//   filters, watching      formulas over facts, each under facts that it needs
//   witnesses, lifts, joins  which elements facts are about, where several are at one node
//   verdicts, interpreter  what a message says of formulas, and what programs say where they do not
#pragma once

#include <libxml/tree.h>

#include <string_view>
#include <utility>

#include "agendas.hpp"
#include "atoms.hpp"
#include "automaton.hpp"
#include "branches.hpp"
#include "climbs.hpp"
#include "document.hpp"
#include "facts.hpp"
#include "filters.hpp"
#include "firing.hpp"
#include "interpreter.hpp"
#include "joins.hpp"
#include "lifts.hpp"
#include "programs.hpp"
#include "reading.hpp"
#include "symbols.hpp"
#include "trie.hpp"
#include "verdicts.hpp"
#include "vocabulary.hpp"
#include "watches.hpp"
#include "watching.hpp"
#include "witnesses.hpp"

namespace dragoman {

// How much there is of everything that filters or messages make grow.
struct Sizes {
    size_t filters, atoms, tables, nodes, names, values, states, remembered, programs;
    size_t numbers;  // of atoms and nodes, in use or left for others
};

class Engine {
  public:
    Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    Sizes sizes() const {
        return {filters_.size(),          atoms_.live() + atoms_.presences(),
                atoms_.tables(),          trie_.live(),
                vocabulary_.names.size(), vocabulary_.values.size(),
                automaton_.size(),        firing_.remembered(),
                programs_.size(),         atoms_.bound() + trie_.bound()};
    }

    // ---- what filters are made of

    // A name, or null for any; the label has one more user.
    uint32_t label(const char* ns, size_t ns_size, const char* local, size_t local_size) {
        const std::string_view space(ns, ns_size), name(local, local_size);
        return vocabulary_.keep_label(ns ? &space : nullptr, local ? &name : nullptr);
    }

    uint32_t string(const char* text, size_t size) { return vocabulary_.values.keep({text, size}); }

    void let_go_label(uint32_t label) noexcept { vocabulary_.let_go(label); }
    void let_go_string(uint32_t string) noexcept { vocabulary_.values.let_go(string); }

    // The node one step behind *parent*; takes over the label, unless it fails. Atoms and branches
    // keep it.
    uint32_t step(uint32_t parent, uint8_t axis, uint32_t label) {
        const uint32_t found = trie_.child(parent, axis, label);
        if (found != NONE) {
            vocabulary_.let_go(label);
            return found;
        }
        const uint32_t child = trie_.grow(parent, axis, label);
        vocabulary_.keep(label);  // until nothing fails any more
        try {
            if (axis == DESCENDANT && trie_[parent].forks == 1) automaton_.fork(parent);
            automaton_.enter(child, [&](uint32_t state) { agendas_.enter(state, child); });
        } catch (...) {
            // What was mended by half is worth nothing.
            forget();
            throw;
        }
        vocabulary_.let_go(label);
        if (automaton_.is_full()) forget();
        return child;
    }

    // The fact that *tests* are passed at *node*; takes over the tests' labels and strings, even if
    // it fails. Filters keep it.
    uint32_t fact(uint32_t node, Tests& tests) {
        const bool counted = trie_[node].counted;
        const auto [fact, fresh] = atoms_.place(node, std::move(tests));
        if (!fresh) return fact;
        try {
            watches_.welcome(fact);
            if (is_presence(fact)) return fact;
            const uint32_t table = atoms_[fact].table;
            if (atoms_.table(table).atoms == 1) agendas_.add_table(table);
            firing_.add_atom(fact);
            if (!counted && trie_[node].counted) agendas_.count(node);
        } catch (...) {
            // What was mended by half is worth nothing.
            forget();
            if (!is_presence(fact)) atoms_.erase(fact);
            throw;
        }
        return fact;
    }

    void release(const Tests& tests) noexcept { atoms_.release(tests); }

    // One that turned out not to be needed; it may be gone already.
    void drop_unused(uint32_t fact) noexcept {
        if (atoms_.is_unused(fact)) drop(fact);
    }

    // ---- filters

    uint32_t find_filter(std::string_view text, uint32_t scope) const {
        return filters_.find(text, scope);
    }

    uint32_t add_filter(std::string_view text, uint32_t scope, const Words& formula, Shape shape,
                        const Words& branches) {
        const uint32_t number = filters_.add(text, scope, formula, shape);
        for (uint32_t word : formula) {
            if (is_literal(word)) atoms_.keep(number_in(word));
        }
        try {
            filters_[number].branches = branches_.keep(branches);
            watching_.add(number);
        } catch (...) {
            erase(number);
            throw;
        }
        return number;
    }

    bool has(uint32_t number) const { return filters_.has(number); }
    void keep(uint32_t number) { ++filters_[number].users; }

    // True if that was the last user, and the filter is gone.
    bool let_go(uint32_t number) noexcept {
        if (--filters_[number].users) return false;
        erase(number);
        tidy();
        return true;
    }

    // Drop paths that nobody uses any more. Nobody but filters may hold numbers of nodes.
    void tidy() noexcept {
        trie_.sweep([&](uint32_t node) {
            automaton_.each_at(node, [&](uint32_t state) { agendas_.leave(state, node); });
            automaton_.leave(node);
            const Node& gone = trie_[node];
            if (gone.axis == DESCENDANT && trie_[gone.parent].forks == 1) {
                automaton_.unfork(gone.parent);
            }
        });
        try {
            automaton_.tidy([&](uint32_t state) { agendas_.drop(state); });
        } catch (const std::bad_alloc&) {
            forget();
        }
    }

    std::string_view text_of(uint32_t number) const { return filters_.text_of(number); }
    uint32_t scope_of(uint32_t number) const { return filters_[number].scope; }

    // ---- messages

    void find(const xmlNode* root, Found& found) {
        if (!filters_.size()) return;
        if (root->doc && root->doc->intSubset) return doubt_all(found);
        try {
            begin(root);
            walk(root);
            witnesses_.end();
            firing_.count_elements();
            watches_.take_note(facts_);
            verdicts_.find(firing_.fired(), firing_.is_unsure(), found);
        } catch (...) {
            // What was made by half must not be met again.
            forget();
            verdicts_.forget();
            throw;
        }
    }

    // Decide an unprogrammed filter of the message that was looked at last, whose tree is still
    // there. Takes over the program's labels and strings if *taken* becomes true.
    Verdict decide(uint32_t number, Words& program, bool& taken) {
        programs_.put(number, std::move(program));
        taken = true;
        try {
            return interpreter_.run(programs_.find(number));
        } catch (...) {
            forget();
            throw;
        }
    }

  private:
    void drop(uint32_t atom) noexcept {
        const uint32_t node = atoms_.node_of(atom), table = atoms_[atom].table;
        const bool counted = trie_[node].counted;
        firing_.drop_atom(atom);
        if (atoms_.table(table).atoms == 1) agendas_.drop_table(table);
        atoms_.erase(atom);
        if (counted && !trie_[node].counted) agendas_.count(node);
    }

    void erase(uint32_t number) noexcept {
        watching_.erase(number);
        const Formula formula = filters_.formula_of(number);
        for (const uint32_t* at = formula.begin; at != formula.end; ++at) {
            if (!is_literal(*at)) continue;
            const uint32_t fact = number_in(*at);
            if (atoms_.let_go(fact)) drop(fact);
        }
        branches_.let_go(filters_[number].branches);
        programs_.erase(number);
        filters_.erase(number);
    }

    // A document type may declare entities, and only libxml2 reads what references to them mean.
    void doubt_all(Found& found) const {
        for (uint32_t number = 0; number < filters_.bound(); ++number) {
            if (filters_.has(number)) found.doubtful.push_back(number);
        }
    }

    // Forget what messages taught, but for how often facts held.
    void forget() noexcept {
        automaton_.forget();
        agendas_.forget();
        firing_.forget();
    }

    void begin(const xmlNode* root) {
        facts_.begin(atoms_.bound(), trie_.bound());
        witnesses_.begin(atoms_.bound());
        firing_.begin();
        reading_.begin();
        symbols_.begin();
        document_.begin(root);
    }

    // Visit the elements that paths lead to.
    void walk(const xmlNode* root) {
        path_.assign(1, automaton_.start());
        const xmlNode* node = root;
        while (true) {
            uint32_t state = NONE;
            if (is_element(node)) {
                if (automaton_.is_full()) begin_anew();
                state = automaton_.next(path_.back(), symbols_.of(node));
                witnesses_.visit(state);
                firing_.visit(node, state);
            }
            if (state != NONE && node->children && !automaton_.ends(state)) {
                path_.push_back(state);
                witnesses_.descend();
                node = node->children;
                continue;
            }
            while (node != root && !node->next) {
                node = node->parent;
                path_.pop_back();
                witnesses_.ascend();
            }
            if (node == root) return;
            node = node->next;
        }
    }

    // One message may have more states than we keep.
    void begin_anew() {
        firing_.count_elements();
        firing_.forget();
        agendas_.forget();
        witnesses_.forget_states();
        automaton_.begin_anew(path_);
    }

    Vocabulary vocabulary_;
    Symbols symbols_{vocabulary_};
    Document document_{vocabulary_, symbols_};
    Reading reading_{vocabulary_};
    Trie trie_{vocabulary_};
    Automaton automaton_{trie_, symbols_};
    Atoms atoms_{vocabulary_, trie_};
    Facts facts_;
    Watches watches_;
    Witnesses witnesses_;
    Branches branches_{trie_};
    Agendas agendas_{trie_, automaton_, atoms_};
    Firing firing_{vocabulary_, symbols_, trie_,      agendas_, atoms_,
                   facts_,      watches_, witnesses_, reading_};
    Programs programs_{vocabulary_};
    Interpreter interpreter_{vocabulary_, symbols_, document_, reading_};
    Filters filters_;
    Climbs climbs_{trie_, atoms_};
    Watching watching_{filters_, branches_, climbs_, watches_};
    Lifts lifts_{trie_, climbs_, agendas_, witnesses_};
    Joins joins_{facts_, agendas_, witnesses_, lifts_};
    Verdicts verdicts_{filters_,  facts_,    joins_,    watches_,
                       watching_, branches_, programs_, interpreter_};
    Words path_;  // states of the elements around the present one
};

}  // namespace dragoman
