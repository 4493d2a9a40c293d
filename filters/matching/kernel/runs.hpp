// Numbers in runs: those of one owner lie side by side, and so does what is known of them.
//
// Filters come and go for years, and a run in which one number is left costs as much as a full one.
// So a run that is free as a whole is cut into smaller ones, or grows together with its neighbours
// again; and where most numbers lie idle, owners share runs rather than have new ones made.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "containers.hpp"

namespace dragoman {

// Few numbers must not cost the room of many: the runs of an owner grow, from one of *NUMBERS* to
// the next. Each divides the next, the largest is 64.
template <uint32_t... NUMBERS>
class Runs {
  public:
    // Numbers below *reserved* belong to nobody.
    explicit Runs(uint32_t reserved = 0) {
        free_.fill(NONE);
        grow_to(reserved);
    }
    // All numbers are below it; it is at most MOST_IDLE times as many as there ever were at once,
    // and a little more.
    uint32_t bound() const { return uint32_t(run_at_.size()) * GRAIN; }
    size_t live() const { return live_; }

    // A free number for *owner*, who is a small number, too.
    uint32_t take(uint32_t owner) {
        if (owner >= owners_.size()) {
            reserve_for(owners_, owner + 1 - owners_.size());
            owners_.resize(owner + 1);
        }
        uint32_t place = owners_[owner].open;
        if (place == NONE) place = open_run(owner);
        Run& run = runs_[place];
        const auto at = uint32_t(__builtin_ctzll(~run.used));
        run.used |= uint64_t(1) << at;
        if (run.used == full(run.size)) unlink(owners_[run.owner].open, place);
        ++live_;
        return run.first + at;
    }

    // The same; *slots* have one for each number.
    template <typename T>
    uint32_t take(uint32_t owner, std::vector<T>& slots) {
        const uint32_t number = take(owner);
        try {
            if (slots.size() < bound()) {
                reserve_for(slots, bound() - slots.size());
                slots.resize(bound());
            }
        } catch (...) {
            give_back(number);
            throw;
        }
        return number;
    }

    void give_back(uint32_t number) noexcept {
        const uint32_t place = run_at_[number / GRAIN];
        Run& run = runs_[place];
        Owner& owner = owners_[run.owner];
        if (run.used == full(run.size)) link(owner.open, place);
        run.used &= ~(uint64_t(1) << (number - run.first));
        --live_;
        if (run.used) return;
        unlink(owner.open, place);
        --owner.runs;
        while (run.size < LARGEST && merge(place)) {
        }
        link(free_[run.size], place);
    }

  private:
    static constexpr std::array<uint32_t, sizeof...(NUMBERS)> SIZES{NUMBERS...};
    static constexpr uint32_t GRAIN = SIZES[0], LARGEST = SIZES.size() - 1;
    // As a rule there are twice as many as are in use.
    static constexpr size_t MOST_IDLE = 4, SLACK = 1u << 12;

    struct Run {
        uint64_t used = 0;  // bits; none if the run is free
        uint32_t first = 0, owner = 0;
        uint32_t before = NONE, after = NONE;  // of the owner's open runs, or of the free ones
        uint8_t size = 0;
    };

    struct Owner {
        uint32_t open = NONE;  // the first run with a free number
        uint32_t runs = 0;
    };

    static uint64_t full(uint8_t size) { return ~uint64_t(0) >> (64 - SIZES[size]); }

    bool is_wasteful() const { return bound() > MOST_IDLE * live_ + SLACK; }

    // A run with a free number: one of the owner's, unless that would be a waste.
    uint32_t open_run(uint32_t owner) {
        const auto size = uint8_t(std::min(owners_[owner].runs, LARGEST));
        const uint32_t place = find_free(size);
        if (place == NONE) return some_open();
        unlink(free_[runs_[place].size], place);
        runs_[place].owner = owner;
        ++owners_[owner].runs;
        link(owners_[owner].open, place);
        return place;
    }

