// The trie run over elements: made deterministic state by state, as real documents reach them.
//
// A state is the set of nodes that an element is at, and of those around it whose descendants
// count. A transition says to which state an element leads, by its symbol, within an element of a
// state.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "containers.hpp"
#include "symbols.hpp"
#include "trie.hpp"

namespace dragoman {

class Automaton {
  public:
    Automaton(const Trie& trie, Symbols& symbols) : trie_(trie), symbols_(symbols) {}

    size_t size() const { return states_.size(); }
    const Words& active(uint32_t state) const { return states_[state].active; }
    bool ends(uint32_t state) const {
        return states_[state].active.empty() && states_[state].below.empty();
    }

    // That of the document.
    uint32_t start() {
        if (start_ == NONE) {
            Words active{ROOT}, below;
            if (trie_[ROOT].forks) below.push_back(ROOT);
            start_ = state_of(std::move(active), std::move(below));
        }
        return start_;
    }

    // That of an element with *symbol* within one of state *from*.
    uint32_t next(uint32_t from, uint32_t symbol) {
        const uint64_t key = uint64_t(states_[from].key) << 32 | symbol;
        const uint32_t found = transitions_.find(key);
        if (found != NONE && !states_[found].dead) return found;
        Words active, below = states_[from].below;
        enter(states_[from].active, CHILD, symbol, active);
        enter(states_[from].below, DESCENDANT, symbol, active);
        for (uint32_t node : active) {
            if (trie_[node].forks) below.push_back(node);
        }
        for (Words* words : {&active, &below}) {
            std::sort(words->begin(), words->end());
            words->erase(std::unique(words->begin(), words->end()), words->end());
        }
        const uint32_t state = state_of(std::move(active), std::move(below));
        transitions_.set(key, state);
        return state;
    }

    // Call *take* with each state whose elements are at *node*.
    template <typename Take>
    void each_at(uint32_t node, Take take) const {
        each(active_, node, take);
    }

    // *parent* is about to get a child: what states know must not deny it.
    void expect(uint32_t parent, uint8_t axis, uint32_t label) {
        if (axis == DESCENDANT && !trie_[parent].forks) {
            each(active_, parent, [&](uint32_t state) { states_[state].dead = true; });
            if (parent == ROOT) start_ = NONE;
            return;
        }
        each(axis == CHILD ? active_ : below_, parent, [&](uint32_t number) {
            State& state = states_[number];
            if (state.dead) return;
            if (label == symbols_.any) {
                state.key = next_key_++;
                return;
            }
            for (uint32_t symbol : symbols_.with(label)) {
                transitions_.erase(uint64_t(state.key) << 32 | symbol);
            }
        });
    }

    bool is_full() const {
        return states_.size() > MAX_STATES || links_.size() > MAX_MEMBERS + kept_ ||
               transitions_.size() > MAX_TRANSITIONS || symbols_.size() > MAX_SYMBOLS ||
               next_key_ > MAX_KEYS;
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
            path.push_back(state_of(std::move(active), std::move(below)));
        }
        start_ = path.front();
        // A path may fill the automaton by itself, and there must be room for what comes.
        kept_ = links_.size();
    }

    void forget() {
        Words().swap(active_);
        Words().swap(below_);
        std::vector<Link>().swap(links_);
        std::vector<State>().swap(states_);
        states_by_members_ = HashIndex();
        transitions_.clear();
        symbols_.forget();
        kept_ = 0;
        next_key_ = 0;
        start_ = NONE;
    }

  private:
    static constexpr size_t MAX_STATES = 20000;
    static constexpr size_t MAX_MEMBERS = 4u << 20;  // of all states
    static constexpr size_t MAX_TRANSITIONS = 1u << 20;
    static constexpr size_t MAX_SYMBOLS = 1u << 16;
    static constexpr uint32_t MAX_KEYS = 1u << 31;

    struct State {
        Words active, below;
        uint32_t key;       // in transitions; another one, and they are forgotten
        bool dead = false;  // it lacks a node that it should have below
    };

    // One of the states that hold a node.
    struct Link {
        uint32_t state, next;
    };

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

    uint32_t state_of(Words active, Words below) {
        const uint32_t hash = uint32_t(hash_words(active) ^ mix(hash_words(below), SALT));
        const uint32_t found = states_by_members_.find(hash, [&](uint32_t number) {
            const State& state = states_[number];
            return !state.dead && state.active == active && state.below == below;
        });
        if (found != NONE) return found;
        const uint32_t number = uint32_t(states_.size());
        link(active_, active, number);
        link(below_, below, number);
        states_.push_back({std::move(active), std::move(below), next_key_++});
        states_by_members_.add(hash, number);
        return number;
    }

    void link(Words& first, const Words& nodes, uint32_t state) {
        if (first.size() < trie_.bound()) first.resize(trie_.bound(), NONE);
        for (uint32_t node : nodes) {
            links_.push_back({state, first[node]});
            first[node] = uint32_t(links_.size() - 1);
        }
    }

    template <typename Take>
    void each(const Words& first, uint32_t node, Take take) const {
        if (node >= first.size()) return;
        for (uint32_t at = first[node]; at != NONE; at = links_[at].next) take(links_[at].state);
    }

    const Trie& trie_;
    Symbols& symbols_;
    std::vector<State> states_;
    HashIndex states_by_members_;
    NumberMap transitions_;
    Words active_, below_;  // of each node: the first link
    std::vector<Link> links_;
    size_t kept_ = 0;  // members of the states that the last new beginning kept
    uint32_t next_key_ = 0, start_ = NONE;
};

}  // namespace dragoman
