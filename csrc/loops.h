// The inner loops of kernels.cc. This file is compiled once per instruction set, each time in a
// namespace of its own, because compilers fix the width of vectors where a function is defined.

// ---- Vectors

// Vectors of GCC and Clang, because compilers do not vectorise short loops reliably.
template <class T, int64_t kSize = kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kSize * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <class T, int64_t kSize = kLanes>
using Vector = typename VectorOf<T, kSize>::type;

template <class T, int64_t kSize = kLanes>
INLINE Vector<T, kSize> load(const T* x) {
  return *reinterpret_cast<const Vector<T, kSize>*>(x);
}

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

// ---- Weighted sum of rows

template <class T>
INLINE void add_rows(const Models<T>& w, const T* p, Range rows, int64_t column, int64_t width,
                     T* total) {
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
void weighted_sum(const Models<T>& w, const T* p, Range columns, T* out) {
  double exact[kTile];
  T partial[kTile];
  for (int64_t c = columns.begin; c < columns.end; c += kTile) {
    const int64_t width = std::min(kTile, columns.end - c);
    std::fill(exact, exact + width, 0.0);
    for (int64_t k = 0; k < w.n; k += kShortSum) {
      std::fill(partial, partial + width, T(0));
      add_rows(w, p, {k, std::min(k + kShortSum, w.n)}, c, width, partial);
      for (int64_t j = 0; j < width; ++j) exact[j] += partial[j];
    }
    for (int64_t j = 0; j < width; ++j) out[c - columns.begin + j] = T(exact[j]);
  }
}

// ---- Distances and pulls

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

// Distances of `count` ≤ 4 rows, which share what is read of `at`.
template <class T>
INLINE void distances(const Models<T>& w, const T* at, int64_t k, int64_t count, T* r) {
  const T* x[4];
  for (int64_t i = 0; i < 4; ++i) x[i] = w.row(k + std::min(i, count - 1));
  double squares[4] = {0, 0, 0, 0};
  for (int64_t c = 0; c < w.d; c += kTile) {
    const int64_t end = std::min(c + kTile, w.d);
    Vector<T> s0 = {}, s1 = {}, s2 = {}, s3 = {};
    int64_t j = c;
    for (; j + kLanes <= end; j += kLanes) {
      const Vector<T> here = load(at + j);
      const Vector<T> a0 = load(x[0] + j) - here, a1 = load(x[1] + j) - here;
      const Vector<T> a2 = load(x[2] + j) - here, a3 = load(x[3] + j) - here;
      s0 += a0 * a0;
      s1 += a1 * a1;
      s2 += a2 * a2;
      s3 += a3 * a3;
    }
    for (int64_t l = 0; l < kLanes; ++l) {
      squares[0] += s0[l];
      squares[1] += s1[l];
      squares[2] += s2[l];
      squares[3] += s3[l];
    }
    for (; j < end; ++j) {
      for (int64_t i = 0; i < 4; ++i) {
        const double away = x[i][j] - at[j];
        squares[i] += away * away;
      }
    }
  }
  // Squares below this may have lost digits; above it, some may have overflowed.
  const double small = std::numeric_limits<T>::min() * double(w.d) * 1e9;
  const double large = double(std::numeric_limits<T>::max()) * 1e-3;
  for (int64_t i = 0; i < count; ++i) {
    const bool safe = squares[i] >= small && squares[i] <= large;
    r[k + i] = T(safe ? std::sqrt(squares[i]) : careful_distance(x[i], at, w.d));
  }
}

// Adds Σ q_k (w_k − at) with q_k = a_k·unit / max(‖w_k − at‖, δ) over some rows to `total`.
template <class T>
void add_pulls(const Models<T>& w, const T* a, double delta, double unit, const T* at,
                      Range rows, T* r, T* total) {
  const double most = double(std::numeric_limits<T>::max()) * 1e-3;
  for (int64_t k = rows.begin; k < rows.end; k += 4) {
    const int64_t count = std::min<int64_t>(4, rows.end - k);
    distances(w, at, k, count, r);
    T q[4] = {};
    const T* x[4];
    for (int64_t i = 0; i < 4; ++i) {
      x[i] = w.row(k + std::min(i, count - 1));
      if (i >= count) continue;
      const double reach = std::max(double(r[k + i]), delta);
      q[i] = T(reach > 0 ? std::min(a[k + i] * (unit / reach), most) : 0);
    }
    const T q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3];
    const T *__restrict x0 = x[0], *__restrict x1 = x[1], *__restrict x2 = x[2];
    const T *__restrict x3 = x[3], *__restrict here = at;
    T* __restrict to = total;
    for (int64_t j = 0; j < w.d; ++j) {
      to[j] += (q0 * (x0[j] - here[j]) + q1 * (x1[j] - here[j])) +
               (q2 * (x2[j] - here[j]) + q3 * (x3[j] - here[j]));
    }
  }
}

