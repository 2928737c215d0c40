// Kernels: passes over the models of all parties that are slow in XLA on a CPU.
//
// W has one model per row: n rows (parties) of d columns (coordinates), float or double. Every kernel has
// the same signature, `void kernel(const Call&)`, and two callers: XLA, through its foreign function
// interface and on its own threads, and `fedplus_run`, for NumPy arrays, on threads of its own.
// `aggregation/kernels.py` documents what each kernel computes (`pulls` is `distances_and_descent` there), and
// `jax_kernels.py` has the same passes in JAX.
//
// This file is compiled once per instruction set. Sums run over at most kShortSum rows in the type of W and
// are added up in double. A column with a non-finite entry gives a non-finite result.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#define INLINE inline __attribute__((always_inline))

namespace {

constexpr int64_t kTile = 1024;        // columns of a sum, which fit into the L1 cache
constexpr int64_t kShortSum = 64;      // rows that are summed in the type of W
#if defined(__AVX512F__)
constexpr int64_t kVector = 64;        // bytes of a vector
#elif defined(__AVX__)
constexpr int64_t kVector = 32;
#else
constexpr int64_t kVector = 16;
#endif
template <class T>
constexpr int64_t kLanes = kVector / sizeof(T);  // columns that are solved side by side
constexpr int64_t kSample = 16;        // rows of the sample that gives the start of the search for a median
constexpr int64_t kNetwork = 64;       // the largest number of models whose median a sorting network computes
constexpr int64_t kListed = 48;        // the largest number of entries that the memory of a column lists
constexpr int64_t kOneThread = 1 << 17;  // operations below which one thread is fastest

// ---- Calls and threads

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  Range piece(int64_t i, int64_t pieces) const {
    return {begin + size() * i / pieces, begin + size() * (i + 1) / pieces};
  }
};

template <class T>
struct Models {
  const T* data;
  int64_t n, d, stride;  // stride: entries from one row to the next
  const T* row(int64_t k) const { return data + k * stride; }
};

// XLA's threads treat subnormal numbers as zero. Searches that step from one number to the next must not,
// because they would never end.
class WithSubnormals {
 public:
#if defined(__x86_64__)
  WithSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~0x8040u); }
  ~WithSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

// One call of a kernel: its arrays, and the share of the rows or columns of W that it covers.
struct Call {
  int64_t n, d, stride;
  Range share;
  std::vector<const void*> in;  // W first; nullptr for an array without entries
  std::vector<void*> out;
  std::vector<int64_t> rows;  // the first dimension of each input
  int64_t threads;
  ffi::ThreadPool* xla;  // nullptr: start threads for this call

  template <class T>
  Models<T> models() const {
    return {input<T>(0), n, d, stride};
  }
  template <class T>
  const T* input(int64_t i) const {
    return static_cast<const T*>(in[i]);
  }
  template <class T>
  T* output(int64_t i) const {
    return static_cast<T*>(out[i]);
  }

  // Runs body(i) for i < chunks, on several threads if the work is worth it. The calling thread takes
  // chunks as well and only waits for chunks that another thread has begun, so a busy pool causes no delay.
  template <class F>
  void run(int64_t chunks, int64_t operations, const F& body) const {
    const int64_t least = xla != nullptr ? kOneThread : 8 * kOneThread;  // Starting a thread takes longer.
    const int64_t helpers = operations < least ? 0 : std::min(threads, chunks) - 1;
    if (helpers <= 0) {
      WithSubnormals here;
      for (int64_t i = 0; i < chunks; ++i) body(i);
      return;
    }
    struct Progress {
      std::atomic<int64_t> next{0}, done{0};
    };
    auto progress = std::make_shared<Progress>();  // A helper may start after all chunks are done.
    auto work = [progress, chunks, &body] {
      WithSubnormals here;
      for (int64_t i = progress->next++; i < chunks; i = progress->next++, ++progress->done) body(i);
    };
    std::vector<std::thread> own;
    for (int64_t t = 0; t < helpers; ++t) {
      if (xla != nullptr) {
        xla->Schedule(decltype(work)(work));
      } else {
        try {
          own.emplace_back(work);
        } catch (const std::system_error&) {  // No more threads are allowed; fewer are enough.
        }
      }
    }
    work();
    while (progress->done < chunks) std::this_thread::yield();
    for (auto& thread : own) thread.join();
  }
};

// ---- Vectors

// Vector extensions of GCC and Clang, because compilers do not vectorise short loops reliably.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVector), aligned(sizeof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
INLINE Vector<T>& vector_at(T* x) {
  return *reinterpret_cast<Vector<T>*>(x);
}

template <class T>
INLINE Vector<T> load(const T* x) {
  return *reinterpret_cast<const Vector<T>*>(x);
}

template <class T>
using Mask = decltype(Vector<T>{} < Vector<T>{});

template <class V>
INLINE V absolute(V x) {
  return x < 0 ? -x : x;
}

template <class V>
INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}

template <class V>
INLINE V larger(V a, V b) {
  return a > b ? a : b;
}

template <class Mask>
INLINE bool any(Mask mask) {
  bool found = false;
  for (size_t l = 0; l < sizeof(Mask) / sizeof(mask[0]); ++l) found = found || mask[l];
  return found;
}

// Entries of kLanes<T> columns, aligned so that vectors do not cross cache lines.
template <class T>
struct alignas(kVector) Row {
  T entries[kLanes<T>];
};

