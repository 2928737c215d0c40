// Passes over the models of all parties that XLA does badly on a CPU.
//
// W has one model per row: `n` rows (parties) of `d` columns (coordinates), row-major, float or double.
// Each pass is a function of plain arrays. It is offered twice: as an XLA FFI handler, which JAX calls
// inside compiled programs on XLA's own threads, and as a C function, which `kernels.py` calls on NumPy
// arrays through ctypes. `aggregation/kernels.py` says what each pass computes and has the same pass in
// JAX; the results agree to rounding.
//
// A pass covers `columns` or `rows` from `begin` to `end`, so that several cores can share it. Sums run
// over short stretches in the type of W and are added up in double. Non-finite entries give non-finite
// results, which the caller reports.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#define INLINE inline __attribute__((always_inline))

namespace {

constexpr int64_t kTile = 1024;      // columns of a sum that stay in the first cache
constexpr int64_t kShortSum = 64;    // rows that are summed in the type of W
constexpr int64_t kLanes = 16;       // columns that are solved side by side
constexpr int64_t kTiles = 4;        // tiles of kLanes columns that are loaded at once
constexpr int64_t kFewModels = 16;   // up to here a Gram matrix finds the geometric median
constexpr int64_t kAlone = 1 << 16;  // entries below which one thread is fastest

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

// ---- Threads

// XLA's threads treat numbers below the smallest normal one as zero. Searches that step from number to
// number must not, or they would never end.
class WithSubnormals {
 public:
#if defined(__x86_64__)
  WithSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~0x8040u); }
  ~WithSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

// Runs `chunks` pieces of work on XLA's thread pool, on threads of its own, or on the calling thread.
// The calling thread takes pieces as well and only waits for pieces that somebody has begun, so a busy
// or missing pool delays nothing.
class Workers {
 public:
  Workers(ffi::ThreadPool* pool, int64_t threads) : pool_(pool), threads_(threads) {}
  int64_t threads_for(int64_t entries) const { return entries < kAlone ? 1 : threads_; }

  template <class F>
  void run(int64_t chunks, int64_t threads, const F& body) const {
    if (threads <= 1 || chunks <= 1) {
      WithSubnormals here;
      for (int64_t i = 0; i < chunks; ++i) body(i);
      return;
    }
    struct Shared {
      std::atomic<int64_t> next{0};
      std::atomic<int64_t> done{0};
      std::mutex mutex;
      std::condition_variable finished;
    };
    auto shared = std::make_shared<Shared>();
    auto work = [shared, chunks, &body] {
      WithSubnormals here;
      for (int64_t i = shared->next++; i < chunks; i = shared->next++) {
        body(i);
        if (++shared->done == chunks) {
          std::lock_guard<std::mutex> lock(shared->mutex);
          shared->finished.notify_all();
        }
      }
    };
    const int64_t helpers = std::min(threads, chunks) - 1;
    std::vector<std::thread> own;
    for (int64_t t = 0; t < helpers; ++t) {
      if (pool_ != nullptr) {
        pool_->Schedule(decltype(work)(work));
      } else {
        own.emplace_back(work);
      }
    }
    work();
    std::unique_lock<std::mutex> lock(shared->mutex);
    shared->finished.wait(lock, [&] { return shared->done == chunks; });
    lock.unlock();
    for (auto& thread : own) thread.join();
  }

 private:
  ffi::ThreadPool* pool_;
  int64_t threads_;
};

// ---- Inner loops, once per instruction set

// What a column remembers between calls of incremental_medians; see loops.h.
template <class T>
struct Memory {
  T *low, *high;                         // (d,)
  int32_t *up, *down, *linear, *listed;  // (d,); listed < 0: nothing is known
  double *linear_sum, *sum, *largest;    // (d,): Σ of linear entries, Σ of all, largest |entry| seen
  T* values;                             // (d, kRoom)
};
constexpr int64_t kRoom = 48;  // entries that a list has room for

namespace baseline {
#include "loops.h"
}
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SEVERAL_TARGETS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace avx2 {
#include "loops.h"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace avx512 {
#include "loops.h"
}
#pragma GCC pop_options
#endif

template <class T>
struct Loops {
  decltype(&baseline::weighted_sum<T>) weighted_sum;
  decltype(&baseline::add_pulls<T>) add_pulls;
  decltype(&baseline::add_partial<T>) add_partial;
  decltype(&baseline::medians<T>) medians;
  decltype(&baseline::delta_medians<T>) delta_medians;
  decltype(&baseline::incremental_medians<T>) incremental_medians;
  decltype(&baseline::add_gram<T>) add_gram;
};