template <class T>
void add_partial(const T* partials, int64_t count, int64_t d, Range columns, T* out) {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += partials[i * d + j];
    out[j] = T(sum);
  }
}

// ---- Columns side by side

// A row of a tile: one entry of each of kLanes columns.
template <class T>
INLINE Vector<T>& row_of(T* tile, int64_t k) {
  return *reinterpret_cast<Vector<T>*>(tile + k * kLanes);
}

// Copies columns of W into tiles; lanes beyond the last column repeat it. `odd` becomes 0 for a finite
// column and NaN for another one. Several tiles at a time, because rows of W are far apart in memory.
template <class T>
INLINE void load_tiles(const Models<T>& w, Range columns, T* tiles, T* odd) {
  const int64_t count = (columns.size() + kLanes - 1) / kLanes;
  std::fill(odd, odd + count * kLanes, T(0));
  for (int64_t k = 0; k < w.n; ++k) {
    for (int64_t t = 0; t < count; ++t) {
      const T* x = w.row(k) + columns.begin + t * kLanes;
      T* to = tiles + (t * w.n + k) * kLanes;
      const int64_t last = columns.size() - t * kLanes - 1;
      if (last >= kLanes - 1) {
        row_of(to, 0) = load(x);
      } else {
        for (int64_t l = 0; l < kLanes; ++l) to[l] = x[std::min(l, last)];
      }
      row_of(odd, t) += row_of(to, 0) - row_of(to, 0);
    }
  }
}

constexpr int64_t kNetwork = 64;  // models up to which a sorting network finds the median

// Exchanges of Batcher's odd-even merge sort of n rows, without those that do not reach the rows from
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
    Vector<T>&low = row_of(tile, e.low), &high = row_of(tile, e.high);
    const Vector<T> a = low, b = high;
    low = smaller(a, b);
    high = larger(a, b);
  }
}

// A few rows of a tile tell where a search begins and how far apart the models are.
constexpr int64_t kSample = 15;

template <class T>
struct Sample {
  int64_t size;
  std::vector<Exchange> network;
  explicit Sample(int64_t n)
      : size(std::min(n, kSample)), network(network_for(size, size / 4, size - 1 - size / 4)) {}

  INLINE void take(const T* tile, int64_t n, Vector<T>& median, Vector<T>& spread) const {
    T rows[kSample * kLanes];
    for (int64_t i = 0; i < size; ++i) {
      row_of(rows, i) = load(tile + (2 * i + 1) * n / (2 * size) * kLanes);
    }
    exchange_rows(network, rows);
    median = row_of(rows, size / 2);
    spread = row_of(rows, size - 1 - size / 4) - row_of(rows, size / 4);
  }
};

// The number halfway between two others in the order of their bits, so that few halvings meet.
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

