// Numbers in runs: those of one owner lie side by side, so that sets of them are few words of bits.
#pragma once

#include <algorithm>
#include <vector>

#include "containers.hpp"

namespace dragoman {

class Runs {
  public:
    // Numbers below *reserved* belong to nobody.
    explicit Runs(uint32_t reserved) { grow_to(reserved); }
    // All numbers are below it.
    uint32_t bound() const { return uint32_t(run_at_.size()) * GRAIN; }
    size_t live() const { return live_; }

    // A free number for *owner*, who is a small number, too.
    uint32_t take(uint32_t owner) {
        if (owner >= owners_.size()) owners_.resize(owner + 1);
        Owner& here = owners_[owner];
        if (here.open.empty()) open_run(owner);
        Run& run = runs_[here.open.back()];
        const auto at = uint32_t(__builtin_ctzll(~run.used));
        run.used |= uint64_t(1) << at;
        if (run.used == full(run.size)) here.open.pop_back();
        ++live_;
        return run.first + at;
    }

    void give_back(uint32_t number) {
        const uint32_t place = run_at_[number / GRAIN];
        Run& run = runs_[place];
        Owner& owner = owners_[run.owner];
        if (run.used == full(run.size)) owner.open.push_back(place);
        run.used &= ~(uint64_t(1) << (number - run.first));
        --live_;
        if (run.used) return;
        owner.open.erase(std::find(owner.open.begin(), owner.open.end(), place));
        --owner.runs;
        free_[run.size].push_back(run.first);
        runs_.erase(place);
    }

  private:
    // Few numbers must not cost the room of many: runs of an owner grow.
    enum Size : uint8_t { SMALL, MIDDLE, LARGE };
    static constexpr uint32_t GRAIN = 4;
    static constexpr uint32_t NUMBERS[] = {GRAIN, 16, 64};

    struct Run {
        uint64_t used = 0;  // bits
        uint32_t first = 0, owner = 0;
        Size size = SMALL;
    };

    struct Owner {
        Words open;  // runs with a free number
        uint32_t runs = 0;
    };

    static uint64_t full(Size size) { return ~uint64_t(0) >> (64 - NUMBERS[size]); }

    void open_run(uint32_t owner) {
        owners_[owner].open.reserve(owners_[owner].open.size() + 1);
        Run run;
        run.owner = owner;
        run.size = Size(std::min<uint32_t>(owners_[owner].runs, LARGE));
        run.first = first_of(run.size);
        const uint32_t place = runs_.add(run);
        for (uint32_t at = 0; at < NUMBERS[run.size]; at += GRAIN) {
            run_at_[(run.first + at) / GRAIN] = place;
        }
        owners_[owner].open.push_back(place);
        ++owners_[owner].runs;
    }

    uint32_t first_of(Size size) {
        // What alignment leaves out is for the small.
        while (free_[size].empty() && bound() % NUMBERS[size]) grow(SMALL);
        if (free_[size].empty()) grow(size);
        const uint32_t first = free_[size].back();
        free_[size].pop_back();
        return first;
    }

    void grow(Size size) {
        const uint32_t first = bound();
        grow_to(first + NUMBERS[size]);
        free_[size].push_back(first);
    }

    void grow_to(uint32_t bound) {
        const size_t grains = (bound + GRAIN - 1) / GRAIN;
        reserve_for(run_at_, grains - run_at_.size());
        run_at_.resize(grains, NONE);
    }

    std::vector<Owner> owners_;
    Pool<Run> runs_;
    Words run_at_;  // by number / GRAIN
    Words free_[LARGE + 1];  // first numbers
    size_t live_ = 0;
};

}  // namespace dragoman
