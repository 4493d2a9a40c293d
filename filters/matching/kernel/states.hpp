// The states of the automaton: sets of nodes, each set once as a rule, and which states hold a
// node.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "containers.hpp"

namespace dragoman {

struct Edge {
    uint32_t symbol, to;
};

struct State {
    Words active, below;      // sorted: nodes that an element is at; those whose descendants count
    std::vector<Edge> edges;  // to states of elements within
    uint32_t entries = 0;     // edges of all states that lead here
    uint32_t hash = 0;
    bool live = false;

    uint32_t members() const { return uint32_t(active.size() + below.size()); }
};

// Of each node, the states that hold it.
class Holders {
  public:
    void add(uint32_t node, uint32_t state) {
        if (first_.size() <= node) first_.resize(node + 1, NONE);
        first_[node] = links_.add({state, first_[node]});
    }

    template <typename Take>
    void each(uint32_t node, Take take) const {
        if (node >= first_.size()) return;
        for (uint32_t at = first_[node]; at != NONE; at = links_[at].next) take(links_[at].state);
    }

    // No state holds *node* any more.
    void drop(uint32_t node) {
        if (node >= first_.size()) return;
        for (uint32_t at = std::exchange(first_[node], NONE); at != NONE;) {
            const uint32_t next = links_[at].next;
            links_.erase(at);
            at = next;
        }
    }

    size_t size() const { return links_.live(); }

  private:
    struct Link {
        uint32_t state = NONE, next = NONE;
    };

    Words first_;
    Pool<Link> links_;
};

class States {
  public:
    State& operator[](uint32_t number) { return states_[number]; }
    const State& operator[](uint32_t number) const { return states_[number]; }
    uint32_t bound() const { return states_.bound(); }
    size_t size() const { return states_.live(); }
    // Whether a state has no nodes: asked of each element, and so kept apart.
    bool is_empty(uint32_t number) const { return !members_[number]; }
    // Nodes of all states.
    size_t members() const { return active_.size() + below_.size(); }

    const Holders& active() const { return active_; }
    const Holders& below() const { return below_; }

    // That of these nodes, in any order, maybe several times.
    uint32_t of(Words active, Words below) {
        for (Words* nodes : {&active, &below}) {
            std::sort(nodes->begin(), nodes->end());
            nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
            nodes->shrink_to_fit();
        }
        uint32_t hash = 0;
        for (uint32_t node : active) hash += hash_of(node, false);
        for (uint32_t node : below) hash += hash_of(node, true);
        const uint32_t found = by_members_.find(hash, [&](uint32_t number) {
            return states_[number].active == active && states_[number].below == below;
        });
        if (found != NONE) return found;
        State state;
        state.active = std::move(active);
        state.below = std::move(below);
        state.hash = hash;
        state.live = true;
        const uint32_t number = states_.add(std::move(state));
        if (members_.size() <= number) members_.resize(number + 1);
        members_[number] = states_[number].members();
        link(number);
        by_members_.add(hash, number);
        return number;
    }

    // A state holds *node* too, from now on.
    void put(uint32_t number, uint32_t node, bool below) {
        State& state = states_[number];
        Words& nodes = below ? state.below : state.active;
        nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), node), node);
        (below ? below_ : active_).add(node, number);
        rehash(number, hash_of(node, below));
    }

    // No state holds *node* any more.
    void drop(uint32_t node, bool below) {
        Holders& holders = below ? below_ : active_;
        holders.each(node, [&](uint32_t number) {
            Words& nodes = below ? states_[number].below : states_[number].active;
            nodes.erase(std::lower_bound(nodes.begin(), nodes.end(), node));
            rehash(number, 0u - hash_of(node, below));
        });
        holders.drop(node);
    }

    // Some states go; `relink` is to follow.
    void erase(uint32_t number) {
        by_members_.erase(states_[number].hash, number);
        states_.erase(number);
    }

    void relink() {
        active_ = below_ = Holders();
        for (uint32_t number = 0; number < states_.bound(); ++number) {
            if (states_[number].live) link(number);
        }
    }

  private:
    static uint32_t hash_of(uint32_t node, bool below) {
        return uint32_t(hash_number(uint64_t(node) << 1 | below) >> 16);
    }

    void rehash(uint32_t number, uint32_t change) {
        by_members_.erase(states_[number].hash, number);
        states_[number].hash += change;
        members_[number] = states_[number].members();
        by_members_.add(states_[number].hash, number);
    }

    void link(uint32_t number) {
        for (uint32_t node : states_[number].active) active_.add(node, number);
        for (uint32_t node : states_[number].below) below_.add(node, number);
    }

    Pool<State> states_;
    Words members_;  // how many, by state
    HashIndex by_members_;
    Holders active_, below_;
};

}  // namespace dragoman