// The weight of entries up to one point per column.
template <class T>
INLINE void count_tile(const T* tile, const T* a, int64_t n, Vector<T> at, double* up_to) {
  const Vector<T> zero = {};
  std::fill(up_to, up_to + kLanes, 0.0);
  for (int64_t first = 0; first < n; first += 4 * kShortSum) {
    const int64_t last = std::min(first + 4 * kShortSum, n);
    Vector<T> sums[4] = {};  // Four at a time, so that no addition waits for the one before.
    for (int64_t k = first; k + 4 <= last; k += 4) {
      for (int64_t i = 0; i < 4; ++i) {
        const T weight = a == nullptr ? T(1) : a[k + i];
        sums[i] += load(tile + (k + i) * kLanes) <= at ? zero + weight : zero;
      }
    }
    for (int64_t k = last - (last - first) % 4; k < last; ++k) {
      sums[0] += load(tile + k * kLanes) <= at ? zero + (a == nullptr ? T(1) : a[k]) : zero;
    }
    const Vector<T> sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int64_t l = 0; l < kLanes; ++l) up_to[l] += sum[l];
  }
}

// The nearest entries on either side of one point per column: at most it, and above it.
template <class T>
INLINE void neighbours(const T* tile, const T* a, int64_t n, Vector<T> at, Vector<T>& below,
                       Vector<T>& above) {
  below = Vector<T>{} - std::numeric_limits<T>::infinity();
  above = -below;
  for (int64_t k = 0; k < n; ++k) {
    if (a != nullptr && a[k] == 0) continue;
    const Vector<T> x = load(tile + k * kLanes);
    below = x <= at ? larger(below, x) : below;
    above = x <= at ? above : smaller(above, x);
  }
}