    // A free run of that size, or as good as there is; NONE if all have owners, and are idle.
    uint32_t find_free(uint8_t size) {
        uint8_t larger = size;
        while (larger <= LARGEST && free_[larger] == NONE) ++larger;
        if (larger <= LARGEST) {
            while (larger > size) split(free_[larger--]);
            return free_[size];
        }
        if (!is_wasteful()) {
            // What alignment leaves out is for smaller ones.
            for (uint8_t part = 0; part < size; ++part) {
                while (bound() % SIZES[part + 1]) grow(part);
            }
            grow(size);
            return free_[size];
        }
        while (size && free_[size] == NONE) --size;
        return free_[size];
    }

    // Any run with a free number, where most numbers are: so it is found soon.
    uint32_t some_open() {
        do {
            if (++turn_ >= runs_.bound()) turn_ = 0;
        } while (!runs_[turn_].used || runs_[turn_].used == full(runs_[turn_].size));
        return turn_;
    }

    void grow(uint8_t size) {
        Run run;
        run.first = bound();
        run.size = size;
        runs_.make_room();
        grow_to(run.first + SIZES[size]);
        put_free(run);
    }

    void grow_to(uint32_t bound) {
        const size_t grains = (bound + GRAIN - 1) / GRAIN;
        reserve_for(run_at_, grains - run_at_.size());
        run_at_.resize(grains, NONE);
    }

    // Cut a free run into free ones of the next size below.
    void split(uint32_t place) {
        Run part = runs_[place];
        const uint32_t parts = SIZES[part.size] / SIZES[part.size - 1];
        runs_.make_room(parts);
        unlink(free_[part.size], place);
        runs_.erase(place);
        --part.size;
        for (uint32_t at = 0; at < parts; ++at, part.first += SIZES[part.size]) put_free(part);
    }

    // Make a run, about to be free, one with its neighbours, if all are free; false if not.
    bool merge(uint32_t place) noexcept {
        Run& run = runs_[place];
        const uint32_t small = SIZES[run.size], large = SIZES[run.size + 1];
        const uint32_t first = run.first / large * large;
        for (uint32_t at = first; at < first + large; at += small) {
            if (at >= bound() || run_at_[at / GRAIN] == NONE) return false;
            const Run& other = runs_[run_at_[at / GRAIN]];
            if (other.used || other.size != run.size) return false;
        }
        for (uint32_t at = first; at < first + large; at += small) {
            const uint32_t other = run_at_[at / GRAIN];
            if (other == place) continue;
            unlink(free_[run.size], other);
            runs_.erase(other);
        }
        run.first = first;
        ++run.size;
        put_grains(place);
        return true;
    }

    void put_free(const Run& run) {
        const uint32_t place = runs_.add(run);
        put_grains(place);
        link(free_[run.size], place);
    }

    void put_grains(uint32_t place) {
        const Run& run = runs_[place];
        for (uint32_t at = 0; at < SIZES[run.size]; at += GRAIN) {
            run_at_[(run.first + at) / GRAIN] = place;
        }
    }

    void link(uint32_t& first, uint32_t place) noexcept {
        Run& run = runs_[place];
        run.before = NONE;
        run.after = first;
        if (first != NONE) runs_[first].before = place;
        first = place;
    }

    void unlink(uint32_t& first, uint32_t place) noexcept {
        const Run& run = runs_[place];
        if (run.after != NONE) runs_[run.after].before = run.before;
        if (run.before != NONE) runs_[run.before].after = run.after;
        else first = run.after;
    }

    std::vector<Owner> owners_;
    Pool<Run> runs_;
    Words run_at_;                            // by number / GRAIN
    std::array<uint32_t, LARGEST + 1> free_;  // the first free run of each size
    uint32_t turn_ = 0;
    size_t live_ = 0;
};

}  // namespace dragoman