#define LOOPS_OF(target)                                                                          \
  Loops<T> {                                                                                      \
    target::weighted_sum<T>, target::add_pulls<T>, target::add_partial<T>, target::medians<T>,    \
        target::delta_medians<T>, target::incremental_medians<T>, target::add_gram<T>             \
  }

// The loops for the best instruction set that this processor has.
template <class T>
const Loops<T>& loops() {
  static const Loops<T> chosen = [] {
#ifdef SEVERAL_TARGETS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
      return LOOPS_OF(avx512);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      return LOOPS_OF(avx2);
    }
#endif
    return LOOPS_OF(baseline);
  }();
  return chosen;
}

// ---- The geometric median of a few models, from their Gram matrix

// The row from which half of the others are nearest, judged by a few columns.
template <class T>
int64_t central_row(const Models<T>& w) {
  const int64_t n = w.n, width = std::min<int64_t>(w.d, 32);
  int64_t best = 0;
  double least = INFINITY;
  for (int64_t k = 0; k < n; ++k) {
    std::vector<double> square(n, 0.0);
    for (int64_t part = 0; part < 4; ++part) {
      const int64_t c = part * (w.d - width) / 3;
      for (int64_t other = 0; other < n; ++other) {
        for (int64_t j = c; j < c + width; ++j) {
          const double away = double(w.row(k)[j]) - double(w.row(other)[j]);
          square[other] += away * away;
        }
      }
    }
    std::nth_element(square.begin(), square.begin() + n / 2, square.end());
    if (square[n / 2] < least) {
      least = square[n / 2];
      best = k;
    }
  }
  return best;
}

// The models' shares in their δ-geometric median: reweighted means with a secant step, on the Gram
// matrix alone. Models whose products overflow are so far away that they do not count here.
template <class T>
void shares_from_gram(std::vector<double>& gram, int64_t n, const T* a, double delta, T* shares) {
  std::vector<double> p(n, 1.0 / double(n)), weight(n), step(n), step_before(n), p_before(n), to(n);
  for (int64_t k = 0; k < n; ++k) {
    weight[k] = gram[k * n + k] < 1e37 ? double(a[k]) : 0.0;
    for (int64_t other = 0; other <= k; ++other) gram[other * n + k] = gram[k * n + other];
  }
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t other = 0; other < n; ++other) {
      if (weight[k] == 0 || weight[other] == 0) gram[k * n + other] = 0;
    }
  }
  auto product = [&](const std::vector<double>& x, const std::vector<double>& y) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      double row = 0;
      for (int64_t other = 0; other < n; ++other) row += gram[k * n + other] * y[other];
      sum += x[k] * row;
    }
    return sum;
  };
  for (int turn = 0; turn < 60; ++turn) {
    double slope = 0, size = 0, total = 0;
    for (int64_t k = 0; k < n; ++k) {
      to[k] = 0;
      for (int64_t other = 0; other < n; ++other) to[k] += gram[k * n + other] * p[other];
      size += p[k] * to[k];
    }
    for (int64_t k = 0; k < n; ++k) {
      const double r = std::sqrt(std::max(gram[k * n + k] - 2 * to[k] + size, 0.0));
      step[k] = weight[k] / std::max(std::max(r, delta), 1e-300);
      slope += step[k];
      total += weight[k];
    }
    for (int64_t k = 0; k < n; ++k) step[k] = step[k] / slope - p[k];
    const double left = product(step, step), typical = total / slope;
    if (!(left > 1e-14 * typical * typical)) break;
    double share = 0;
    if (turn > 0) {
      for (int64_t k = 0; k < n; ++k) to[k] = step[k] - step_before[k];
      const double change = product(to, to);
      share = change > 0 ? product(to, step) / change : 0;
    }
    for (int64_t k = 0; k < n; ++k) {
      const double image = p[k] + step[k], image_before = p_before[k] + step_before[k];
      p_before[k] = p[k];
      step_before[k] = step[k];
      p[k] = turn > 0 ? image - share * (image - image_before) : image;
    }
  }
  for (int64_t k = 0; k < n; ++k) shares[k] = T(p[k]);
}

// ---- Whole passes, shared by threads

template <class T>
void run_weighted_sum(const Workers& workers, const Models<T>& w, const T* p, Range columns, T* out) {
  const int64_t threads = workers.threads_for(w.n * columns.size());
  const int64_t chunks = std::min(4 * threads, std::max<int64_t>(1, columns.size() / 256));
  workers.run(chunks, threads, [&](int64_t i) {
    const Range mine = columns.piece(i, chunks);
    loops<T>().weighted_sum(w, p, mine, out + (mine.begin - columns.begin));
  });
}

