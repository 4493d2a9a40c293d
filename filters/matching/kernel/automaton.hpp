// The trie run over elements: made deterministic state by state, as real documents reach them.
//
// A state is the set of nodes that an element is at, and of those around it whose descendants
// count. An edge says to which state an element leads, by its symbol, within an element of a
// state. When paths come and go the states are mended where they stand: what is known of them
// elsewhere stays true of their other nodes.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "containers.hpp"
#include "states.hpp"
#include "symbols.hpp"
#include "trie.hpp"

namespace dragoman {

class Automaton {
  public:
    Automaton(const Trie& trie, Symbols& symbols) : trie_(trie), symbols_(symbols) {}

    size_t size() const { return states_.size(); }
    const Words& active(uint32_t state) const { return states_[state].active; }
    bool ends(uint32_t state) const { return states_.is_empty(state); }

    // That of the document.
    uint32_t start() {
        if (start_ == NONE) {
            Words active{ROOT}, below;
            if (trie_[ROOT].forks) below.push_back(ROOT);
            start_ = states_.of(std::move(active), std::move(below));
        }
        return start_;
    }

    // That of an element with *symbol* within one of state *from*.
    uint32_t next(uint32_t from, uint32_t symbol) {
        const uint64_t key = key_of(from, symbol);
        const uint32_t found = transitions_.find(key);
        if (found != NONE) return found;
        Words active, below = states_[from].below;
        enter(states_[from].active, CHILD, symbol, active);
        enter(states_[from].below, DESCENDANT, symbol, active);
        for (uint32_t node : active) {
            if (trie_[node].forks) below.push_back(node);
        }
        const uint32_t state = states_.of(std::move(active), std::move(below));
        states_[from].edges.push_back({symbol, state});
        ++states_[state].entries;
        transitions_.set(key, state);
        return state;
    }

    // Call *take* with each state whose elements are at *node*.
    template <typename Take>
    void each_at(uint32_t node, Take take) const {
        states_.active().each(node, take);
    }

    // ---- between messages

    // *child* is new. Call *take* with each state that it is put in.
    template <typename Take>
    void enter(uint32_t child, Take take) {
        const Node& node = trie_[child];
        struct Entry {
            uint32_t to, from, symbol;
        };
        std::vector<Entry> entries;
        const Holders& holders = node.axis == CHILD ? states_.active() : states_.below();
        holders.each(node.parent, [&](uint32_t from) {
            for (const Edge& edge : states_[from].edges) {
                if (symbols_.fits(node.label, edge.symbol)) {
                    entries.push_back({edge.to, from, edge.symbol});
                }
            }
        });
        std::sort(entries.begin(), entries.end(),
                  [](const Entry& a, const Entry& b) { return a.to < b.to; });
        for (auto at = entries.begin(); at != entries.end();) {
            auto end = std::find_if(at, entries.end(), [&](auto& one) { return one.to != at->to; });
            if (size_t(end - at) == states_[at->to].entries) {
                states_.put(at->to, child, false);
                take(at->to);
                at = end;
            } else {
                // Others lead there who have not got the child: these go elsewhere from now on.
                for (; at != end; ++at) cut(at->from, at->symbol);
            }
        }
    }

    // *node* is about to have its first descendant: it counts below, wherever elements are within.
    void fork(uint32_t node) {
        std::vector<Reached> marks(states_.bound(), NOT);
        Words reached;
        auto reach = [&](uint32_t state, Reached how) {
            if (marks[state] == NOT) {
                marks[state] = how;
                reached.push_back(state);
            }
        };
        states_.active().each(node, [&](uint32_t state) { reach(state, AT_NODE); });
        for (size_t at = 0; at < reached.size(); ++at) {
            for (const Edge& edge : states_[reached[at]].edges) reach(edge.to, WITHIN);
        }
        // States to which others lead, too, stay as they are, and so do those that they lead to.
        std::vector<uint32_t> entries(states_.bound());
        for (uint32_t state : reached) {
            for (const Edge& edge : states_[state].edges) ++entries[edge.to];
        }
        Words others;
        auto leave = [&](uint32_t state) {
            if (marks[state] != WITHIN) return;
            marks[state] = NOT;
            others.push_back(state);
        };
        for (uint32_t state : reached) {
            if (entries[state] < states_[state].entries) leave(state);
        }
        while (!others.empty()) {
            const uint32_t state = others.back();
            others.pop_back();
            for (const Edge& edge : states_[state].edges) leave(edge.to);
        }
        for (uint32_t state : reached) {
            if (marks[state] == NOT) continue;
            states_.put(state, node, true);
            const std::vector<Edge> edges = states_[state].edges;
            for (const Edge& edge : edges) {
                if (marks[edge.to] == NOT) cut(state, edge.symbol);
            }
        }
    }

