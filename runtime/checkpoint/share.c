/* share.c - which values a rank writes, and under which names. What is sharded each rank has alone; of the
 * tensors that a process group holds alike, the largest first, each goes to the rank that has the fewest
 * bytes so far (sorted greedy packing); state is the first rank's. All ranks work it out from the same lists,
 * so nothing is exchanged, and a plan alone tells how much it will be. */
#include "runtime/checkpoint/checkpoint.h"

/* ---- names ---- */

const char *piece_name(arena *a, const char *name, const tensor_type *type, int64_t begin, int64_t end,
                       int first_rank) {
    char rank[24] = "";
    if (first_rank) snprintf(rank, sizeof rank, "@rank%d", first_rank);
    if (begin == 0 && end == type_elements(type)) return arena_printf(a, "%s%s", name, rank);
    return arena_printf(a, "%s@%jd:%s%s", name, begin, TYPE(type), rank);
}

/* Cuts "@rank2" off the name, whose length is *n. */
static bool cut_rank(const char *name, size_t *n, int *first_rank) {
    size_t digits = 0;
    while (digits < *n && digits < 7 && strchr("0123456789", name[*n - 1 - digits])) digits++;
    size_t head = digits + strlen("@rank");
    *first_rank = 0;
    if (!digits || *n <= head || strncmp(name + *n - head, "@rank", strlen("@rank")) != 0) return true;
    *first_rank = atoi(name + *n - digits);
    *n -= head;
    return *first_rank > 0;
}

/* Cuts "@4096:f32[768,3072]" off it. False where there is none; then the tensor is whole. */
static bool cut_range(const char *name, size_t *n, piece_key *key) {
    size_t at = *n;
    while (at > 0 && name[at - 1] != '@') at--;
    if (!at) return false;
    const char *digits = name + at;
    size_t length = strspn(digits, "0123456789");
    if (!length || length > 18 || digits[length] != ':') return false;
    const char *end = digits + length + 1;
    if (!type_parse(&end, &key->type) || end != name + *n || !type_check(&key->type)) return false;
    key->begin = strtoll(digits, NULL, 10);
    *n = at - 1;
    return true;
}

bool piece_parse(piece_key *key, arena *a, const safetensors_tensor *t) {
    size_t n = strlen(t->name);
    *key = (piece_key){.type = t->type};
    if (!cut_rank(t->name, &n, &key->first_rank)) return false;
    bool is_part = cut_range(t->name, &n, key);
    if (!type_check(&t->type) || !n || (is_part && (t->type.ndim != 1 || t->type.dtype != key->type.dtype)))
        return false;
    int64_t whole = type_elements(&key->type);
    key->end = is_part ? t->type.shape[0] : whole;
    if (is_part && (key->begin > whole || key->end > whole - key->begin)) return false;
    key->end += key->begin;
    key->name = arena_printf(a, "%.*s", (int)n, t->name);
    return true;
}

/* ---- who writes what ---- */

/* Bytes that each member of a process group writes so far of what the group holds alike. */
typedef struct group_load {
    const subgraph *group; /* the first of its ranks */
    uint64_t *bytes;       /* [n_ranks of the group] */
} group_load;

static bool same_ranks(const subgraph *a, const subgraph *b) {
    return a->n_ranks == b->n_ranks && memcmp(a->ranks, b->ranks, (size_t)a->n_ranks * sizeof *a->ranks) == 0;
}

/* The load of a group, in a list that has room for all groups. NULL: no memory. */
static group_load *load_of(group_load *list, int *n, const subgraph *group, arena *a) {
    for (int i = 0; i < *n; i++)
        if (same_ranks(list[i].group, group)) return &list[i];
    list[*n] = (group_load){group, arena_new_array(a, group->n_ranks, sizeof(uint64_t))};
    return list[*n].bytes ? &list[(*n)++] : NULL;
}

int least_of(const uint64_t *bytes, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (bytes[i] < bytes[best]) best = i;
    return best;
}

/* Numbers of optimizers are all ranks'. */
static const subgraph *group_of(const weft_plan *plan, const store_part *p) {
    const subgraph *g = p->parameter ? subgraph_of(plan, p->parameter) : NULL;
    return g ? g : &plan->subgraphs[plan->n_subgraphs];
}