// The middle of all minimisers of Σ a_k |w_k − w| in each column of a tile. Counting narrows a bracket
// around it; near the end, neighbouring entries close it.
template <class T>
INLINE void medians_by_counting(const T* tile, const T* a, int64_t n, double total, T* found,
                                Vector<T> at, Vector<T> spread) {
  const double tie = 4 * std::numeric_limits<T>::epsilon() * total, near = 3.0 * total / double(n);
  const double tiny = std::numeric_limits<T>::min();
  double low[kLanes], high[kLanes], pull_low[kLanes] = {}, pull_high[kLanes] = {}, up_to[kLanes];
  double pull[kLanes];  // > 0: the median is above
  bool done[kLanes] = {};
  std::fill(low, low + kLanes, -INFINITY);
  std::fill(high, high + kLanes, INFINITY);
  for (int pass = 0, left = kLanes; left > 0; ++pass) {
    count_tile(tile, a, n, at, up_to);
    bool all_near = true;
    for (int64_t l = 0; l < kLanes; ++l) {
      pull[l] = total - 2 * up_to[l];
      all_near = all_near && (done[l] || std::abs(pull[l]) <= near);
    }
    Vector<T> below = at, above = at;
    const bool looked = all_near || pass > 5;
    if (looked) neighbours(tile, a, n, at, below, above);
    for (int64_t l = 0; l < kLanes; ++l) {
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
void medians(const Models<T>& w, const T* a, Range columns, T* room, T* out) {
  const int64_t n = w.n;
  double total = 0;
  for (int64_t k = 0; k < n; ++k) total += a == nullptr ? 1.0 : double(a[k]);
  const bool few = a == nullptr && n <= kNetwork;
  const auto network = few ? network_for(n, (n - 1) / 2, n / 2) : std::vector<Exchange>();
  const Sample<T> sample(n);
  T odds[kTiles * kLanes], found[kLanes] = {};
  for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
    const int64_t lanes = std::min(kLanes, columns.end - c), t = (c - columns.begin) / kLanes % kTiles;
    if (t == 0) load_tiles(w, {c, std::min(c + kTiles * kLanes, columns.end)}, room, odds);
    T *tile = room + t * n * kLanes, *odd = odds + t * kLanes;
    if (few) {
      exchange_rows(network, tile);
      row_of(found, 0) = T(0.5) * row_of(tile, (n - 1) / 2) + T(0.5) * row_of(tile, n / 2);
    } else if (std::all_of(odd, odd + lanes, [](T x) { return x == 0; })) {
      Vector<T> at, spread;
      sample.take(tile, n, at, spread);
      medians_by_counting(tile, a, n, total, found, at, spread);
    }
    for (int64_t l = 0; l < lanes; ++l) out[c - columns.begin + l] = found[l] + odd[l];
  }
}

// ---- δ-medians of columns

// The root of G(w) = Σ a_k clip(w_k − w, −δ, δ) in each column: Newton's method within a bracket. Where
// the roots form an interval, the root is its point nearest to the mean.

// What a pass over a tile finds at one point per column.
template <class V>
struct TileSums {
  V pull = {};    // Σ a_k (w_k − w) over entries within δ
  V inside = {};  // weight within δ
  V up = {};      // weight at least δ above
  V gap = {};     // distance of w to where the next entry enters or leaves the reach of δ
};

// As many columns as fit into registers: all in the type of W, or half of them in double.
template <class N, int64_t kWidth, class T>
INLINE TileSums<Vector<N, kWidth>> sum_tile(const T* tile, const T* a, int64_t n, N delta,
                                            Vector<N, kWidth> at) {
  using V = Vector<N, kWidth>;
  const V zero = {};
  TileSums<V> two[2];  // Two rows at a time, so that no addition waits for the one before.
  two[0].gap = two[1].gap = zero + std::numeric_limits<N>::infinity();
  for (int64_t k = 0; k < n; k += 2) {
    for (int64_t i = 0; i < 2; ++i) {
      if (k + i == n) break;
      const V away = __builtin_convertvector((load<T, kWidth>(tile + (k + i) * kLanes)), V) - at;
      const V size = absolute(away), weight = zero + (a == nullptr ? N(1) : N(a[k + i]));
      const auto within = size < delta;
      two[i].pull += within ? weight * away : zero;
      two[i].inside += within ? weight : zero;
      two[i].up += away >= delta ? weight : zero;
      two[i].gap = smaller(two[i].gap, absolute(size - delta));
    }
  }
  return {two[0].pull + two[1].pull, two[0].inside + two[1].inside, two[0].up + two[1].up,
          smaller(two[0].gap, two[1].gap)};
}

// Moves w to about the root in all columns at once, in the type of W.
template <class T>
INLINE Vector<T> rough_roots(const T* tile, const T* a, int64_t n, T total, T delta, Vector<T> at,
                             Vector<T> spread) {
  const Vector<T> zero = {}, one = zero + T(1), infinite = zero + std::numeric_limits<T>::infinity();
  Vector<T> low = -infinite, high = infinite;
  Vector<T> pull_low = {}, pull_high = {}, inside_before = zero - one, up_before = {};
  for (int pass = 0; pass < 10; ++pass) {
    const auto sums = sum_tile<T, kLanes>(tile, a, n, delta, at);
    const Vector<T> pull = sums.pull + delta * (2 * sums.up + sums.inside - total);
    const auto upwards = pull > 0;
    low = upwards ? at : low;
    pull_low = upwards ? pull : pull_low;
    high = upwards ? high : at;
    pull_high = upwards ? pull_high : pull;
    const Vector<T> outwards = T(0.5) * spread * pull / (total * delta) + (upwards ? one : -one) * delta;
    Vector<T> next = at + (sums.inside > 0 ? pull / sums.inside : outwards);
    const Vector<T> share = pull_low / (pull_low - pull_high);
    const Vector<T> between = low + (high - low) * (pass % 3 == 2 ? zero + T(0.5) : share);
    const auto bracketed = (low > -infinite) & (high < infinite);
    next = ((next >= low) & (next <= high)) | ~bracketed ? next : between;
    const auto same = (sums.inside == inside_before) & (sums.up == up_before);
    const auto still = (sums.inside == 0) & (pull == 0);
    next = still ? at : next;
    bool settled = true;
    for (int64_t l = 0; l < kLanes; ++l) settled = settled && (same[l] || still[l]);
    at = next;
    if (settled) break;
    inside_before = sums.inside;
    up_before = sums.up;
  }
  return at;
}

// If the weights on both sides of w balance and nobody is within δ of some point near w, the roots form
// an interval: its point nearest to the mean. NaN in other columns.
template <int64_t kWidth, class T>
INLINE Vector<double, kWidth> flat_roots(const T* tile, const T* a, int64_t n, double total,
                                         double delta, Vector<double, kWidth> at) {
  using V = Vector<double, kWidth>;
  const V zero = {}, infinite = zero + INFINITY;
  V below = -infinite, above = infinite, sum = {}, more = {};
  for (int64_t k = 0; k < n; ++k) {
    const double weight = a == nullptr ? 1.0 : double(a[k]);
    if (weight == 0) continue;
    const V x = __builtin_convertvector((load<T, kWidth>(tile + k * kLanes)), V);
    sum += weight * x;
    more += x < at ? zero - weight : zero + weight;
    below = x < at ? larger(below, x) : below;
    above = x < at ? above : smaller(above, x);
  }
  const double tie = 4 * std::numeric_limits<T>::epsilon() * total;
  const auto flat = (absolute(more) <= tie) & (above - below >= 2 * delta);
  const V nearest = smaller(larger(sum / total, below + delta), above - delta);
  return flat ? nearest : zero + NAN;
}

constexpr int kNewton = 30;   // passes before the bracket is halved instead
constexpr int kPasses = 110;  // enough for any column

// Solves one column that the steps above leave open: one on which an entry is just δ away from the root,
// or one on which Newton's steps go astray. Halving the bracket ends it in any case.
template <class T>
void root_of_column(const T* column, const T* a, int64_t n, double total, double delta, double spread,
                    double& at, bool& done) {
  const double eps = std::numeric_limits<double>::epsilon(), rounding = 4 * eps;
  double low = -INFINITY, high = INFINITY, pull_low = 0, pull_high = 0, up_before = -1, down_before = -1;
  double before = at;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double flat = flat_roots<1>(column, a, n, total, delta, Vector<double, 1>{at})[0];
    if (!std::isnan(flat)) {
      at = flat;
      done = true;
      return;
    }
    const auto sums = sum_tile<double, 1>(column, a, n, delta, Vector<double, 1>{at});
    const double inside = sums.inside[0], up = sums.up[0];
    const double down = total - inside - up, sum = sums.pull[0] + delta * (up - down);
    // The same entries within δ as at the last point: the sum is linear in between, and so is its root
    // there. A step too short to see counts only if the entries within δ outweigh the others.
    const double step = inside > 0 ? sum / inside : 0, newton = at + step;
    const bool between = (newton - at) * (newton - before) <= 0;
    const bool same = between && up == up_before && std::abs(down - down_before) <= rounding * total;
    const bool still = std::abs(step) <= rounding * std::abs(at) && std::abs(up - down) <= inside;
    if (inside > 0 && (same || still)) {
      at = newton;
      done = true;
      return;
    }
    up_before = up;
    down_before = down;
    (sum > 0 ? low : high) = at;
    (sum > 0 ? pull_low : pull_high) = sum;
    double next;
    if (newton != at && pass < kNewton && newton > low && newton < high) {
      next = newton;
    } else if (std::isinf(low) || std::isinf(high)) {
      const double reach = (std::abs(sum) / total * spread + delta) * std::ldexp(1.0, 2 * pass);
      next = sum > 0 ? at + reach : at - reach;
    } else if (pass < kNewton && pass % 3 != 2) {
      next = low + (high - low) * (pull_low / (pull_low - pull_high));
    } else {
      next = halfway(low, high);
    }
    if (!(next > low && next < high)) {
      const double most = std::numeric_limits<T>::max();
      next = halfway(std::max(low, -most), std::min(high, most));
    }
    done = next == low || next == high;  // Neighbouring numbers: the root is between them.
    before = at;
    at = next;
    if (done) return;
  }
}

template <class T>
int64_t delta_medians(const Models<T>& w, const T* a, double delta, const T* start,
                             Range columns, T* room, T* out, T* left) {
  constexpr int64_t kHalf = kLanes / 2;
  using Doubles = Vector<double, kHalf>;
  const int64_t n = w.n;
  double total = 0;
  for (int64_t k = 0; k < n; ++k) total += a == nullptr ? 1.0 : double(a[k]);
  const Sample<T> sample(n);
  T odds[kTiles * kLanes], begin[kLanes];
  int64_t open = 0;
  for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
    const int64_t lanes = std::min(kLanes, columns.end - c), t = (c - columns.begin) / kLanes % kTiles;
    if (t == 0) load_tiles(w, {c, std::min(c + kTiles * kLanes, columns.end)}, room, odds);
    const T *tile = room + t * n * kLanes, *odd = odds + t * kLanes;
    Vector<T> at, spread;
    sample.take(tile, n, at, spread);
    if (start != nullptr) {
      for (int64_t l = 0; l < kLanes; ++l) begin[l] = start[c + std::min(l, lanes - 1)];
      const Vector<T> given = load(begin);
      at = absolute(given - at) <= 8 * spread + T(delta) ? given : at;
    }
    at = rough_roots(tile, a, n, T(total), T(delta), at, spread);
    for (int64_t half = 0; half < kLanes; half += kHalf) {
      Doubles here;
      for (int64_t l = 0; l < kHalf; ++l) here[l] = at[half + l];
      const auto sums = sum_tile<double, kHalf>(tile + half, a, n, delta, here);
      const Doubles pull = sums.pull + delta * (2 * sums.up + sums.inside - total);
      const Doubles step = pull / sums.inside;
      // Nobody enters or leaves the reach of δ on the way, so that the root is where the step leads.
      const auto sure = (sums.inside > 0) & (absolute(step) < 0.5 * sums.gap);
      Doubles root = here + step;
      bool all_sure = true;
      for (int64_t l = 0; l < kHalf; ++l) all_sure = all_sure && sure[l];
      if (!all_sure) root = sure ? root : flat_roots<kHalf>(tile + half, a, n, total, delta, here);
      for (int64_t l = half; l < std::min(half + kHalf, lanes); ++l) {
        double found = root[l - half];
        bool done = !std::isnan(found);
        if (!done && odd[l] == 0) {
          found = std::isfinite(double(at[l])) ? double(at[l]) : double(tile[l]);
          root_of_column(tile + l, a, n, total, delta, double(spread[l]), found, done);
        }
        open += done ? 0 : 1;
        out[c - columns.begin + l] = T(found) + odd[l];
        left[c - columns.begin + l] = T(done ? 0 : 1);
      }
    }
  }
  return open;
}