template <class T>
void run_pulls(const Workers& workers, const Models<T>& w, const T* a, double delta, double unit,
               const T* at, Range rows, T* r, T* out) {
  const int64_t threads = workers.threads_for(rows.size() * w.d);
  const int64_t most = std::max<int64_t>(1, std::min(kShortSum, (rows.size() + threads - 1) / threads));
  const int64_t chunks = std::max<int64_t>(1, (rows.size() + most - 1) / most);
  std::fill(r, r + w.n, T(0));
  std::unique_ptr<T[]> partials(new T[chunks * w.d]);
  workers.run(chunks, threads, [&](int64_t i) {
    T* mine = partials.get() + i * w.d;
    std::fill(mine, mine + w.d, T(0));
    loops<T>().add_pulls(w, a, delta, unit, at, rows.piece(i, chunks), r, mine);
  });
  const int64_t pieces = chunks * w.d < kAlone ? 1 : threads;
  workers.run(pieces, pieces, [&](int64_t i) {
    loops<T>().add_partial(partials.get(), chunks, w.d, Range{0, w.d}.piece(i, pieces), out);
  });
}

// Runs `solve(columns, room)` over columns in pieces, with room for kTiles tiles.
template <class T, class F>
void run_columns(const Workers& workers, const Models<T>& w, Range columns, const F& solve) {
  const int64_t threads = workers.threads_for(w.n * columns.size()), width = kTiles * kLanes;
  const int64_t tiles = (columns.size() + width - 1) / width;
  const int64_t chunks = threads == 1 ? 1 : std::min<int64_t>(tiles, 16 * threads);
  workers.run(chunks, threads, [&](int64_t i) {
    const Range mine = Range{0, tiles}.piece(i, chunks);
    std::unique_ptr<T[]> room(new T[w.n * width]);
    solve(Range{columns.begin + mine.begin * width,
                std::min(columns.begin + mine.end * width, columns.end)},
          room.get());
  });
}

template <class T>
void run_medians(const Workers& workers, const Models<T>& w, const T* a, Range columns, T* out) {
  run_columns(workers, w, columns, [&](Range mine, T* room) {
    loops<T>().medians(w, a, mine, room, out + (mine.begin - columns.begin));
  });
}

template <class T>
int64_t run_delta_medians(const Workers& workers, const Models<T>& w, const T* a, double delta,
                          const T* start, Range columns, T* out, T* left) {
  std::atomic<int64_t> passes{0};
  run_columns(workers, w, columns, [&](Range mine, T* room) {
    const int64_t at = mine.begin - columns.begin;
    passes += loops<T>().delta_medians(w, a, delta, start, mine, room, out + at, left + at);
  });
  return passes / std::max<int64_t>(1, (columns.size() + kLanes - 1) / kLanes);
}

template <class T>
void run_few_median(const Workers& workers, const Models<T>& w, const T* a, double delta, T* out) {
  const int64_t n = w.n, threads = workers.threads_for(w.n * w.d), centre = central_row(w);
  std::vector<std::vector<double>> grams(threads, std::vector<double>(n * n, 0.0));
  workers.run(threads, threads, [&](int64_t i) {
    loops<T>().add_gram(w, centre, Range{0, w.d}.piece(i, threads), grams[i].data());
  });
  for (int64_t t = 1; t < threads; ++t) {
    for (int64_t i = 0; i < n * n; ++i) grams[0][i] += grams[t][i];
  }
  T shares[kFewModels];
  shares_from_gram(grams[0], n, a, delta, shares);
  run_weighted_sum(workers, w, shares, {0, w.d}, out);
}

// ---- XLA FFI

template <class T>
Models<T> models_of(const ffi::AnyBuffer& w) {
  const auto shape = w.dimensions();
  return {reinterpret_cast<const T*>(w.untyped_data()), shape[0], shape[1], shape[1]};
}

template <class T>
T* data_of(const ffi::AnyBuffer& buffer) {
  return reinterpret_cast<T*>(const_cast<void*>(buffer.untyped_data()));
}

template <class T>
double number(const ffi::AnyBuffer& buffer) {
  return double(*data_of<const T>(buffer));
}

Range range_from(int32_t begin, int64_t size, int64_t end) {
  return {std::min<int64_t>(begin, end), std::min<int64_t>(begin + size, end)};
}