/* The list is sorted by name, which breaks ties. */
static int larger_first(const void *a, const void *b) {
    const weight *x = *(const weight *const *)a, *y = *(const weight *const *)b;
    size_t nx = type_bytes(&x->part->type), ny = type_bytes(&y->part->type);
    if (nx != ny) return nx > ny ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool add_piece(share *s, const weight *from, int64_t begin, int64_t end) {
    const store_part *p = from->part;
    piece *to = &s->pieces[s->n];
    *to = (piece){.part = p, .begin = begin, .end = end, .at = s->bytes};
    to->name = piece_name(&s->w.arena, from->name, &p->type, begin, end, p->first_rank);
    int64_t count = end - begin;
    bool is_whole = begin == 0 && end == type_elements(&p->type);
    tensor_type type = is_whole ? p->type : type_of(p->type.dtype, 1, &count);
    s->tensors[s->n++] = (safetensors_tensor){.name = to->name, .says = from->says, .type = type};
    s->bytes += (size_t)count * dtype_bytes(p->type.dtype);
    return to->name != NULL;
}

/* State, and averages of it, may differ from rank to rank (running statistics of norms): as in PyTorch the
 * first rank's is saved, all of it together. What is trained is alike. */
static bool is_alike(const share *s, const store_part *p) {
    return !p->parameter || store_has_parameter(s->w.store, p->parameter);
}

/* Bytes of all ranks: each group that is first of its kind here counts once. */
static bool give_out(share *s, const weft_plan *plan, const weight **order) {
    arena *a = &s->w.arena;
    int n_loads = 0;
    group_load *loads = arena_new_array(a, plan->n_subgraphs + 2, sizeof *loads);
    for (int i = 0; loads && i < s->w.n; i++) {
        const store_part *p = order[i]->part;
        const subgraph *group = group_of(plan, p);
        size_t bytes = type_bytes(&p->type);
        s->all_bytes += bytes;
        if (p->cut && p->cut->n_ranks > 1) {
            if (p->begin < p->end && !add_piece(s, order[i], p->begin, p->end)) return false;
            continue;
        }
        group_load *l = load_of(loads, &n_loads, group, a);
        if (!l) return false;
        int writer = is_alike(s, p) ? least_of(l->bytes, group->n_ranks) : 0;
        l->bytes[writer] += bytes;
        if (writer == group->rank && !add_piece(s, order[i], 0, type_elements(&p->type))) return false;
    }
    return loads != NULL;
}

/* A name of the model that reads as a piece of another tensor would be taken for it. */
static weft_status check_names(share *s, const char *what, weft_error *error) {
    for (int i = 0; i < s->w.n; i++) {
        piece_key key;
        const weight *w = &s->w.list[i];
        safetensors_tensor t = {.name = w->name, .type = w->part->type};
        if (strchr(w->name, '@') &&
            (!piece_parse(&key, &s->w.arena, &t) || !key.name || strcmp(key.name, w->name) != 0))
            return error_set(error, WEFT_NAME, "%.400s: %s: checkpoints use such ends of names: rename it",
                             what, SHOW(w->name));
    }
    return WEFT_OK;
}

weft_status share_collect(share *s, const weft_plan *plan, const weft_store *store, const char *what,
                          weft_error *error) {
    *s = (share){0};
    if (weights_collect(&s->w, store, true, what, error) || check_names(s, what, error)) return error->status;
    size_t n = (size_t)s->w.n + 1;
    const weight **order = arena_new_array(&s->w.arena, n, sizeof *order);
    s->pieces = arena_new_array(&s->w.arena, n, sizeof *s->pieces);
    s->tensors = arena_new_array(&s->w.arena, n, sizeof *s->tensors);
    if (!order || !s->pieces || !s->tensors) return error_memory(error, what);
    for (int i = 0; i < s->w.n; i++) order[i] = &s->w.list[i];
    qsort(order, (size_t)s->w.n, sizeof *order, larger_first);
    return give_out(s, plan, order) ? WEFT_OK : error_memory(error, what);
}

bool share_measure(weft_plan *plan) {
    share s = {0};
    weft_error error = {0};
    weft_store *store = store_outline(plan);
    weft_status status = store ? share_collect(&s, plan, store, "compile", &error) : WEFT_MEMORY;
    if (status == WEFT_MEMORY) model_fail(plan->model, NULL, WEFT_MEMORY, "compile: out of memory");
    if (status) model_fail(plan->model, NULL, status, "%s", error.text); /* a first error stays */
    plan->memory.checkpoint = s.bytes;
    if (store) arena_free(&s.w.arena);
    weft_store_free(store);
    return !status;
}
