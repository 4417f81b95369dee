/* The Gray-Scott model of two reacting and diffusing chemicals U and V, in a periodic cube:
 *
 *     du/dt = Du L(u) - u v^2 + F (1 - u)
 *     dv/dt = Dv L(v) + u v^2 - (F + k) v
 *
 * with L the 7-point Laplacian and explicit Euler steps.  From a few seeds of V it grows into
 * labyrinths: fields with smooth parts, fronts and empty space, as simulations write them.
 *
 * A template: define REAL (float or double) and NAME(x), which gives the names a suffix, then
 * include.  Each field has one layer of ghost cells on every side, which hold the opposite face.
 */

typedef struct {
    size_t n;             /* cells per side, without the ghosts */
    REAL *u, *v;          /* now */
    REAL *next_u, *next_v;
} NAME(model);

static size_t NAME(at)(const NAME(model) *m, size_t z, size_t y, size_t x)
{
    return (z * (m->n + 2) + y) * (m->n + 2) + x;
}

/* Copies the outermost cells to the ghosts of the opposite face, one axis after another, so that
 * edges and corners are correct too. */
static void NAME(wrap)(const NAME(model) *m, REAL *f)
{
    const size_t n = m->n;
    for (size_t a = 1; a <= n; a++)
        for (size_t b = 1; b <= n; b++) {
            f[NAME(at)(m, a, b, 0)] = f[NAME(at)(m, a, b, n)];
            f[NAME(at)(m, a, b, n + 1)] = f[NAME(at)(m, a, b, 1)];
        }
    for (size_t a = 1; a <= n; a++)
        for (size_t b = 0; b <= n + 1; b++) {
            f[NAME(at)(m, a, 0, b)] = f[NAME(at)(m, a, n, b)];
            f[NAME(at)(m, a, n + 1, b)] = f[NAME(at)(m, a, 1, b)];
        }
    for (size_t a = 0; a <= n + 1; a++)
        for (size_t b = 0; b <= n + 1; b++) {
            f[NAME(at)(m, 0, a, b)] = f[NAME(at)(m, n, a, b)];
            f[NAME(at)(m, n + 1, a, b)] = f[NAME(at)(m, 1, a, b)];
        }
}

/* One row along x.  A separate function, so that the compiler knows that the rows do not overlap
 * and vectorizes. */
static void NAME(step_row)(size_t n, size_t dy, size_t dz, const REAL *u, const REAL *v,
                           REAL *restrict next_u, REAL *restrict next_v)
{
    const REAL du = (REAL)0.2, dv = (REAL)0.1, feed = (REAL)0.02, kill = (REAL)0.048, sixth = (REAL)(1.0 / 6.0);
    for (size_t x = 0; x < n; x++) {
        const REAL *pu = u + x, *pv = v + x;
        const REAL lu = (pu[-1] + pu[1] + *(pu - dy) + pu[dy] + *(pu - dz) + pu[dz]) * sixth - *pu;
        const REAL lv = (pv[-1] + pv[1] + *(pv - dy) + pv[dy] + *(pv - dz) + pv[dz]) * sixth - *pv;
        const REAL uvv = *pu * *pv * *pv;
        next_u[x] = *pu + (du * lu - uvv + feed * (1 - *pu));
        next_v[x] = *pv + (dv * lv + uvv - (feed + kill) * *pv);
    }
}

static void NAME(step)(NAME(model) *m)
{
    const size_t dy = m->n + 2, dz = dy * dy;
    NAME(wrap)(m, m->u);
    NAME(wrap)(m, m->v);
    for (size_t z = 1; z <= m->n; z++)
        for (size_t y = 1; y <= m->n; y++) {
            const size_t i = NAME(at)(m, z, y, 1);
            NAME(step_row)(m->n, dy, dz, m->u + i, m->v + i, m->next_u + i, m->next_v + i);
        }
    REAL *old_u = m->u, *old_v = m->v;
    m->u = m->next_u, m->v = m->next_v;
    m->next_u = old_u, m->next_v = old_v;
}

/* u = 1, v = 0, except for one cube of 6 cells in about every 21^3, at pseudo-random positions. */
static void NAME(start)(NAME(model) *m, size_t n)
{
    const size_t cells = (n + 2) * (n + 2) * (n + 2), side = 6, seeds = 1 + n * n * n / 9000;
    m->n = n;
    m->u = allocate(cells, sizeof(REAL)), m->next_u = allocate(cells, sizeof(REAL));
    m->v = allocate(cells, sizeof(REAL)), m->next_v = allocate(cells, sizeof(REAL));
    for (size_t i = 0; i < cells; i++)
        m->u[i] = 1, m->v[i] = 0;
    uint32_t random = 2463534242u;
    for (size_t s = 0; s < seeds; s++) {
        size_t corner[3];
        for (int axis = 0; axis < 3; axis++) {
            random ^= random << 13, random ^= random >> 17, random ^= random << 5; /* xorshift32 */
            corner[axis] = 1 + random % (n - side);
        }
        for (size_t z = 0; z < side; z++)
            for (size_t y = 0; y < side; y++)
                for (size_t x = 0; x < side; x++) {
                    const size_t i = NAME(at)(m, corner[0] + z, corner[1] + y, corner[2] + x);
                    m->u[i] = (REAL)0.25, m->v[i] = (REAL)0.33;
                }
    }
}

static void NAME(stop)(NAME(model) *m)
{
    free(m->u), free(m->v), free(m->next_u), free(m->next_v);
}