// ---- δ-medians of columns of which few entries change

// What is remembered of one column: for every w in [low, high], G(w) follows from two counts, a linear
// part and a short list. Entries are `up` if they pull w up by δ wherever in the interval it is, `down`
// if they pull it down by δ, `linear` if they stay within δ of it, and else they are listed. With δ = 0
// the same counts and list give the median.
struct Edges {
  double up, down, linear_from, linear_to;
};

INLINE Edges edges(double low, double high, double delta) {
  return {high + delta, low - delta, high - delta, low + delta};
}

// Adds (sign = 1) or removes (sign = −1) one entry.
template <class T>
INLINE void count_entry(const Memory<T>& m, int64_t j, double delta, T entry, int sign) {
  if (m.listed[j] < 0) return;
  const double x = entry;
  const Edges e = edges(m.low[j], m.high[j], delta);
  m.sum[j] += sign * x;
  m.largest[j] = std::max(m.largest[j], std::abs(x));
  if (x >= e.up) {
    m.up[j] += sign;
  } else if (x <= e.down) {
    m.down[j] += sign;
  } else if (x >= e.linear_from && x <= e.linear_to) {
    m.linear[j] += sign;
    m.linear_sum[j] += sign * x;
  } else if (T* list = m.values + j * kRoom; sign > 0) {
    if (m.listed[j] == kRoom) {
      m.listed[j] = -1;
    } else {
      list[m.listed[j]++] = entry;
    }
  } else {
    T* last = list + m.listed[j];
    T* found = std::find(list, last, entry);
    if (found == last) {
      m.listed[j] = -1;
    } else {
      *found = *(last - 1);
      --m.listed[j];
    }
  }
}