// Calls `f` with a value of the type of W: float or double.
template <class F>
ffi::Error by_type(const ffi::AnyBuffer& w, const F& f) {
  switch (w.element_type()) {
    case ffi::F32:
      f(float());
      return ffi::Error::Success();
    case ffi::F64:
      f(double());
      return ffi::Error::Success();
    default:
      return ffi::Error::InvalidArgument("fedplus: W must be float32 or float64");
  }
}

using Out = ffi::Result<ffi::AnyBuffer>;
using Begin = ffi::Buffer<ffi::S32>;  // where this core's share of rows or columns begins

Workers workers_for(ffi::ThreadPool& pool, int64_t shared) {
  return Workers(&pool, shared ? 1 : std::max<int64_t>(1, pool.num_threads()));
}

ffi::Error weighted_sum_ffi(ffi::ThreadPool pool, int64_t shared, ffi::AnyBuffer w, ffi::AnyBuffer p,
                            Begin begin, Out out) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    const auto models = models_of<T>(w);
    const Range columns = range_from(begin.typed_data()[0], out->element_count(), models.d);
    run_weighted_sum(workers_for(pool, shared), models, data_of<T>(p), columns, data_of<T>(*out));
  });
}

ffi::Error pulls_ffi(ffi::ThreadPool pool, int64_t shared, int64_t size, ffi::AnyBuffer w,
                     ffi::AnyBuffer a, ffi::AnyBuffer delta, ffi::AnyBuffer unit, ffi::AnyBuffer at,
                     Begin begin, Out r, Out out) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    const auto models = models_of<T>(w);
    const Range rows = range_from(begin.typed_data()[0], size, models.n);
    run_pulls(workers_for(pool, shared), models, data_of<T>(a), number<T>(delta), number<T>(unit),
              data_of<T>(at), rows, data_of<T>(*r), data_of<T>(*out));
  });
}

ffi::Error medians_ffi(ffi::ThreadPool pool, int64_t shared, int64_t weighted, ffi::AnyBuffer w,
                       ffi::AnyBuffer a, Begin begin, Out out) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    const auto models = models_of<T>(w);
    const Range columns = range_from(begin.typed_data()[0], out->element_count(), models.d);
    run_medians(workers_for(pool, shared), models, weighted ? data_of<T>(a) : nullptr, columns,
                data_of<T>(*out));
  });
}

ffi::Error delta_medians_ffi(ffi::ThreadPool pool, int64_t shared, int64_t weighted,
                             int64_t started, ffi::AnyBuffer w, ffi::AnyBuffer a,
                             ffi::AnyBuffer delta, ffi::AnyBuffer start, Begin begin, Out out,
                             Out left, ffi::Result<ffi::Buffer<ffi::S32>> passes) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    const auto models = models_of<T>(w);
    const Range columns = range_from(begin.typed_data()[0], out->element_count(), models.d);
    passes->typed_data()[0] = int32_t(run_delta_medians(
        workers_for(pool, shared), models, weighted ? data_of<T>(a) : nullptr, number<T>(delta),
        started ? data_of<T>(start) : nullptr, columns, data_of<T>(*out), data_of<T>(*left)));
  });
}

ffi::Error incremental_medians_ffi(ffi::ThreadPool pool, int64_t shared, ffi::AnyBuffer w,
                                   ffi::Buffer<ffi::S32> changed, ffi::AnyBuffer before,
                                   ffi::AnyBuffer delta, ffi::AnyBuffer start, Begin begin,
                                   ffi::AnyBuffer, ffi::Buffer<ffi::S32>, ffi::Buffer<ffi::S32>,
                                   ffi::AnyBuffer, Out out, ffi::Result<ffi::Buffer<ffi::S32>> looked,
                                   Out interval, ffi::Result<ffi::Buffer<ffi::S32>> counts,
                                   ffi::Result<ffi::Buffer<ffi::S32>> sums, Out values) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    const auto models = models_of<T>(w);
    const int64_t d = models.d;
    const Range columns = range_from(begin.typed_data()[0], out->element_count(), d);
    T* edges = data_of<T>(*interval);
    int32_t* count = counts->typed_data();
    double* sum = reinterpret_cast<double*>(sums->typed_data());
    const Memory<T> memory = {edges,         edges + d,     count,       count + d, count + 2 * d,
                              count + 3 * d, sum,           sum + d,     sum + 2 * d,
                              data_of<T>(*values)};
    std::atomic<int64_t> total{0};
    const auto old = models_of<T>(before);
    run_columns(workers_for(pool, shared), models, columns, [&](Range mine, T* room) {
      total += loops<T>().incremental_medians(models, old, changed.typed_data(), number<T>(delta),
                                       data_of<T>(start), mine, memory, room,
                                       data_of<T>(*out) + (mine.begin - columns.begin));
    });
    looked->typed_data()[0] = int32_t(total);
  });
}

