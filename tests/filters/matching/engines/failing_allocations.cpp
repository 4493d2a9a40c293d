// For LD_PRELOAD: the C++ allocator of a process, in which the n-th allocation can be made to fail.
#include <cstdlib>
#include <new>

extern "C" {
long allocations_left = -1;     // until one fails; none does while it is negative
int others_fail_too = 0;        // as where memory is used up
}

void* operator new(std::size_t size) {
    if (allocations_left == 0) {
        if (!others_fail_too) allocations_left = -1;
        throw std::bad_alloc();
    }
    if (allocations_left > 0) --allocations_left;
    if (void* memory = std::malloc(size ? size : 1)) return memory;
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