// The root within the interval, from what is remembered; NaN if it is not there.
template <class T>
INLINE double remembered_root(const Memory<T>& m, int64_t j, double delta, int64_t n, double at) {
  const int64_t listed = m.listed[j];
  T* list = m.values + j * kRoom;
  const double low = m.low[j], high = m.high[j];
  if (listed < 0) return NAN;
  if (delta == 0) {
    const int64_t first = (n - 1) / 2 - m.down[j], second = n / 2 - m.down[j];
    if (first < 0 || second >= listed) return NAN;
    std::nth_element(list, list + second, list + listed);
    const T upper = list[second];
    const T lower = first == second ? upper : *std::max_element(list, list + second);
    return double(T(0.5) * lower + T(0.5) * upper);
  }
  // What may have been lost of the sums when large entries came and went.
  const double lost = 1e-13 * m.largest[j], eps = std::numeric_limits<double>::epsilon();
  const double balance = m.linear_sum[j] + delta * (m.up[j] - m.down[j]);
  double lower = low, upper = high, last_inside = -1, last_outside = 0;
  at = std::min(std::max(at, low), high);
  double before = at;
  for (int pass = 0; pass < 80; ++pass) {
    double pull = 0, inside = 0, deep = 0, more = 0;
    const double inner = delta - 16 * eps * (std::abs(at) + delta);
    for (int64_t i = 0; i < listed; ++i) {
      const double away = double(list[i]) - at, size = std::abs(away);
      pull += size < delta ? away : 0.0;
      inside += size < delta ? 1.0 : 0.0;
      deep += size < inner ? 1.0 : 0.0;
      more += size < delta ? 0.0 : (away > 0 ? 1.0 : -1.0);
    }
    const double slope = m.linear[j] + inside;
    const double sum = balance - m.linear[j] * at + pull + delta * more;
    const double outside = m.up[j] - m.down[j] + more;
    if (m.linear[j] + deep == 0 && std::abs(outside) <= inside) {
      double below = low - delta, above = high + delta, side = m.up[j] - m.down[j];
      for (int64_t i = 0; i < listed; ++i) {
        const double x = list[i];
        side += x < at ? -1 : 1;
        if (x < at) below = std::max(below, x);
        if (x >= at) above = std::min(above, x);
      }
      if (side == 0) {
        const double mean = m.sum[j] / n, slack = lost * 1e-3;
        const double one = std::min(std::max(mean - slack, below + delta), above - delta);
        const double two = std::min(std::max(mean + slack, below + delta), above - delta);
        const bool sure = two - one <= eps * 1e6 * (std::abs(one) + delta);
        return sure && one > low && one < high ? one : NAN;
      }
    }
    const double newton = at + (slope > 0 ? sum / slope : 0);
    const bool between = (newton - at) * (newton - before) <= 0;
    const bool same = between && inside == last_inside && outside == last_outside;
    if (slope > 0 && (same || newton == at) && lost <= 1e-7 * slope * delta) {
      return newton >= low && newton <= high ? newton : NAN;
    }
    last_inside = inside;
    last_outside = outside;
    if (sum > 0) lower = at;
    if (sum < 0) upper = at;
    if ((sum > 0 && at == high) || (sum < 0 && at == low)) return NAN;
    double next = newton;
    if (slope == 0 || !(next > lower && next < upper) || pass % 8 == 7) {
      next = slope > 0 && next >= upper && upper == high ? high
             : slope > 0 && next <= lower && lower == low ? low
                                                          : 0.5 * lower + 0.5 * upper;
    }
    if (next == at) return NAN;
    before = at;
    at = next;
  }
  return NAN;
}