ffi::Error few_median_ffi(ffi::ThreadPool pool, int64_t shared, ffi::AnyBuffer w, ffi::AnyBuffer a,
                          ffi::AnyBuffer delta, Out out) {
  return by_type(w, [&](auto zero) {
    using T = decltype(zero);
    run_few_median(workers_for(pool, shared), models_of<T>(w), data_of<T>(a), number<T>(delta),
                   data_of<T>(*out));
  });
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define HANDLER(name, binding)                                                          \
  EXPORT XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) {                                \
    static auto* handler = (binding).release();                                         \
    return handler->Call(frame);                                                        \
  }
#define BIND ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Attr<int64_t>("shared")
#define ANY Arg<ffi::AnyBuffer>()
#define INTS Arg<ffi::Buffer<ffi::S32>>()

HANDLER(fedplus_weighted_sum, BIND.ANY.ANY.INTS.Ret<ffi::AnyBuffer>().To(weighted_sum_ffi))
HANDLER(fedplus_pulls, BIND.Attr<int64_t>("size")
                           .ANY.ANY.ANY.ANY.ANY.INTS.Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .To(pulls_ffi))
HANDLER(fedplus_medians,
        BIND.Attr<int64_t>("weighted").ANY.ANY.INTS.Ret<ffi::AnyBuffer>().To(medians_ffi))
HANDLER(fedplus_delta_medians, BIND.Attr<int64_t>("weighted")
                                   .Attr<int64_t>("started")
                                   .ANY.ANY.ANY.ANY.INTS.Ret<ffi::AnyBuffer>()
                                   .Ret<ffi::AnyBuffer>()
                                   .Ret<ffi::Buffer<ffi::S32>>()
                                   .To(delta_medians_ffi))
HANDLER(fedplus_incremental_medians, BIND.ANY.INTS.ANY.ANY.ANY.INTS.ANY.INTS.INTS.ANY
                                         .Ret<ffi::AnyBuffer>()
                                         .Ret<ffi::Buffer<ffi::S32>>()
                                         .Ret<ffi::AnyBuffer>()
                                         .Ret<ffi::Buffer<ffi::S32>>()
                                         .Ret<ffi::Buffer<ffi::S32>>()
                                         .Ret<ffi::AnyBuffer>()
                                         .To(incremental_medians_ffi))
HANDLER(fedplus_few_median, BIND.ANY.ANY.ANY.Ret<ffi::AnyBuffer>().To(few_median_ffi))

// ---- The same for NumPy arrays

#define C_FUNCTIONS(T, SUFFIX)                                                                    \
  EXPORT void fedplus_weighted_sum_##SUFFIX(const T* w, int64_t n, int64_t d, int64_t stride,     \
                                            const T* p, int64_t threads, T* out) {                \
    run_weighted_sum<T>(Workers(nullptr, threads), {w, n, d, stride}, p, {0, d}, out);            \
  }                                                                                               \
  EXPORT void fedplus_pulls_##SUFFIX(const T* w, int64_t n, int64_t d, int64_t stride,            \
                                     const T* a, double delta, double unit, const T* at,          \
                                     int64_t threads, T* r, T* out) {                             \
    run_pulls<T>(Workers(nullptr, threads), {w, n, d, stride}, a, delta, unit, at, {0, n}, r,     \
                 out);                                                                            \
  }                                                                                               \
  EXPORT void fedplus_medians_##SUFFIX(const T* w, int64_t n, int64_t d, int64_t stride,          \
                                       const T* a, int64_t threads, T* out) {                     \
    run_medians<T>(Workers(nullptr, threads), {w, n, d, stride}, a, {0, d}, out);                 \
  }                                                                                               \
  EXPORT int64_t fedplus_delta_medians_##SUFFIX(const T* w, int64_t n, int64_t d, int64_t stride, \
                                                const T* a, double delta, const T* start,         \
                                                int64_t threads, T* out, T* left) {               \
    return run_delta_medians<T>(Workers(nullptr, threads), {w, n, d, stride}, a, delta, start,    \
                                {0, d}, out, left);                                               \
  }                                                                                               \
  EXPORT void fedplus_few_median_##SUFFIX(const T* w, int64_t n, int64_t d, int64_t stride,       \
                                          const T* a, double delta, int64_t threads, T* out) {    \
    run_few_median<T>(Workers(nullptr, threads), {w, n, d, stride}, a, delta, out);               \
  }
C_FUNCTIONS(float, f32)
C_FUNCTIONS(double, f64)
