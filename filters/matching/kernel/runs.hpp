// Numbers in runs: those of one owner lie side by side, and so does what is known of them.
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
    explicit Runs(uint32_t reserved = 0) { grow_to(reserved); }
    // All numbers are below it.
    uint32_t bound() const { return uint32_t(run_at_.size()) * GRAIN; }
    size_t live() const { return live_; }

    // A free number for *owner*, who is a small number, too.
    uint32_t take(uint32_t owner) {
        if (owner >= owners_.size()) {
            reserve_for(owners_, owner + 1 - owners_.size());
            owners_.resize(owner + 1);
        }
        if (owners_[owner].open == NONE) open_run(owner);
        const uint32_t place = owners_[owner].open;
        Run& run = runs_[place];
        const auto at = uint32_t(__builtin_ctzll(~run.used));
        run.used |= uint64_t(1) << at;
        if (run.used == full(run.size)) close(place);
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

    void give_back(uint32_t number) {
        const uint32_t place = run_at_[number / GRAIN];
        Run& run = runs_[place];
        if (run.used == full(run.size)) open(place);
        run.used &= ~(uint64_t(1) << (number - run.first));
        --live_;
        if (run.used) return;
        close(place);
        --owners_[run.owner].runs;
        free_[run.size].push_back(run.first);
        runs_.erase(place);
    }

  private:
    static constexpr std::array<uint32_t, sizeof...(NUMBERS)> SIZES{NUMBERS...};
    static constexpr uint32_t GRAIN = SIZES[0], LARGEST = SIZES.size() - 1;

    struct Run {
        uint64_t used = 0;  // bits
        uint32_t first = 0, owner = 0;
        uint32_t before = NONE, after = NONE;  // of the owner's open runs
        uint8_t size = 0;
    };

    struct Owner {
        uint32_t open = NONE;  // the first run with a free number
        uint32_t runs = 0;
    };

    static uint64_t full(uint8_t size) { return ~uint64_t(0) >> (64 - SIZES[size]); }

    void open_run(uint32_t owner) {
        Run run;
        run.owner = owner;
        run.size = uint8_t(std::min(owners_[owner].runs, LARGEST));
        run.first = first_of(run.size);
        const uint32_t place = runs_.add(run);
        for (uint32_t at = 0; at < SIZES[run.size]; at += GRAIN) {
            run_at_[(run.first + at) / GRAIN] = place;
        }
        ++owners_[owner].runs;
        open(place);
    }

    void open(uint32_t place) {
        Run& run = runs_[place];
        Owner& owner = owners_[run.owner];
        run.before = NONE;
        run.after = owner.open;
        if (run.after != NONE) runs_[run.after].before = place;
        owner.open = place;
    }

    void close(uint32_t place) {
        const Run& run = runs_[place];
        if (run.after != NONE) runs_[run.after].before = run.before;
        if (run.before != NONE) runs_[run.before].after = run.after;
        else owners_[run.owner].open = run.after;
    }

    uint32_t first_of(uint8_t size) {
        // What alignment leaves out is for smaller ones.
        for (uint8_t part = 0; free_[size].empty() && part < size; ++part) {
            while (bound() % SIZES[part + 1]) grow(part);
        }
        if (free_[size].empty()) grow(size);
        const uint32_t first = free_[size].back();
        free_[size].pop_back();
        return first;
    }

    void grow(uint8_t size) {
        const uint32_t first = bound();
        grow_to(first + SIZES[size]);
        free_[size].push_back(first);
    }

    void grow_to(uint32_t bound) {
        const size_t grains = (bound + GRAIN - 1) / GRAIN;
        reserve_for(run_at_, grains - run_at_.size());
        run_at_.resize(grains, NONE);
    }

    std::vector<Owner> owners_;
    Pool<Run> runs_;
    Words run_at_;                         // by number / GRAIN
    std::array<Words, LARGEST + 1> free_;  // first numbers, by size
    size_t live_ = 0;
};

}  // namespace dragoman