    // *node* has no descendants any more.
    void unfork(uint32_t node) { states_.drop(node, true); }

    // *node*, without children, is about to go.
    void leave(uint32_t node) { states_.drop(node, false); }

    // Drop states that nothing leads to any more, once they are many. Call *take* with each.
    template <typename Take>
    void tidy(Take take) {
        if (lost_ <= MAX_LOST + states_.size() / 8) return;
        Words lost;
        auto look = [&](uint32_t state) {
            if (states_[state].live && !states_[state].entries && state != start_) {
                lost.push_back(state);
            }
        };
        for (uint32_t state = 0; state < states_.bound(); ++state) look(state);
        while (!lost.empty()) {
            const uint32_t state = lost.back();
            lost.pop_back();
            for (const Edge& edge : states_[state].edges) {
                transitions_.erase(key_of(state, edge.symbol));
                if (!--states_[edge.to].entries) look(edge.to);
            }
            states_.erase(state);
            take(state);
        }
        states_.relink();
        lost_ = 0;
    }

    // ---- bounds

    bool is_full() const {
        return states_.size() > MAX_STATES || states_.members() > MAX_MEMBERS + kept_ ||
               transitions_.size() > MAX_TRANSITIONS || symbols_.size() > MAX_SYMBOLS;
    }

    // Forget all states but those of *path*, whose numbers change.
    void begin_anew(Words& path) {
        std::vector<std::pair<Words, Words>> kept;
        for (uint32_t number : path) {
            kept.emplace_back(states_[number].active, states_[number].below);
        }
        forget();
        path.clear();
        for (auto& [active, below] : kept) {
            path.push_back(states_.of(std::move(active), std::move(below)));
        }
        start_ = path.front();
        // A path may fill the automaton by itself, and there must be room for what comes.
        kept_ = states_.members();
    }

    void forget() {
        states_ = States();
        transitions_.clear();
        symbols_.forget();
        kept_ = lost_ = 0;
        start_ = NONE;
    }

  private:
    static constexpr size_t MAX_STATES = 20000;
    static constexpr size_t MAX_MEMBERS = 4u << 20;  // of all states
    static constexpr size_t MAX_TRANSITIONS = 1u << 20;
    static constexpr size_t MAX_SYMBOLS = 1u << 16;
    static constexpr size_t MAX_LOST = 64;

    enum Reached : uint8_t { NOT, AT_NODE, WITHIN };

    static uint64_t key_of(uint32_t from, uint32_t symbol) { return uint64_t(from) << 32 | symbol; }

    void enter(const Words& nodes, uint8_t axis, uint32_t symbol, Words& entered) const {
        const Symbols::Labels& named = symbols_[symbol];
        const std::array<uint32_t, 4> labels{named[0], named[1], named[2], symbols_.any};
        for (uint32_t node : nodes) {
            for (uint32_t label : labels) {
                if (label == NONE) continue;
                const uint32_t child = trie_.child(node, axis, label);
                if (child != NONE) entered.push_back(child);
            }
        }
    }

    // Forget where *symbol* leads.
    void cut(uint32_t from, uint32_t symbol) {
        std::vector<Edge>& edges = states_[from].edges;
        auto edge = std::find_if(edges.begin(), edges.end(),
                                 [&](const Edge& one) { return one.symbol == symbol; });
        if (!--states_[edge->to].entries) ++lost_;
        *edge = edges.back();
        edges.pop_back();
        transitions_.erase(key_of(from, symbol));
    }

    const Trie& trie_;
    Symbols& symbols_;
    States states_;
    NumberMap transitions_;
    size_t kept_ = 0;  // members of the states that the last new beginning kept
    size_t lost_ = 0;  // about how many states nothing leads to
    uint32_t start_ = NONE;
};

}  // namespace dragoman