// ---- weighted_sum: Σ_k p_k w_k

template <class T>
INLINE void add_rows(const Models<T>& w, const T* p, Range rows, int64_t column, int64_t width,
                     T* __restrict total) {
  int64_t k = rows.begin;
  for (; k + 4 <= rows.end; k += 4) {
    const T *a = w.row(k) + column, *b = w.row(k + 1) + column;
    const T *c = w.row(k + 2) + column, *e = w.row(k + 3) + column;
    const T pa = p[k], pb = p[k + 1], pc = p[k + 2], pe = p[k + 3];
    for (int64_t j = 0; j < width; ++j) {
      total[j] += (pa * a[j] + pb * b[j]) + (pc * c[j] + pe * e[j]);
    }
  }
  for (; k < rows.end; ++k) {
    const T* a = w.row(k) + column;
    const T pa = p[k];
    for (int64_t j = 0; j < width; ++j) total[j] += pa * a[j];
  }
}

template <class T>
void sum_columns(const Models<T>& w, const T* p, Range columns, T* out) {
  double exact[kTile];
  T partial[kTile];
  for (int64_t c = columns.begin; c < columns.end; c += kTile, out += kTile) {
    const int64_t width = std::min(kTile, columns.end - c);
    std::fill(exact, exact + width, 0.0);
    for (int64_t k = 0; k < w.n; k += kShortSum) {
      std::fill(partial, partial + width, T(0));
      add_rows(w, p, {k, std::min(k + kShortSum, w.n)}, c, width, partial);
      for (int64_t j = 0; j < width; ++j) exact[j] += partial[j];
    }
    for (int64_t j = 0; j < width; ++j) out[j] = T(exact[j]);
  }
}

template <class T>
void sum_rows(const Call& call, const Models<T>& w, const T* p, Range columns, T* out) {
  const int64_t pieces = std::max<int64_t>(1, std::min(4 * call.threads, columns.size() / 256));
  call.run(pieces, w.n * columns.size(), [&](int64_t i) {
    const Range mine = columns.piece(i, pieces);
    sum_columns(w, p, mine, out + (mine.begin - columns.begin));
  });
}

template <class T>
void weighted_sum(const Call& call) {  // W, p → Σ_k p_k w_k
  sum_rows(call, call.models<T>(), call.input<T>(1), call.share, call.output<T>(0));
}

// ---- pulls: distances from a point, and Σ_k a_k (w_k − at) / max(r_k, δ), the negative gradient of the
// objective of the geometric median

// ‖x − at‖ without overflow or underflow, for rows whose squares do not fit into T.
template <class T>
double careful_distance(const T* x, const T* at, int64_t d) {
  double largest = 0, sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const double away = std::abs(double(x[j]) - double(at[j]));
    if (!(away <= largest)) largest = away;
  }
  if (largest == 0 || !std::isfinite(largest)) return largest;
  for (int64_t j = 0; j < d; ++j) {
    const double share = (double(x[j]) - double(at[j])) / largest;
    sum += share * share;
  }
  return largest * std::sqrt(sum);
}

// Distances of four rows at a time, so that `at` is read once for all four.
template <class T>
INLINE void distances(const T* const* x, const T* at, int64_t d, double* r) {
  const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
  double squares[4] = {};
  for (int64_t c = 0; c < d; c += kTile) {
    T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t j = c; j < std::min(c + kTile, d); ++j) {
      s0 += (x0[j] - at[j]) * (x0[j] - at[j]);
      s1 += (x1[j] - at[j]) * (x1[j] - at[j]);
      s2 += (x2[j] - at[j]) * (x2[j] - at[j]);
      s3 += (x3[j] - at[j]) * (x3[j] - at[j]);
    }
    const T sums[4] = {s0, s1, s2, s3};
    for (int64_t i = 0; i < 4; ++i) squares[i] += sums[i];
  }
  // Squares below this may have lost digits; above it, some may have overflowed.
  const double small = std::numeric_limits<T>::min() * double(d) * 1e9;
  const double large = double(std::numeric_limits<T>::max()) * 1e-3;
  for (int64_t i = 0; i < 4; ++i) {
    const bool safe = squares[i] >= small && squares[i] <= large;
    r[i] = safe ? std::sqrt(squares[i]) : careful_distance(x[i], at, d);
  }
}

template <class T>
void add_pulls(const Models<T>& w, const T* a, double delta, const T* __restrict at, Range rows, T* r,
               T* __restrict total) {
  const double most = double(std::numeric_limits<T>::max()) * 1e-3;
  for (int64_t k = rows.begin; k < rows.end; k += 4) {
    const T* x[4];
    T q[4] = {};
    double away[4];
    for (int64_t i = 0; i < 4; ++i) x[i] = w.row(std::min(k + i, rows.end - 1));
    distances(x, at, w.d, away);
    for (int64_t i = 0; i < std::min<int64_t>(4, rows.end - k); ++i) {
      const double reach = std::max(away[i], delta);
      r[k + i] = T(away[i]);
      q[i] = T(reach > 0 ? std::min(a[k + i] / reach, most) : 0);
    }
    const T q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3];
    const T *__restrict x0 = x[0], *__restrict x1 = x[1], *__restrict x2 = x[2], *__restrict x3 = x[3];
    for (int64_t j = 0; j < w.d; ++j) {
      total[j] += (q0 * (x0[j] - at[j]) + q1 * (x1[j] - at[j])) +
                  (q2 * (x2[j] - at[j]) + q3 * (x3[j] - at[j]));
    }
  }
}