// Fills in what is to be remembered of a column, of which `root` is the δ-median.
template <class T>
INLINE void remember(const Memory<T>& m, int64_t j, const T* tile, int64_t lane, int64_t n,
                     double delta, double root, double scale) {
  double width = m.listed[j] >= 0 && m.high[j] > m.low[j] ? 0.5 * (double(m.high[j]) - m.low[j])
                                                          : scale * 16.0 / double(n);
  const double least = 4 * std::numeric_limits<T>::epsilon() * (std::abs(root) + delta);
  width = std::max(width, least);
  for (int attempt = 0; attempt < 60; ++attempt) {
    int64_t listed = 0;
    const double from = delta - width, to = delta + width;
    for (int64_t k = 0; k < n; ++k) {
      const double size = std::abs(double(tile[k * kLanes + lane]) - root);
      listed += (size > from) & (size < to) ? 1 : 0;
    }
    if (listed > kRoom * 2 / 3) {
      width *= 0.5;
    } else if (listed < kRoom / 6 && attempt < 6) {
      width *= 1.5;
    } else {
      break;
    }
  }
  m.low[j] = T(root - width);
  m.high[j] = T(root + width);
  m.up[j] = m.down[j] = m.linear[j] = m.listed[j] = 0;
  m.linear_sum[j] = m.sum[j] = m.largest[j] = 0;
  if (!(double(m.low[j]) < root && root < double(m.high[j]))) m.listed[j] = -1;
  for (int64_t k = 0; k < n; ++k) count_entry(m, j, delta, tile[k * kLanes + lane], 1);
}