template <class T>
void pulls(const Call& call) {  // W, a, δ, at → r, Σ_k a_k (w_k − at) / max(r_k, δ)
  const auto w = call.models<T>();
  const Range rows = call.share;
  const T *a = call.input<T>(1), *at = call.input<T>(3);
  const double delta = *call.input<T>(2);
  T *r = call.output<T>(0), *out = call.output<T>(1);
  const int64_t operations = 4 * rows.size() * w.d;
  const int64_t threads = operations < kOneThread ? 1 : call.threads;
  const int64_t most = std::max<int64_t>(1, std::min(kShortSum, (rows.size() + threads - 1) / threads));
  const int64_t chunks = std::max<int64_t>(1, (rows.size() + most - 1) / most);
  std::fill(r, r + w.n, T(0));
  std::unique_ptr<T[]> partials(new T[chunks * w.d]);
  call.run(chunks, operations, [&](int64_t i) {
    T* mine = partials.get() + i * w.d;
    std::fill(mine, mine + w.d, T(0));
    add_pulls(w, a, delta, at, rows.piece(i, chunks), r, mine);
  });
  const Models<T> sums = {partials.get(), chunks, w.d, w.d};
  const std::vector<T> ones(chunks, T(1));
  sum_rows(call, sums, ones.data(), {0, w.d}, out);
}

// ---- Columns side by side

// Calls solve(tile, odd, first column, lanes) for all columns that this call covers, kLanes<T> at a time. A
// tile is a copy of these columns, one row of W after the other; `odd` is 0 for a column that is finite, and
// else NaN. Four tiles are copied at a time, because rows of W are far apart in memory. Lanes beyond the last
// column repeat it.
template <class T, class F>
void for_each_tile(const Call& call, int64_t cost, const F& solve) {
  const auto w = call.models<T>();
  const int64_t lanes = kLanes<T>, width = 4 * lanes, groups = (call.share.size() + width - 1) / width;
  const int64_t chunks = std::min(groups, 8 * call.threads);
  call.run(chunks, cost * w.n * call.share.size(), [&](int64_t i) {
    std::vector<Row<T>> tiles(4 * w.n);
    const Range mine = Range{0, groups}.piece(i, chunks);
    for (int64_t g = mine.begin; g < mine.end; ++g) {
      const int64_t first = call.share.begin + g * width, end = std::min(first + width, call.share.end);
      Row<T> odd[4] = {};
      for (int64_t k = 0; k < w.n; ++k) {
        const T* x = w.row(k) + first;
        T padded[4 * kLanes<T>];
        if (end - first < width) {
          for (int64_t j = 0; j < width; ++j) padded[j] = x[std::min(j, end - first - 1)];
          x = padded;
        }
        for (int64_t t = 0; t < 4; ++t) {
          const Vector<T> entries = load(x + t * lanes);
          vector_at(tiles[t * w.n + k].entries) = entries;
          vector_at(odd[t].entries) += entries - entries;
        }
      }
      for (int64_t t = 0, c = first; c < end; ++t, c += lanes) {
        solve(tiles[t * w.n].entries, odd[t].entries, c, std::min(lanes, end - c));
      }
    }
  });
}

// Sums over the rows of a tile: add(x, weight, sums) adds one row to vectors of T.
template <class T, int kSums, class F>
INLINE void sum_tile(const T* tile, const T* a, int64_t n, Vector<T> (&totals)[kSums], const F& add) {
  double exact[kSums][kLanes<T>] = {};
  const auto add_all = [&](auto weight) {
    for (int64_t first = 0; first < n; first += kShortSum) {
      Vector<T> sums[2][kSums] = {};  // Two chains of additions, which run in parallel.
      const int64_t last = std::min(first + kShortSum, n);
      for (int64_t k = first; k + 1 < last; k += 2) {
        add(load(tile + k * kLanes<T>), weight(k), sums[0]);
        add(load(tile + (k + 1) * kLanes<T>), weight(k + 1), sums[1]);
      }
      if ((last - first) % 2 == 1) add(load(tile + (last - 1) * kLanes<T>), weight(last - 1), sums[0]);
      for (int i = 0; i < kSums; ++i) {
        for (int64_t l = 0; l < kLanes<T>; ++l) exact[i][l] += sums[0][i][l] + sums[1][i][l];
      }
    }
  };
  a == nullptr ? add_all([](int64_t) { return T(1); }) : add_all([a](int64_t k) { return a[k]; });
  for (int i = 0; i < kSums; ++i) {
    for (int64_t l = 0; l < kLanes<T>; ++l) totals[i][l] = T(exact[i][l]);
  }
}

// The exchanges of Batcher's odd-even merge sort of n rows, without those that do not affect the rows from
// `first` to `last` of the result.
struct Exchange {
  int16_t low, high;
};

std::vector<Exchange> network_for(int64_t n, int64_t first, int64_t last) {
  std::vector<Exchange> all, needed;
  for (int64_t p = 1; p < n; p *= 2) {
    for (int64_t gap = p; gap >= 1; gap /= 2) {
      for (int64_t j = gap % p; j + gap < n; j += 2 * gap) {
        for (int64_t i = j; i < std::min(j + gap, n - gap); ++i) {
          if (i / (2 * p) == (i + gap) / (2 * p)) all.push_back({int16_t(i), int16_t(i + gap)});
        }
      }
    }
  }
  std::vector<bool> live(n, false);
  for (int64_t i = first; i <= last; ++i) live[i] = true;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (!live[it->low] && !live[it->high]) continue;
    live[it->low] = live[it->high] = true;
    needed.push_back(*it);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

template <class T>
INLINE void exchange_rows(const std::vector<Exchange>& network, T* tile) {
  for (const Exchange e : network) {
    Vector<T>&low = vector_at(tile + e.low * kLanes<T>), &high = vector_at(tile + e.high * kLanes<T>);
    const Vector<T> a = low, b = high;
    low = smaller(a, b);
    high = larger(a, b);
  }
}

// A sorted sample of the rows of a tile, for the start of a search and the spread of the models.
template <class T>
struct Sample {
  int64_t n, size;
  std::vector<Exchange> network;
  explicit Sample(int64_t n)
      : n(n), size(std::min(n, kSample)), network(network_for(size, size / 4, size - 1 - size / 4)) {}

  // The two middle entries, which are the same for an odd number of rows, and the interquartile range.
  INLINE void take(const T* tile, Vector<T>& low, Vector<T>& high, Vector<T>& spread) const {
    alignas(kVector) T rows[kSample * kLanes<T>];
    for (int64_t i = 0; i < size; ++i) {
      vector_at(rows + i * kLanes<T>) = load(tile + (2 * i + 1) * n / (2 * size) * kLanes<T>);
    }
    exchange_rows(network, rows);
    low = load(rows + (size - 1) / 2 * kLanes<T>);
    high = load(rows + size / 2 * kLanes<T>);
    spread = load(rows + (size - 1 - size / 4) * kLanes<T>) - load(rows + size / 4 * kLanes<T>);
  }
};

// The midpoint of two numbers in the order of their bit patterns, so that 64 bisections are enough.
double halfway(double low, double high) {
  auto key = [](double x) {
    int64_t bits;
    std::memcpy(&bits, &x, sizeof x);
    return bits < 0 ? std::numeric_limits<int64_t>::min() - bits : bits;
  };
  const int64_t a = key(low), b = key(high);
  const int64_t middle = (a & b) + ((a ^ b) >> 1);
  const int64_t bits = middle < 0 ? std::numeric_limits<int64_t>::min() - middle : middle;
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// ---- medians: the midpoint of all minimisers of Σ_k a_k |w_k − w| in each column

// The nearest entries on both sides of one point per column: at or below it, and above it.
template <class T>
INLINE void neighbours(const T* tile, const T* a, int64_t n, Vector<T> at, Vector<T>& below,
                       Vector<T>& above) {
  below = Vector<T>{} - std::numeric_limits<T>::infinity();
  above = -below;
  for (int64_t k = 0; k < n; ++k) {
    if (a != nullptr && a[k] == 0) continue;
    const Vector<T> x = load(tile + k * kLanes<T>);
    below = x <= at ? larger(below, x) : below;
    above = x <= at ? above : smaller(above, x);
  }
}

// Counting entries narrows a bracket around the median; in the end, neighbouring entries close it.
template <class T>
INLINE void median_tile(const T* tile, const T* a, int64_t n, double total, Vector<T> at,
                        Vector<T> spread, T* found) {
  const double tie = 4 * std::numeric_limits<T>::epsilon() * total, near = 3.0 * total / double(n);
  const double tiny = std::numeric_limits<T>::min();
  double low[kLanes<T>], high[kLanes<T>], pull_low[kLanes<T>] = {}, pull_high[kLanes<T>] = {}, pull[kLanes<T>];
  bool done[kLanes<T>] = {};
  std::fill(low, low + kLanes<T>, -INFINITY);
  std::fill(high, high + kLanes<T>, INFINITY);
  for (int pass = 0, left = kLanes<T>; left > 0; ++pass) {
    Vector<T> up_to[1];  // the weight of entries up to `at`
    sum_tile<T, 1>(tile, a, n, up_to, [&](Vector<T> x, T weight, Vector<T>* sums) {
      sums[0] += x <= at ? Vector<T>{} + weight : Vector<T>{};
    });
    bool all_near = true;
    for (int64_t l = 0; l < kLanes<T>; ++l) {
      pull[l] = total - 2 * up_to[0][l];  // > 0: the median is above
      all_near = all_near && (done[l] || std::abs(pull[l]) <= near);
    }
    Vector<T> below = at, above = at;
    const bool looked = all_near || pass > 5;
    if (looked) neighbours(tile, a, n, at, below, above);
    for (int64_t l = 0; l < kLanes<T>; ++l) {
      if (done[l]) continue;
      const bool tied = std::abs(pull[l]) <= tie;
      if (looked && tied) {
        found[l] = T(0.5) * below[l] + T(0.5) * above[l];
        done[l] = true;
      } else if (pull[l] > 0) {  // The median is the next entry above, or beyond it.
        low[l] = above[l];
        pull_low[l] = pull[l];
      } else {
        high[l] = below[l];
        pull_high[l] = pull[l];
      }
      if (looked && !done[l] && low[l] >= high[l]) {
        found[l] = T(low[l]);
        done[l] = true;
      }
      left -= done[l] ? 1 : 0;
      if (done[l] || tied) continue;
      double next;
      if (looked && std::abs(pull[l]) <= near) {
        next = pull[l] > 0 ? low[l] : std::nextafter(T(high[l]), -std::numeric_limits<T>::infinity());
      } else if (std::isinf(low[l]) || std::isinf(high[l])) {
        const double least = std::numeric_limits<T>::epsilon() * std::abs(double(at[l])) + tiny;
        next = double(at[l]) + pull[l] / total * (double(spread[l]) + least) * std::ldexp(1.0, 2 * pass);
      } else if (pass < 12 && pass % 3 != 2) {
        next = low[l] + (high[l] - low[l]) * (pull_low[l] / (pull_low[l] - pull_high[l]));
      } else {
        next = halfway(low[l], high[l]);
      }
      const T to = T(next), under = std::nextafter(T(high[l]), -std::numeric_limits<T>::infinity());
      const bool between = to >= low[l] && to < high[l];
      at[l] = between ? to : std::isinf(low[l]) ? under : T(low[l]);
    }
  }
}

template <class T>
void medians(const Call& call) {  // W, a (optional), a point near the medians (optional) → the medians
  const int64_t n = call.n;
  const T *a = call.input<T>(1), *start = call.input<T>(2);
  T* out = call.output<T>(0) - call.share.begin;
  const double total = a == nullptr ? double(n) : std::accumulate(a, a + n, 0.0);
  const bool few = a == nullptr && n <= kNetwork;
  const auto network = few ? network_for(n, (n - 1) / 2, n / 2) : std::vector<Exchange>();
  const Sample<T> sample(n);
  for_each_tile<T>(call, 8, [&](T* tile, const T* odd, int64_t c, int64_t lanes) {
    T found[kLanes<T>] = {};
    if (few) {
      exchange_rows(network, tile);
      vector_at(found) = T(0.5) * load(tile + (n - 1) / 2 * kLanes<T>) + T(0.5) * load(tile + n / 2 * kLanes<T>);
    } else if (std::all_of(odd, odd + kLanes<T>, [](T x) { return x == 0; })) {
      Vector<T> low, high, spread;
      sample.take(tile, low, high, spread);
      for (int64_t l = 0; start != nullptr && l < kLanes<T>; ++l) low[l] = start[c + std::min(l, lanes - 1)];
      median_tile(tile, a, n, total, low, spread, found);
    }
    for (int64_t l = 0; l < lanes; ++l) out[c + l] = found[l] + odd[l];
  });
}

// ---- delta_medians: the root of Σ_k a_k clip(w_k − w, −δ, δ) in each column

// The parts of that sum at one point per column: Σ a_k (w_k − w) and Σ a_k of entries within δ, and Σ ±a_k of
// those beyond.
template <class T>
struct Clipped {
  Vector<T> pull, inside, outside;

  INLINE Clipped(const T* tile, const T* a, int64_t n, T delta, Vector<T> at) {
    Vector<T> totals[3];
    sum_tile<T, 3>(tile, a, n, totals, [&](Vector<T> x, T weight, Vector<T>* sums) {
      const Vector<T> away = x - at, zero = {}, same = zero + weight;
      const Mask<T> within = (away < delta) & (away > -delta);
      sums[0] += within ? weight * away : zero;
      sums[1] += within ? same : zero;
      sums[2] += away >= delta ? same : within ? zero : -same;
    });
    pull = totals[0];
    inside = totals[1];
    outside = totals[2];
  }
};

// Where the weights on both sides of a column are equal and the entries next to the middle are at least 2δ
// apart, the roots form an interval. Returns its point nearest to the mean, or else `root`.
template <class T>
Vector<T> nearest_to_mean(const T* tile, const T* a, int64_t n, double total, T delta, Vector<T> root) {
  const T infinite = std::numeric_limits<T>::infinity();
  Vector<T> below = Vector<T>{} - infinite, above = -below, nearest = root, totals[3];
  sum_tile<T, 3>(tile, a, n, totals, [&](Vector<T> x, T weight, Vector<T>* sums) {
    const Vector<T> zero = {}, same = zero + weight;
    sums[0] += weight * (x - root);
    sums[1] += x < root ? same : zero;
    sums[2] += x <= root ? same : zero;
    if (weight > 0) {
      below = x < root ? larger(below, x) : below;
      above = x > root ? smaller(above, x) : above;
    }
  });
  const T tie = 2 * std::numeric_limits<T>::epsilon() * T(total), half = T(0.5 * total);
  for (int64_t l = 0; l < kLanes<T>; ++l) {
    // The middle may be right after entries that equal the root, or right before them.
    const T under = totals[1][l], up_to = totals[2][l];
    const bool after = std::abs(up_to - half) <= tie, equal = up_to > under;
    if (!after && std::abs(under - half) > tie) continue;
    const double low = after && equal ? root[l] : below[l], high = !after && equal ? root[l] : above[l];
    if (high - low < 2 * double(delta)) continue;
    nearest[l] = T(std::min(std::max(root[l] + totals[0][l] / total, low + delta), high - delta));
  }
  return nearest;
}

// Newton's method on all lanes where its step stays within δ, and else a chord, within a bracket that is
// halved in the end. A lane is done if Newton's step led here and the same entries are within δ as at its
// start: then the sum is linear in between. Returns the roots; `solved` says which columns have one.
template <class T>
INLINE Vector<T> root_tile(const T* tile, const T* a, int64_t n, double total, T delta, Vector<T> at,
                           Vector<T> spread, Mask<T>& solved) {
  constexpr int kChords = 16, kPasses = kChords + 140;
  const T eps = std::numeric_limits<T>::epsilon(), infinite = std::numeric_limits<T>::infinity();
  const T most = std::numeric_limits<T>::max();
  const Vector<T> zero = {};
  Vector<T> low = zero - infinite, high = zero + infinite, pull_low = zero, pull_high = zero;
  Vector<T> inside = zero, outside = zero, root = at;
  Mask<T> stepped = low > high;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Clipped<T> s(tile, a, n, delta, at);
    // Sums of weights up to this size are rounding errors; the clipped sum then counts as 0.
    const Mask<T> tied = larger(absolute(s.outside), s.inside) <= 4 * eps * T(total);
    const Vector<T> pull = tied ? zero : s.pull + delta * s.outside;
    const Vector<T> newton = at + (s.inside > 0 ? pull / s.inside : zero);
    const Mask<T> same = stepped & (s.inside == inside) & (s.outside == outside);
    const Mask<T> still = (newton == at) & (absolute(s.outside) <= s.inside);
    const Mask<T> found = ~solved & (((s.inside > 0) & (same | still)) | (pull == 0));
    low = pull > 0 ? at : low;
    high = pull < 0 ? at : high;
    pull_low = pull > 0 ? pull : pull_low;
    pull_high = pull < 0 ? pull : pull_high;
    const Vector<T> size = larger(absolute(low), absolute(high));
    const T least = std::numeric_limits<T>::min();  // Below it, numbers are evenly spaced.
    const Mask<T> closed = ~solved & ~found & (high - low <= 2 * eps * size + least) & (size < infinite);
    root = found ? newton : closed ? low : root;
    // There may be many roots if entries are exactly δ away, or if none is within δ.
    const Mask<T> edge = closed | (found & (tied | (s.inside <= absolute(s.outside) * (1 + 16 * eps))));
    if (any(edge)) root = edge ? nearest_to_mean(tile, a, n, total, delta, root) : root;
    solved |= found | closed;
    if (!any(~solved)) break;
    inside = s.inside;
    outside = s.outside;
    stepped = (absolute(pull) <= delta * s.inside) & (newton > low) & (newton < high) & (newton != at);
    Vector<T> next;
    if (pass < kChords) {
      const T far = T(std::ldexp(1.0, 2 * pass));
      const Vector<T> reach = (absolute(s.outside) / T(total) * spread + delta) * far;
      const Vector<T> chord = low + (high - low) * (pull_low / (pull_low - pull_high));
      const Vector<T> between = pass % 3 == 2 ? T(0.5) * low + T(0.5) * high : chord;
      const Mask<T> open = (low == -infinite) | (high == infinite);
      next = open ? (pull > 0 ? at + reach : at - reach) : between;
    } else {
      if (pass % 2 == 0) stepped = solved ^ solved;
      for (int64_t l = 0; l < kLanes<T>; ++l) {
        next[l] = T(halfway(double(std::max(low[l], -most)), double(std::min(high[l], most))));
      }
    }
    at = stepped ? newton : next;
  }
  return root;
}

// Solves one tile; returns how many of its first `lanes` columns remain unsolved.
template <class T>
INLINE int64_t delta_median_tile(const T* tile, const T* a, const Sample<T>& sample, double total, T delta,
                                 const T* start, int64_t lanes, T* found) {
  const int64_t n = sample.n;
  Vector<T> low, high, spread;
  sample.take(tile, low, high, spread);
  Vector<T> at = T(0.5) * low + T(0.5) * high, flat = at;
  Mask<T> solved = low > high;
  if (start != nullptr) {
    alignas(kVector) T begin[kLanes<T>];
    for (int64_t l = 0; l < kLanes<T>; ++l) begin[l] = start[std::min(l, lanes - 1)];
    at = absolute(load(begin) - at) <= 8 * spread + delta ? load(begin) : at;
  }
  if (a == nullptr && n == sample.size) {  // The sample is the whole column, so its middle entries show an interval.
    Vector<T> sum = {};
    for (int64_t k = 0; k < n; ++k) sum += load(tile + k * kLanes<T>);
    solved = high - low >= 2 * delta;
    flat = smaller(larger(sum / T(n), low + delta), high - delta);
  } else if (any(T(n) * delta < spread)) {  // Few entries are within δ, so start at the median.
    alignas(kVector) T median[kLanes<T>];
    median_tile(tile, a, n, total, at, spread, median);
    at = load(median);
  }
  const Mask<T> is_flat = solved;
  if (any(~solved)) at = root_tile(tile, a, n, total, delta, at, spread, solved);
  vector_at(found) = is_flat ? flat : at;
  int64_t open = 0;
  for (int64_t l = 0; l < lanes; ++l) open += solved[l] ? 0 : 1;
  return open;
}

template <class T>
void delta_medians(const Call& call) {  // W, a (optional), δ, start (optional) → medians, unsolved columns
  const T *a = call.input<T>(1), *start = call.input<T>(3);
  const T delta = std::max(*call.input<T>(2), std::numeric_limits<T>::min());
  T* out = call.output<T>(0) - call.share.begin;
  const double total = a == nullptr ? double(call.n) : std::accumulate(a, a + call.n, 0.0);
  const Sample<T> sample(call.n);
  std::atomic<int64_t> open{0};
  for_each_tile<T>(call, 16, [&](T* tile, const T* odd, int64_t c, int64_t lanes) {
    T found[kLanes<T>] = {};
    if (std::all_of(odd, odd + kLanes<T>, [](T x) { return x == 0; })) {
      const T* begin = start == nullptr ? nullptr : start + c;
      open += delta_median_tile(tile, a, sample, total, delta, begin, lanes, found);
    }
    for (int64_t l = 0; l < lanes; ++l) out[c + l] = found[l] + odd[l];
  });
  call.output<int32_t>(1)[0] = int32_t(open);
}

// ---- incremental_medians: δ-medians of a W in which few rows change from call to call

// The memory of one column: for every w in [low, high], the sum of clipped entries follows from two counts,
// a linear part and a short list. Entries are `up` if they pull w up by δ wherever in the interval it is,
// `down` if they pull it down by δ, `linear` if they stay within δ of it, and else they are listed.
struct ColumnMemory {
  double linear_sum, error;  // Σ of linear entries, and a bound on its rounding error
  float low, high;
  int32_t up, down, linear, listed;  // listed < 0: the memory is empty
  float values[kListed];

  // Adds (sign = 1) or removes (sign = −1) one entry.
  INLINE void count(float entry, double delta, int sign) {
    if (listed < 0) return;
    const double x = entry;
    float* last = values + listed;
    if (x >= high + delta && std::isfinite(x)) {
      up += sign;
    } else if (x <= low - delta && std::isfinite(x)) {
      down += sign;
    } else if (x >= high - delta && x <= low + delta) {
      linear += sign;
      linear_sum += sign * x;
      error += std::numeric_limits<double>::epsilon() * std::abs(linear_sum);
    } else if (sign > 0 && listed < kListed && std::isfinite(x)) {
      *last = entry;
      ++listed;
    } else if (float* found = std::find(values, last, entry); sign < 0 && found != last) {
      *found = *(last - 1);
      --listed;
    } else {
      listed = -1;
    }
  }

  // The root within the interval, by Newton's method; NaN if it is not there or not certain.
  INLINE double root(double delta, double at) const {
    double last_inside = -1, last_outside = 0;
    for (int pass = 0; pass < 20 && listed >= 0; ++pass) {
      at = std::min(std::max(at, double(low)), double(high));
      double pull = linear_sum - linear * at, inside = linear, outside = up - down;
      for (int64_t i = 0; i < listed; ++i) {
        const double away = double(values[i]) - at;
        const bool within = std::abs(away) < delta;
        pull += within ? away : 0.0;
        inside += within ? 1.0 : 0.0;
        outside += within ? 0.0 : away > 0 ? 1.0 : -1.0;
      }
      // There may be many roots if entries are exactly δ away, or if none is within δ; that needs all of W.
      if (inside <= std::abs(outside) * (1 + 1e-6) + 1e-6 || error > 1e-7 * inside * delta) return NAN;
      const double newton = at + (pull + delta * outside) / inside;
      // The same entries are within δ as at the last point, so the sum is linear in between.
      if (newton == at || (inside == last_inside && outside == last_outside)) {
        return newton >= low && newton <= high ? newton : NAN;
      }
      last_inside = inside;
      last_outside = outside;
      at = newton;
    }
    return NAN;
  }

  // Fills the memory of a column whose median is `middle`.
  void fill(const std::vector<Row<float>>& column, double delta, double middle) {
    double width = (std::abs(middle - double(column[0].entries[0])) + delta) * 16.0 / double(column.size());
    if (listed >= 0) width = std::max(width, double(high) - low);
    const double least = 4 * std::numeric_limits<float>::epsilon() * (std::abs(middle) + delta);
    const auto near = [&](const Row<float>& row) {
      const double away = std::abs(double(row.entries[0]) - middle);
      return (away > delta - width) & (away < delta + width);
    };
    while (width > least && std::count_if(column.begin(), column.end(), near) > kListed * 2 / 3) width *= 0.5;
    *this = {0, 0, float(middle - width), float(middle + width), 0, 0, 0, 0, {}};
    if (!(low < middle && middle < high)) listed = -1;
    for (const auto& row : column) count(row.entries[0], delta, 1);
  }
};

static_assert(sizeof(ColumnMemory) == 58 * sizeof(int32_t), "MEMORY_WORDS in kernels.py");

// W, indices of changed rows (int32), the former entries of these rows, δ, start, whether each row counts (int32),
// whether each changed row counted before (int32), memory → medians, unsolved columns, memory
void incremental_medians(const Call& call) {
  const auto w = call.models<float>();
  const int64_t changed = call.rows[1];
  const int32_t* rows = call.input<int32_t>(1);
  const Models<float> before = {call.input<float>(2), changed, w.d, w.d};
  const float *start = call.input<float>(4), delta = std::max(*call.input<float>(3), std::numeric_limits<float>::min());
  const int32_t *counted = call.input<int32_t>(5), *was_counted = call.input<int32_t>(6);
  float* out = call.output<float>(0) - call.share.begin;
  ColumnMemory* memory = call.output<ColumnMemory>(2) - call.share.begin;
  const int64_t n = std::count_if(counted, counted + w.n, [](int32_t x) { return x != 0; });
  const Sample<float> sample(std::max<int64_t>(n, 1));
  std::atomic<int64_t> open{0};
  const int64_t pieces = std::min<int64_t>(8 * call.threads, (call.share.size() + 15) / 16);
  call.run(pieces, 64 * changed * call.share.size(), [&](int64_t i) {
    const Range mine = call.share.piece(i, pieces);
    for (int64_t row = 0; row < changed; ++row) {
      const float *old = before.row(row), *now = w.row(rows[row]);
      for (int64_t j = mine.begin; j < mine.end; ++j) {
        const bool counts = counted[rows[row]] != 0, did_count = was_counted[row] != 0;
        if (counts == did_count && (!counts || old[j] == now[j])) continue;
        if (did_count) memory[j].count(old[j], delta, -1);
        if (counts) memory[j].count(now[j], delta, 1);
      }
    }
    std::vector<Row<float>> column(n);
    for (int64_t j = mine.begin; j < mine.end && n > 0; ++j) {
      out[j] = float(memory[j].root(delta, start[j]));
      if (!std::isnan(out[j])) continue;
      // All of W is needed for this column.
      float odd = 0, found[kLanes<float>];
      auto entry = column.begin();
      for (int64_t k = 0; k < w.n; ++k) {
        if (counted[k] == 0) continue;
        const float x = w.row(k)[j];
        odd += x - x;
        vector_at((entry++)->entries) = Vector<float>{} + x;
      }
      if (odd != 0) continue;  // The column is not finite.
      open += delta_median_tile<float>(column[0].entries, nullptr, sample, double(n), delta, start + j, 1, found);
      out[j] = found[0];
      memory[j].fill(column, delta, double(found[0]));
    }
  });
  call.output<int32_t>(1)[0] = int32_t(open);
}

// ---- Kernels by name, and their callers

struct Kernel {
  std::string_view name;
  bool covers_rows;  // else columns
  void (*of_float)(const Call&);
  void (*of_double)(const Call&);
};

#define KERNEL(name, covers_rows) {#name, covers_rows, name<float>, name<double>}
constexpr Kernel kKernels[] = {
    KERNEL(weighted_sum, false), KERNEL(pulls, true), KERNEL(medians, false),
    KERNEL(delta_medians, false), {"incremental_medians", false, incremental_medians, nullptr},
};

// Runs a kernel on `size` rows or columns, starting at `begin`; returns false if there is no such kernel.
bool run_kernel(std::string_view name, bool is_double, int64_t begin, int64_t size, Call& call) {
  for (const Kernel& kernel : kKernels) {
    if (kernel.name != name) continue;
    const int64_t end = kernel.covers_rows ? call.n : call.d;
    call.share = {std::min(begin, end), std::min(begin + size, end)};
    (is_double ? kernel.of_double : kernel.of_float)(call);
    return true;
  }
  return false;
}

// The entry point of XLA, with W, the start of the share, and the other arguments.
ffi::Error run_from_xla(ffi::ThreadPool pool, std::string_view name, int64_t size, int64_t alone,
                        ffi::AnyBuffer w, ffi::Buffer<ffi::S32> begin, ffi::RemainingArgs args,
                        ffi::RemainingRets results) {
  const auto shape = w.dimensions();
  const int64_t threads = alone ? 1 : std::max<int64_t>(1, pool.num_threads());
  Call call = {shape[0], shape[1], shape[1], {}, {w.untyped_data()}, {}, {shape[0]}, threads, &pool};
  for (size_t i = 0; i < args.size(); ++i) {
    const auto arg = *args.get<ffi::AnyBuffer>(i);
    call.in.push_back(arg.element_count() > 0 ? arg.untyped_data() : nullptr);
    call.rows.push_back(arg.dimensions().size() > 0 ? arg.dimensions()[0] : 1);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    call.out.push_back((*results.get<ffi::AnyBuffer>(i))->untyped_data());
  }
  const bool known = run_kernel(name, w.element_type() == ffi::F64, begin.typed_data()[0], size, call);
  return known ? ffi::Error::Success() : ffi::Error::InvalidArgument("fedplus has no such kernel");
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT XLA_FFI_Error* fedplus_xla(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .Ctx<ffi::ThreadPool>()
                             .Attr<std::string_view>("kernel")
                             .Attr<int64_t>("size")
                             .Attr<int64_t>("alone")
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::Buffer<ffi::S32>>()
                             .RemainingArgs()
                             .RemainingRets()
                             .To(run_from_xla)
                             .release();
  return handler->Call(frame);
}

// The entry point for NumPy arrays. W is (n, d), with `stride` entries from row to row. Returns 0 if there is no such
// kernel.
EXPORT int fedplus_run(const char* name, int is_double, int64_t n, int64_t d, int64_t stride, int inputs,
                       const void* const* in, int outputs, void* const* out, int64_t threads) {
  Call call = {n, d, stride, {}, {}, {}, {}, threads, nullptr};
  call.in.assign(in, in + inputs);
  call.out.assign(out, out + outputs);
  return run_kernel(name, is_double != 0, 0, std::max(n, d), call);
}

// The x86-64 level of this processor: 4, 3 or 1. There may be a library compiled for it.
EXPORT int fedplus_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  return v3 && v4 ? 4 : v3 ? 3 : 1;
#else
  return 1;
#endif
}