// Columns of W, in which only the rows `changed` differ from the last call, where they were `before`.
template <class T>
int64_t incremental_medians(const Models<T>& w, const Models<T>& before,
                                   const int32_t* changed, double delta, const T* start,
                                   Range columns, const Memory<T>& m, T* room, T* out) {
  int64_t looked = 0;
  for (int64_t c = columns.begin; c < columns.end; c += kLanes) {
    const int64_t lanes = std::min(kLanes, columns.end - c);
    for (int64_t i = 0; i < before.n; ++i) {
      const T *old = before.row(i) + c, *now = w.row(changed[i]) + c;
      for (int64_t l = 0; l < lanes; ++l) {
        if (old[l] == now[l]) continue;
        count_entry(m, c + l, delta, old[l], -1);
        count_entry(m, c + l, delta, now[l], 1);
      }
    }
    bool lost = false;
    for (int64_t l = 0; l < lanes; ++l) {
      const double root = remembered_root(m, c + l, delta, w.n, double(start[c + l]));
      out[c - columns.begin + l] = T(root);
      lost = lost || std::isnan(root);
    }
    if (!lost) continue;
    T found[kLanes], left[kLanes], odd[kLanes];
    ++looked;
    if (delta > 0) {
      delta_medians<T>(w, nullptr, delta, start, {c, c + lanes}, room, found, left);
    } else {
      medians<T>(w, nullptr, {c, c + lanes}, room, found);
    }
    load_tiles(w, {c, c + lanes}, room, odd);
    for (int64_t l = 0; l < lanes; ++l) {
      if (!std::isnan(double(out[c - columns.begin + l]))) continue;
      out[c - columns.begin + l] = found[l];
      const double scale = std::abs(double(found[l]) - double(room[l])) + delta;
      if (std::isfinite(double(found[l]))) {
        remember(m, c + l, room, l, w.n, delta, double(found[l]), scale);
      }
    }
  }
  return looked;
}

// ---- Products of a few models

// Adds the products (w_k − w_centre)·(w_l − w_centre) over some columns to `gram`.
template <class T>
void add_gram(const Models<T>& w, int64_t centre, Range columns, double* gram) {
  constexpr int64_t kWidth = 512;
  T away[kFewModels][kWidth];
  for (int64_t c = columns.begin; c < columns.end; c += kWidth) {
    const int64_t width = std::min(kWidth, columns.end - c);
    for (int64_t k = 0; k < w.n; ++k) {
      for (int64_t j = 0; j < kWidth; ++j) {
        away[k][j] = j < width ? w.row(k)[c + j] - w.row(centre)[c + j] : T(0);
      }
    }
    for (int64_t k = 0; k < w.n; ++k) {
      for (int64_t other = 0; other <= k; ++other) {
        T lanes[kLanes] = {};
        for (int64_t j = 0; j < kWidth; j += kLanes) {
          for (int64_t l = 0; l < kLanes; ++l) lanes[l] += away[k][j + l] * away[other][j + l];
        }
        double sum = 0;
        for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
        gram[k * w.n + other] += sum;
      }
    }
  }
}
